from __future__ import annotations

import re
from typing import Any

import pytest

from encoder_operator import spec
from encoder_operator.errors import InvalidSpecError
from tests.support.pool_objects import a_pool, pool_object


def test_a_pool_is_read_with_the_defaults_of_the_schema() -> None:
    pool = a_pool()
    assert (pool.name, pool.namespace, pool.generation) == ("vision", "models", 1)
    assert pool.spec.model.source == spec.ClaimSource(claim_name="weights", sub_path="qwen")
    assert pool.spec.model.identity.policy is spec.IdentityPolicy.LEARN
    assert pool.spec.modalities == (spec.ModalitySpec(type="image", max_pixels=16777216, max_items=16),)
    assert (pool.spec.replicas, pool.spec.image_pull_policy, pool.spec.resources) == (1, "IfNotPresent", {})
    assert pool.spec.server == spec.ServerSpec(
        device=spec.Device.AUTO,
        max_in_flight=64,
        deadline_seconds=60,
        fetch=spec.FetchSpec(url_fetch=spec.UrlFetch.DENY, hosts=()),
    )
    assert pool.spec.quarantine == spec.QuarantineSpec(
        mode=spec.Mode.REPAIR,
        max_cordoned=spec.Share(count=None, per_cent=20),
        min_serving=1,
        base_seconds=30,
        max_seconds=600,
        max_restarts=3,
    )
    assert pool.spec.management is spec.Management.ACTIVE
    assert pool.status == {}


@pytest.mark.parametrize(
    ("said", "replicas", "allowed"),
    [("20%", 1, 1), ("20%", 5, 1), ("20%", 6, 2), ("0%", 100, 0), ("100%", 3, 3), (0, 3, 0), (2, 1, 2)],
)
def test_a_share_of_the_replicas_is_rounded_up(said: int | str, replicas: int, allowed: int) -> None:
    quarantine = a_pool(quarantine={"maxCordoned": said}).spec.quarantine
    assert quarantine.max_cordoned.of(replicas) == allowed


def test_quantities_are_text_however_they_were_written() -> None:
    resources = {"requests": {"cpu": 2}, "limits": {}}
    assert a_pool(resources=resources).spec.resources == {"requests": {"cpu": "2"}}


def test_the_last_status_is_handed_on() -> None:
    assert spec.parse(pool_object() | {"status": {"replicas": 3}}).status == {"replicas": 3}


def test_a_default_that_nobody_filled_in_is_an_error_and_not_a_guess() -> None:
    pool = pool_object()
    del pool["spec"]["integrity"]
    with pytest.raises(InvalidSpecError, match=r"^spec\.integrity: is missing: .* CRD") as refused:
        spec.parse(pool)
    assert refused.value.reason == "InvalidSpec"
    assert not refused.value.retryable


def test_a_field_of_a_later_release_does_not_stop_the_pool() -> None:
    assert a_pool(autoscaling={"maxReplicas": 3}).spec == a_pool().spec


@pytest.mark.parametrize("name", ["1st", "a.b", "a-", "a" * 64, "Vision"])
def test_a_name_that_no_service_can_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidSpecError, match=r"^metadata\.name: "):
        spec.parse(pool_object(name))


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("replicas", "3"),
        ("replicas", True),
        ("image", 1),
        ("image", "image\n"),
        ("model", []),
        ("modalities", {}),
        ("modalities", ["image"]),
        ("resources", {"limits": {"cpu": True}}),
        ("resources", {"limits": {"cpu": "-1"}}),
    ],
)
def test_a_value_of_the_wrong_type_is_never_converted(path: str, value: Any) -> None:
    pool = pool_object()
    pool["spec"][path] = value
    with pytest.raises(InvalidSpecError, match=rf"^spec\.{path}"):
        spec.parse(pool)


@pytest.mark.parametrize(
    "path", ["cache.memory", "integrity.probePeriodSeconds", "rollout", "disruption", "management"]
)
def test_a_field_that_the_stored_schema_is_too_old_to_fill_in_is_named_with_what_to_do(path: str) -> None:
    pool = pool_object()
    *parents, name = path.split(".")
    below = pool["spec"]
    for parent in parents:
        below = below[parent]
    del below[name]
    with pytest.raises(InvalidSpecError, match=rf"^spec\.{re.escape(path)}: is missing: .*install this release's CRD"):
        spec.parse(pool)
