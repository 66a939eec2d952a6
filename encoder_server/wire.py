"""The wire: what a request of POST /v1/encode may hold, and how answers and errors are rendered.

Place: the first and the last step of a request; `tests/contract/wire.json` fixes every name. Pure.
Must never: import a web framework, guess what a caller meant, or put a caller's text unbounded in an answer.
"""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from enum import Enum
from typing import Any, NamedTuple

import orjson
import pydantic
from pydantic_core import PydanticCustomError

from encoder_server.check import Passed
from encoder_server.engine.messages import Promise
from encoder_server.errors import (
    BadRequestError,
    EncoderServerError,
    LimitExceededError,
    NotAcceptableError,
)

SAFETENSORS = "application/vnd.safetensors"
JSON = "application/json"
MULTIPART = "multipart/mixed"
VIDEO = "video"
SOURCES = ("data", "url", "frames")
_MOST_ITEMS = 1024
_MOST_TOKENS = 2**31 - 1
LEAST_FPS, MOST_FPS = 0.001, 1000
"""How many frames of a list may be shown in a second."""
_LONGEST_MODALITY = 32
_QUALITY = re.compile(r"0(\.[0-9]{0,3})?|1(\.0{0,3})?")
_SAFETENSORS_DTYPES = {"float32": "F32", "float16": "F16", "bfloat16": "BF16", "float64": "F64"}


class Form(Enum):
    """The form of an answer."""

    SAFETENSORS = SAFETENSORS
    JSON = JSON
    MULTIPART = MULTIPART


