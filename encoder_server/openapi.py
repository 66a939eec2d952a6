"""The document of GET /openapi.json: OpenAPI 3.1, made from the models, the error table and the routes that there are.

Place: asked once by `routes`, which says which routes exist; a route without a description here fails at start.
Pure. Must never: repeat by hand what a model, the error tree or a limit already says.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pydantic
from pydantic.json_schema import models_json_schema

from encoder_server import answers, errors, multipart, wire

Document = dict[str, Any]
# A picture of 56x56 pixels of one colour.
_PICTURE = (
    "iVBORw0KGgoAAAANSUhEUgAAADgAAAA4CAIAAAAn5KxJAAAARklEQVR42u3OMQ0AMAgAMJgaJCIRWVPBQdIqaE5XXPDiCFFR"
    "UVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVFRUVHRbR85TAHYDPzF2QAAAABJRU5ErkJggg=="
)
_MODELS = (
    answers.Promises,
    answers.Encoded,
    answers.ErrorAnswer,
    answers.Limits,
    answers.Load,
    answers.Alive,
    answers.Readiness,
    answers.Identity,
)
_COMPONENT = "#/components/schemas/{model}"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Operation:
    """What one route does. `answers` maps a status to what is said of it and its bodies by media type; `fails` are
    the errors that are its own: any request may be unreadable, and any server at fault."""

    name: str
    summary: str
    answers: Mapping[int, tuple[str, Mapping[str, Any]]]
    fails: tuple[type[errors.EncoderServerError], ...] = (errors.BadRequestError, errors.InternalError)
    request: Mapping[str, Any] | None = None


def tree(
    kind: type[errors.EncoderServerError] = errors.EncoderServerError,
) -> Iterator[type[errors.EncoderServerError]]:
    """Yield every error that has a code of its own."""
    if "code" in vars(kind):
        yield kind
    for child in kind.__subclasses__():
        yield from tree(child)


def describe(routes: Iterable[tuple[str, str]], version: str) -> Document:
    """Return the document of a server with these routes (method, path); KeyError where one is not described here."""
    operations = _operations()
    paths: dict[str, dict[str, Any]] = {}
    for method, path in routes:
        paths.setdefault(path, {})[method.lower()] = _render(operations[method, path])
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Encoder server",
            "version": version,
            "description": "Encodes media, promises how many tokens each will become before the model runs, and"
            " checks every item against its promise.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {"schemas": _schemas(), "headers": _HEADERS, "parameters": _PARAMETERS},
    }


_HEADERS: Mapping[str, Any] = {
    "X-Request-Id": {
        "description": "The caller's own X-Request-Id where it is 1 to 128 of A-Z a-z 0-9 . _ -, else one made here.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._-]{1,128}$"},
    },
    "Retry-After": {
        "description": "Seconds before another try, which should go over a new connection: to another replica.",
        "required": True,
        "schema": {"type": "integer", "minimum": 0},
    },
    "X-Status": {
        "description": "Of the second part of a multipart answer, where that is an error: the status that it has.",
        "schema": {"type": "integer", "minimum": 400, "maximum": 599},
    },
}
_SENT = {
    "X-Request-Id": "Comes back in the answer and stands in the log; one that is not 1 to 128 of A-Z a-z 0-9 . _ - is"
    " replaced.",
    "X-Caller-Id": "Whose turn it is, where one sender speaks for several callers; one that is not 1 to 128 of"
    " A-Z a-z 0-9 . _ - is not looked at.",
    "traceparent": "W3C Trace Context; one that cannot be read is not looked at.",
}
_PARAMETERS: Mapping[str, Any] = {
    name: {"name": name, "in": "header", "description": text, "schema": {"type": "string"}}
    for name, text in _SENT.items()
}


def _operations() -> Mapping[tuple[str, str], _Operation]:
    every = tuple(kind for kind in tree() if kind not in (errors.NotFoundError, errors.MethodNotAllowedError))
    return {
        ("POST", "/v1/encode"): _Operation(
            name="encode",
            summary="Encode media into embeddings, each checked against its promise.",
            answers={200: ("Every item's embedding, in the form that Accept asks for.", _encoded())},
            fails=every,
            request=_request(),
        ),
        ("GET", "/v1/identity"): _described("identity", "What this replica measured itself to be.", answers.Identity),
        ("GET", "/v1/limits"): _described("limits", "What a request may cost here.", answers.Limits),
        ("GET", "/v1/load"): _described("load", "What the server is busy with.", answers.Load),
        ("GET", "/healthz"): _described("healthz", "Whether the server lives.", answers.Alive, 503),
        ("GET", "/readyz"): _described("readyz", "Whether the replica serves.", answers.Readiness, 503),
        ("GET", "/metrics"): _Operation(
            name="metrics",
            summary="Counters and gauges for Prometheus.",
            answers={200: ("The text format of Prometheus.", {"text/plain": {"schema": {"type": "string"}}})},
        ),
        ("GET", "/openapi.json"): _Operation(
            name="openapi",
            summary="This document.",
            answers={200: ("OpenAPI 3.1.", {wire.JSON: {"schema": {"type": "object", "required": ["openapi"]}}})},
        ),
    }


def _described(name: str, summary: str, model: type[pydantic.BaseModel], *others: int) -> _Operation:
    content = {wire.JSON: {"schema": _ref(model)}}
    return _Operation(name=name, summary=summary, answers=dict.fromkeys((200, *others), (summary, content)))


def _render(operation: _Operation) -> dict[str, Any]:
    responses = {
        str(status): {"description": text, "headers": _headers("X-Request-Id"), "content": content}
        for status, (text, content) in operation.answers.items()
    }
    by_status: dict[int, list[type[errors.EncoderServerError]]] = {}
    for kind in operation.fails:
        by_status.setdefault(kind.status, []).append(kind)
    responses |= {str(status): _failure(kinds) for status, kinds in sorted(by_status.items())}
    rendered: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": [{"$ref": f"#/components/parameters/{name}"} for name in _PARAMETERS],
        "responses": responses,
    }
    return rendered if operation.request is None else rendered | {"requestBody": operation.request}


def _failure(kinds: Iterable[type[errors.EncoderServerError]]) -> dict[str, Any]:
    """Return the answer of one status: the error's body with the codes that it may have there."""
    kinds = sorted(kinds, key=lambda kind: kind.code)
    codes = {"properties": {"error": {"properties": {"code": {"enum": [kind.code for kind in kinds]}}}}}
    waits = all(kind.retry_after is not None for kind in kinds)
    return {
        "description": " ".join(f"{kind.code}: {' '.join((kind.__doc__ or '').split())}" for kind in kinds),
        "headers": _headers("X-Request-Id", *(["Retry-After"] if waits else [])),
        "content": {wire.JSON: {"schema": {"allOf": [_ref(answers.ErrorAnswer), codes]}}},
    }


