from __future__ import annotations

import copy
from typing import Any

import pytest

from encoder_operator.comparison import holds

MANIFEST: dict[str, Any] = {
    "metadata": {"name": "vision", "labels": {"a": "1"}},
    "spec": {
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
        "limits": {"cpu": "0.5", "memory": "1024Mi"},
    },
}


def live() -> dict[str, Any]:
    """The manifest as the API server hands it back: with defaults, its own notation, and others' fields."""
    return {
        "metadata": {
            "name": "vision",
            "uid": "u",
            "labels": {"a": "1", "theirs": "2"},
            "managedFields": [
                {"manager": "somebody", "operation": "Update", "fieldsV1": {"f:data": {}}},
                {
                    "manager": "encoderpool-operator",
                    "operation": "Apply",
                    "fieldsV1": {
                        "f:metadata": {"f:labels": {"f:a": {}}},
                        "f:spec": {
                            "f:limits": {"f:cpu": {}, "f:memory": {}},
                            "f:ports": {
                                'k:{"port":80,"protocol":"TCP"}': {
                                    ".": {},
                                    "f:name": {},
                                    "f:port": {},
                                    "f:protocol": {},
                                }
                            },
                        },
                    },
                },
            ],
        },
        "spec": {
            "type": "ClusterIP",
            "ports": [{"name": "http", "port": 80, "protocol": "TCP", "targetPort": 80}],
            "limits": {"cpu": "500m", "memory": "1Gi"},
        },
    }


def without(path: str) -> dict[str, Any]:
    manifest = copy.deepcopy(MANIFEST)
    *above, last = path.split(".")
    below = manifest
    for name in above:
        below = below[name]
    del below[last]
    return manifest


def test_defaults_and_fields_of_others_are_no_difference() -> None:
    assert holds(live(), MANIFEST)


@pytest.mark.parametrize(("wanted", "there"), [("0.5", "500m"), ("1e3", "1k"), ("1.5Gi", "1536Mi"), ("2", "2")])
def test_one_quantity_in_two_notations_is_no_difference(wanted: str, there: str) -> None:
    assert holds(live() | {"q": there}, MANIFEST | {"q": wanted})


@pytest.mark.parametrize(("wanted", "there"), [("1", "2"), ("1Gi", "1G"), ("on", "off"), ("1.2.3", "1.2.4"), ("1", 1)])
def test_another_value_is_a_difference(wanted: str, there: object) -> None:
    assert not holds(live() | {"q": there}, MANIFEST | {"q": wanted})


def test_a_missing_field_is_a_difference() -> None:
    assert not holds(live(), MANIFEST | {"data": {"key": "value"}})


def test_a_longer_list_is_a_difference() -> None:
    assert not holds(live() | {"list": ["a", "b"]}, MANIFEST | {"list": ["a"]})


def test_a_key_that_somebody_added_to_a_selector_is_a_difference() -> None:
    """A selector is one value: with a key more, the Service has no endpoints and yet all that was asked for."""
    selector = {"encoderpool.io/pool": "vision"}
    assert holds(live() | {"selector": selector}, MANIFEST | {"selector": selector})
    assert not holds(live() | {"selector": selector | {"theirs": "2"}}, MANIFEST | {"selector": selector})


@pytest.mark.parametrize("path", ["metadata.labels.a", "metadata.labels", "spec.limits.cpu", "spec.ports"])
def test_a_field_that_we_own_and_no_longer_name_is_a_difference(path: str) -> None:
    assert not holds(live(), without(path))


def test_a_list_item_that_we_own_and_no_longer_name_is_a_difference() -> None:
    there = live()
    owned = there["metadata"]["managedFields"][1]["fieldsV1"]["f:spec"]["f:ports"]
    owned['k:{"port":81,"protocol":"TCP"}'] = {".": {}}
    assert not holds(there, MANIFEST)


@pytest.mark.parametrize("entry", [{"operation": "Update"}, {"manager": "kubectl"}, {"subresource": "status"}])
def test_an_object_that_we_never_applied_is_a_difference(entry: dict[str, str]) -> None:
    there = live()
    there["metadata"]["managedFields"][1] |= entry
    assert not holds(there, MANIFEST)