class EncodeItem(pydantic.BaseModel):
    """One medium: exactly one of `data` (base64), `url` (data:, or where media are fetched http: and https: too) and
    `frames` (of a video: pictures in base64, of which `fps` are shown in a second, where that is known).
    `expected_tokens` is the caller's count."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    modality: str = pydantic.Field(min_length=1, max_length=_LONGEST_MODALITY)
    data: str | None = None
    url: str | None = None
    frames: list[str] | None = pydantic.Field(default=None, min_length=1, fail_fast=True)
    fps: float | None = pydantic.Field(default=None, ge=LEAST_FPS, le=MOST_FPS)
    expected_tokens: int | None = pydantic.Field(default=None, ge=0, le=_MOST_TOKENS)

    @pydantic.model_validator(mode="after")
    def _has_one_source(self) -> EncodeItem:
        if sum(getattr(self, source) is not None for source in SOURCES) != 1:
            raise PydanticCustomError("one_source", "one source")
        if self.fps is not None and self.frames is None:
            raise PydanticCustomError("bare_fps", "fps without frames")
        if self.frames is not None and self.modality != VIDEO:
            raise PydanticCustomError("frames_of_no_video", "frames of another modality")
        return self


class EncodeRequest(pydantic.BaseModel):
    """The body of POST /v1/encode."""

    model_config = pydantic.ConfigDict(extra="forbid", strict=True, frozen=True)

    items: list[EncodeItem] = pydantic.Field(min_length=1, max_length=_MOST_ITEMS, fail_fast=True)


class Origin(NamedTuple):
    """What an answer says of its making."""

    request_id: str
    fingerprint: str
    revision: str


_TEXTS = {
    "missing": "is missing",
    "extra_forbidden": "is not a field that is known here",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "string_too_long": f"is too long; the limit is {_LONGEST_MODALITY} characters",
    "string_type": "must be a string",
    "int_type": "must be a whole number",
    "greater_than_equal": "must not be negative",
    "list_type": "must be a list",
    "model_type": "must be an object",
    "one_source": "needs exactly one of data, url and frames",
    "bare_fps": "has fps, which goes with frames: a file has its own",
    "frames_of_no_video": f"has frames, which only {VIDEO} has",
    "float_type": "must be a number",
    "json_invalid": "is not JSON",
}
_OUTSIDE = ("greater_than_equal", "less_than_equal", "finite_number")


def parse(body: bytes, max_items: int) -> EncodeRequest:
    """Return the request in `body`.

    Raises BadRequestError that names the field, or LimitExceededError for more than `max_items` items.
    """
    try:
        request = EncodeRequest.model_validate_json(body)
    except pydantic.ValidationError as invalid:
        first = invalid.errors(include_url=False, include_context=False, include_input=False)[0]
        place = _place(first["loc"])
        if first["type"] == "too_long":
            raise LimitExceededError(f"{place}: more than {max_items} items; the limit is {max_items}") from None
        raise _named(first["loc"], BadRequestError(f"{place} {_text(first['type'], place)}")) from None
    if len(request.items) > max_items:
        raise LimitExceededError(f"items: {len(request.items)} items; the limit is {max_items}")
    return request


def _text(kind: str, place: str) -> str:
    if kind in _OUTSIDE and place.endswith(".fps"):
        return f"is no rate that is taken; the limits are {LEAST_FPS:g} and {MOST_FPS:g} frames a second"
    if kind == "less_than_equal":
        return f"is too large; the limit is {_MOST_TOKENS}"
    return _TEXTS.get(kind, "is not valid")


def _named(location: Sequence[str | int], error: BadRequestError) -> BadRequestError:
    """Have `error` name the item at this location, where it is in one."""
    index = location[1] if len(location) > 1 and location[0] == "items" else None
    return error.of_item(index) if isinstance(index, int) else error


def _place(location: Sequence[str | int]) -> str:
    """Return `items[0].colour` for ("items", 0, "colour"); an unknown field's name is the caller's: bounded."""
    text = ""
    for part in location:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += "." * bool(text) + re.sub(r"[^A-Za-z0-9_-]", "?", part[:64])
    return text or "body"


@functools.lru_cache(256)
def negotiate(accept: str | None) -> Form:
    """Return the form that an Accept header asks for, by q and then by order; raises NotAcceptableError."""
    if accept is None or not accept.strip():
        return Form.SAFETENSORS
    ranges = [_media_range(part) for part in accept.split(",")]
    refused = {media_type for media_type, quality in ranges if quality == 0}
    for media_type, quality in sorted(ranges, key=lambda entry: -entry[1]):
        for form in Form:
            asked_for = media_type in ("*/*", f"{form.value.partition('/')[0]}/*", form.value)
            if quality > 0 and asked_for and form.value not in refused:
                return form
    raise NotAcceptableError(f"Accept must allow {SAFETENSORS}, {JSON} or {MULTIPART}")


def _media_range(text: str) -> tuple[str, float]:
    media_type, *parameters = (part.strip().lower() for part in text.split(";"))
    quality = next((part[2:] for part in parameters if part.startswith("q=")), "1")
    return media_type, float(quality) if _QUALITY.fullmatch(quality) else 0.0


def render(form: Form, passed: Passed, origin: Origin) -> tuple[bytes | memoryview, ...]:
    """Return the answer's body in pieces, for the multipart form its second part's; rows are not copied where their
    bytes are sent as they are.

    `passed` must hold every item of the request, in order.
    """
    return (_render_json(passed, origin),) if form is Form.JSON else _render_safetensors(passed, origin)


def render_promises(promises: Sequence[Promise], origin: Origin) -> bytes:
    """Return the first part of the multipart form: what each item will become."""
    return orjson.dumps(_about(origin) | {"items": [_item(promise) for promise in promises]})


def _about(origin: Origin) -> dict[str, Any]:
    return {"request_id": origin.request_id, "fingerprint": origin.fingerprint, "revision": origin.revision}


def _item(promise: Promise) -> dict[str, Any]:
    return {
        "index": promise.index,
        "modality": promise.modality,
        "grid": list(promise.grid),
        "tokens": promise.tokens,
    }


def _render_json(passed: Passed, origin: Origin) -> bytes:
    items = [
        _item(rows.promise)
        | {
            "dtype": rows.dtype,
            "shape": list(rows.shape),
            "data": base64.b64encode(rows.data).decode("ascii"),
        }
        for rows in passed.rows
    ]
    return orjson.dumps(_about(origin) | {"items": items})


def _render_safetensors(passed: Passed, origin: Origin) -> tuple[bytes | memoryview, ...]:
    """Write the container from raw bytes: eight bytes of head length, a JSON head, then the tensors.

    The library would need an array library that knows bfloat16, and the format is these ten lines.
    """
    metadata = _about(origin) | {"items": orjson.dumps([_item(rows.promise) for rows in passed.rows]).decode()}
    head: dict[str, Any] = {"__metadata__": metadata}
    start = 0
    for rows in passed.rows:
        end = start + rows.data.nbytes
        head[f"item.{rows.promise.index}"] = {
            "dtype": _SAFETENSORS_DTYPES[rows.dtype],
            "shape": list(rows.shape),
            "data_offsets": [start, end],
        }
        start = end
    encoded = orjson.dumps(head)
    encoded += b" " * (-len(encoded) % 8)
    return (len(encoded).to_bytes(8, "little"), encoded, *(rows.data for rows in passed.rows))


def render_error(error: EncoderServerError, request_id: str) -> bytes:
    """Return the body of a failed request."""
    body = {
        "code": error.code,
        "message": error.message,
        "request_id": request_id,
        "items": [asdict(culprit) for culprit in error.items],
    }
    return json.dumps({"error": body}).encode()
