"""Settings: everything that a server is told at start, read once and frozen.

Place: made by `cli`, handed to every stage. Must never: be changed, or read again while serving.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may cost. Bytes are of the request's body, pixels of one picture or, with `max_request_pixels`,
    of all its pictures together, seconds of one request."""

    max_in_flight: int
    max_in_flight_bytes: int
    max_body_bytes: int
    max_items: int
    max_pixels: int
    max_request_pixels: int
    deadline_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSettings:
    """Which engines to run: `count` processes, each started with `arguments`.

    An engine may take `load_seconds` until it says hello and, beyond a request's deadline, `grace_seconds`
    for a batch; one that ended is started again after `backoff_seconds`, doubled each time up to a minute. Where
    engines have served, none has for `lost_seconds` and the time of two starts on top, and restarts came to nothing,
    the server is not alive.
    """

    count: int
    arguments: tuple[str, ...]
    load_seconds: float
    grace_seconds: float
    backoff_seconds: float
    lost_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSettings:
    """A Redis that the pool's replicas share.

    Its URL, which may hold a password, is in `url_file` or is `url`; neither is ever shown. All keys begin with
    `scope`. A request waits for it `timeout_seconds` at most; entries of more than `most_entry_bytes` are not shared,
    and none for longer than `ttl_seconds`.
    """

    url: str | None = field(repr=False)
    url_file: Path | None
    scope: str
    timeout_seconds: float
    ttl_seconds: float
    most_entry_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """All settings of a server.

    `expected_identity` None: nothing to compare with, a passing probe admits. `pod_directory` None: no
    labels or annotations, so never cordoned and no orders. `pod_name` and `pod_uid` are empty outside a pool.
    `batch_budget` is in pixels; None: as the encoder says. `cache_bytes` 0: none in
    memory; `redis` None: none is shared;
    an item is encoded at least every `evidence_seconds`, while any are asked for. At most `max_connections` are kept
    open; one on which no request's head has come whole for `idle_seconds` is closed.
    """

    host: str
    port: int
    revision: str
    expected_identity: Path | None
    pod_directory: Path | None
    pod_name: str
    pod_uid: str
    log_level: str
    limits: Limits
    engines: EngineSettings
    batch_budget: int | None
    cache_bytes: int
    redis: RedisSettings | None
    evidence_seconds: float
    max_connections: int
    idle_seconds: float