def _headers(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in names}


def _request() -> dict[str, Any]:
    example = {"items": [{"modality": "image", "data": _PICTURE}]}
    return {
        "required": True,
        "content": {
            wire.JSON: {"schema": _ref(wire.EncodeRequest), "examples": {"picture": {"value": example}}},
            multipart.FORM: {"schema": _form(), "encoding": {multipart.ITEM: _PART}},
        },
    }


_PART: Mapping[str, Any] = {
    "contentType": "image/*, audio/*, video/*",
    "headers": {
        multipart.EXPECTED_TOKENS: {
            "description": "The caller's own count of the item's tokens; another promise fails the request with 422.",
            "schema": {"type": "integer", "minimum": 0, "maximum": 2**31 - 1},
        }
    },
}


def _form() -> dict[str, Any]:
    """Return the form's schema: as many items as a JSON body may have, each a medium's own bytes."""
    items = wire.EncodeRequest.model_json_schema()["properties"]["items"]
    return {
        "type": "object",
        "description": "One part for each item, in their order; the main type of its Content-Type is its modality.",
        "required": [multipart.ITEM],
        "additionalProperties": False,
        "properties": {
            multipart.ITEM: {
                "type": "array",
                "minItems": items["minItems"],
                "maxItems": items["maxItems"],
                "items": {"type": "string", "contentMediaType": "application/octet-stream"},
            }
        },
    }


def _encoded() -> Mapping[str, Any]:
    tensors = (
        "safetensors: tensor item.N for each item, of shape (tokens, width); __metadata__ holds request_id,"
        " fingerprint, revision, and items, a JSON list of {index, modality, grid, tokens}."
    )
    parts = (
        "Two parts. The first is sent when every item has its promise, before the model runs. The second holds the"
        " embeddings or, with the status that it has in X-Status, the error. Each part states its Content-Length."
    )
    rows: Mapping[str, Any] = {"contentMediaType": wire.SAFETENSORS, "description": tensors}
    second = {"oneOf": [rows, _ref(answers.ErrorAnswer)]}
    mixed = {"type": "array", "description": parts, "prefixItems": [_ref(answers.Promises), second], "items": False}
    return {
        wire.SAFETENSORS: {"schema": rows},
        wire.JSON: {"schema": _ref(answers.Encoded)},
        wire.MULTIPART: {"schema": mixed},
    }


def _ref(model: type[pydantic.BaseModel]) -> dict[str, str]:
    return {"$ref": _COMPONENT.format(model=model.__name__)}


def _schemas() -> dict[str, Any]:
    """Return every model's schema; what a client sends has no form of its own."""
    _, sent = models_json_schema([(model, "serialization") for model in _MODELS], ref_template=_COMPONENT)
    _, taken = models_json_schema([(wire.EncodeRequest, "validation")], ref_template=_COMPONENT)
    # What the model's own validator says, in the schema's words.
    present = ({"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in wire.SOURCES)
    taken["$defs"][wire.EncodeItem.__name__]["oneOf"] = list(present)
    return {**sent["$defs"], **taken["$defs"]}
