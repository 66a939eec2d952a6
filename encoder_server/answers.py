"""Answers: the shape of every JSON body that the server sends, as models.

Place: `openapi` describes the answers by them, the client reads answers with them, and tests hold what is really sent
against them. Pure. Must never: refuse a field that a newer server adds, or import what only a server needs.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class _Camel(BaseModel):
    """Of the endpoints whose names are a Kubernetes reader's; what a newer server adds is kept."""

    model_config = ConfigDict(frozen=True, extra="allow", alias_generator=to_camel, populate_by_name=True)


class PromisedItem(_Answer):
    """What one item will become: `tokens` rows, from a grid as its processor made it (frames, rows, columns)."""

    index: int
    modality: str
    grid: tuple[int, ...]
    tokens: int


class Promises(_Answer):
    """The promises of one request, before its model runs: the first part of a multipart answer."""

    request_id: str
    fingerprint: str
    revision: str
    items: tuple[PromisedItem, ...]


class EncodedItem(PromisedItem):
    """One item's embedding: base64 of little-endian, row-major values, of `shape` (tokens, width)."""

    dtype: str
    shape: tuple[int, int]
    data: str


class Encoded(_Answer):
    """The embeddings of one request, in the order of its items."""

    request_id: str
    fingerprint: str
    revision: str
    items: tuple[EncodedItem, ...]


class Culprit(_Answer):
    """One item that made a request fail: what was promised and produced, in tokens, and by which revisions. What was
    not known when it failed is null; so is a modality that is none here."""

    index: int
    modality: str | None
    grid: tuple[int, ...] | None
    promised: int | None
    produced: int | None
    model_revision: str | None
    processor_revision: str | None


class ErrorDetail(_Answer):
    """Why a request failed. `code` is of a closed set for each status; `message` names field or item and limit; `items`
    are those that it is about."""

    code: str
    message: str
    request_id: str
    items: tuple[Culprit, ...]


class ErrorAnswer(_Answer):
    """The body of every failed request."""

    error: ErrorDetail


class Limits(_Camel):
    """What a request may cost here. Pixels are of one picture or of all of a request's, bytes of its body;
    `by_modality` has what else a medium of each kind may be."""

    modalities: tuple[str, ...]
    urls: tuple[str, ...]
    max_items: int
    max_pixels: int
    max_request_pixels: int
    max_body_bytes: int
    max_in_flight: int
    deadline_seconds: float
    by_modality: dict[str, dict[str, Any]]


class Load(_Camel):
    """What the server is busy with now: requests admitted, their bytes, those that wait for an engine, and the pixels
    that several requests may share in one batch (0: none)."""

    in_flight: int
    in_flight_bytes: int
    queued: int
    batch_budget: int
    engines_ready: int
    engines: int


class Alive(_Camel):
    """Whether the server lives; where not, `message` says what is dead."""

    alive: bool
    message: str | None = None


class Progress(_Camel):
    """How the start of an engine goes: its stage, since when, and which share of it is done where that is known."""

    stage: str
    fraction: float | None
    since: str


class Readiness(_Camel):
    """Where the replica stands, and since when: READY alone serves. A server that is older says neither since when
    nor how a start goes."""

    state: str
    reason: str
    message: str
    since: str | None = None
    progress: Progress | None = None


class ProbeItem(_Camel):
    """One synthetic medium of a probe; `result` is ok, or the check that failed."""

    index: int
    modality: str
    grid: tuple[int, ...] | None
    promised: int | None
    produced: int | None
    result: str


class Probe(_Camel):
    """The last probe: result running, passed or failed."""

    result: str
    order_id: str | None
    at: str
    items: tuple[ProbeItem, ...]


class Exact(_Camel):
    """The parts of an identity that must be equal, bit for bit, between replicas of a revision."""

    weights: str
    processor: str
    config: str
    classes: dict[str, str]
    widths: dict[str, int]


class Expectation(_Camel):
    """What the pool expects of the replica."""

    policy: str
    fingerprint: str | None


class Sharing(_Camel):
    """What the pool's replicas share of what they encoded: since when this one cannot read it."""

    unusable_since: str | None


class Identity(_Camel):
    """What this replica measured itself to be. All that is null was not measured yet, or does not apply."""

    pod_name: str
    pod_uid: str
    boot_id: str
    started_at: str
    revision: str
    state: str
    reason: str
    message: str
    progress: Progress | None = None
    fingerprint: str | None
    signature: str | None
    exact: Exact | None
    advisory: dict[str, str] | None
    check: dict[str, str]
    probe: Probe | None
    expected: Expectation | None
    orders: dict[str, dict[str, str] | None]
    recent_violations: tuple[dict[str, Any], ...]
    sharing: Sharing | None = None
