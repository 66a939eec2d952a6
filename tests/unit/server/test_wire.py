"""Requests in, answers out, without a server."""

import json
import struct
from typing import Any

import pytest
import safetensors
from hypothesis import given
from hypothesis import strategies as st

from encoder_server import errors
from encoder_server.check import Passed, Rows
from encoder_server.engine.messages import Promise
from encoder_server.wire import Form, Origin, negotiate, parse, render

ORIGIN = Origin(request_id="r", fingerprint="f", revision="v")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_of_ours(body: bytes) -> None:
    with pytest.raises(errors.CallerError, match=r"^.{1,300}$"):
        parse(body, 4)


@given(JSON)
def test_any_json_is_an_error_of_ours(value: object) -> None:
    for body in (value, {"items": value}, {"items": [value]}):
        with pytest.raises(errors.CallerError):
            parse(json.dumps(body).encode(), 4)


def test_an_unknown_fields_name_is_bounded_and_harmless() -> None:
    with pytest.raises(errors.BadRequestError) as raised:
        parse(json.dumps({"items": [{"modality": "image", "<script>" * 100: 1}]}).encode(), 4)
    assert "<" not in raised.value.message
    assert len(raised.value.message) < 150


@pytest.mark.parametrize(
    ("field", "limit"), [({"modality": "x" * 33}, "32"), ({"expected_tokens": 2**31}, "2147483647")]
)
def test_a_field_over_its_limit_is_named_with_the_limit(field: dict[str, Any], limit: str) -> None:
    item = {"modality": "image", "data": "eA==", **field}
    with pytest.raises(errors.BadRequestError, match=rf"items\[0\]\.{next(iter(field))} .*{limit}"):
        parse(json.dumps({"items": [item]}).encode(), 16)


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        (None, Form.SAFETENSORS),
        ("", Form.SAFETENSORS),
        ("*/*", Form.SAFETENSORS),
        ("application/json", Form.JSON),
        ("text/html, application/json;q=0.5", Form.JSON),
        ("application/json;q=0.2, application/vnd.safetensors", Form.SAFETENSORS),
        ("Application/JSON", Form.JSON),
        ("application/json, */*;q=0.1", Form.JSON),
        ("*/*, application/vnd.safetensors;q=0", Form.JSON),
        ("application/json;q=0, application/*", Form.SAFETENSORS),
        ("*/*;q=nan, application/json;q=0.1", Form.JSON),
    ],
)
def test_accept_chooses_the_form(accept: str | None, form: Form) -> None:
    assert negotiate(accept) is form


@pytest.mark.parametrize("accept", ["text/html", "application/json;q=0", "application/json;q=x", ";;"])
def test_accept_that_cannot_be_met_is_refused(accept: str | None) -> None:
    with pytest.raises(errors.NotAcceptableError):
        negotiate(accept)


def test_bfloat16_travels_as_it_is() -> None:
    data = struct.pack("<4H", 0x3F80, 0x4000, 0x4040, 0x4080)
    promise = Promise(index=0, modality="image", tokens=2, grid=(1, 2, 4))
    rows = Rows(promise=promise, shape=(2, 2), dtype="bfloat16", data=memoryview(data))
    ((name, tensor),) = safetensors.deserialize(b"".join(render(Form.SAFETENSORS, Passed(rows=(rows,)), ORIGIN)))
    assert (name, tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"])) == ("item.0", "BF16", [2, 2], data)
