from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from encoder_operator import vocabulary
from encoder_operator.errors import InvalidSpecError
from encoder_operator.spec import parse
from tests.support.pool_objects import CRD, ROOT, SCHEMA, defaulted, pool_object

HERE = Path(__file__).parent / "crd"
VALID = yaml.safe_load((HERE / "valid.yaml").read_text())
INVALID = yaml.safe_load((HERE / "invalid.yaml").read_text())
SPEC = SCHEMA["properties"]["spec"]


def pool_with(said: dict[str, Any]) -> dict[str, Any]:
    return pool_object() | {"spec": defaulted(said)}


def test_the_chart_brings_the_same_schema_byte_for_byte() -> None:
    chart = ROOT / "charts" / "encoderpool" / "files" / "encoderpools.yaml"
    assert chart.read_bytes() == (ROOT / "crds" / "encoderpools.yaml").read_bytes(), "run: make crds"


def test_the_resource_is_named_as_agreed() -> None:
    names = CRD["spec"]["names"]
    assert CRD["spec"]["group"] == vocabulary.GROUP
    assert CRD["spec"]["versions"][0]["name"] == vocabulary.VERSION
    assert (names["kind"], names["plural"]) == (vocabulary.KIND, vocabulary.PLURAL)
    assert names["shortNames"] == [vocabulary.SHORT_NAME]


@pytest.mark.parametrize("said", VALID.values(), ids=VALID.keys())
def test_what_the_schema_takes_can_be_read(said: dict[str, Any]) -> None:
    jsonschema.validate(defaulted(said), SPEC)
    parse(pool_with(said))


@pytest.mark.parametrize("case", INVALID.values(), ids=INVALID.keys())
def test_what_cannot_be_honoured_is_refused_with_the_field_and_what_to_do(case: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpecError) as refused:
        parse(pool_with(case["spec"]))
    assert refused.value.path == case["field"]
    assert case.get("says", "") in refused.value.message


def fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, below in schema.get("properties", {}).items():
        yield from fields(below, f"{path}.{name}")
    if "items" in schema:
        for name, below in schema["items"].get("properties", {}).items():
            yield from fields(below, f"{path}[].{name}")


FIELDS = [*fields(SPEC, "spec"), *fields(SCHEMA["properties"]["status"], "status")]


@pytest.mark.parametrize(("path", "schema"), FIELDS, ids=[path for path, _ in FIELDS])
def test_every_field_is_documented_and_none_is_a_float_or_a_boolean(path: str, schema: dict[str, Any]) -> None:
    assert schema["description"].strip()
    assert schema.get("type") not in ("number", "boolean")


def test_every_rule_says_what_to_do() -> None:
    for _, schema in [("root", SCHEMA), *FIELDS]:
        for rule in schema.get("x-kubernetes-validations", ()):
            assert rule["message"]
