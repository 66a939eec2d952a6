"""Settings: everything that a server is told at start, read once and frozen.

Place: made by `cli`, handed to every stage. Must never: be changed, or read again while serving.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from encoder_server.engine.messages import Declared
from encoder_server.size import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a request may cost. Bytes are of the request's body; pixels of one picture or frame or, with
    `max_request_pixels`, of all its pictures and frames together (of a video file those that the encoder takes, which
    are known when it is decoded, are held to that limit by themselves, and all that are decoded to
    `max_decoded_pixels`); frames of one video that are taken; seconds of one sound, one video, or one request.
    `modalities` are those that are accepted, None: all that the encoder has."""

    max_in_flight: int
    max_in_flight_bytes: int
    max_body_bytes: int
    max_items: int
    max_pixels: int
    max_request_pixels: int
    max_decoded_pixels: int
    max_frames: int
    max_audio_seconds: float
    max_video_seconds: float
    deadline_seconds: float
    modalities: frozenset[str] | None = None

    def within(self, declared: Mapping[str, Declared]) -> Limits:
        """Return what an encoder that has `declared` leaves of these: its modalities, and no longer media than it
        takes."""
        modalities = frozenset(declared) if self.modalities is None else self.modalities.intersection(declared)
        longest = {modality: each.max_seconds for modality, each in declared.items() if each.max_seconds is not None}
        return replace(
            self,
            modalities=modalities,
            max_audio_seconds=min(self.max_audio_seconds, longest.get("audio", math.inf)),
            max_video_seconds=min(self.max_video_seconds, longest.get("video", math.inf)),
        )

    def lacking(self, declared: Collection[str]) -> str | None:
        """Say which modalities are to be accepted that an encoder with `declared` has not; None where it has all."""
        missing, has = sorted((self.modalities or frozenset()).difference(declared)), ", ".join(sorted(declared))
        return f"{', '.join(missing)} is to be accepted; the encoder has {has}" if missing else None

    def allow(self, size: Size) -> bool:
        """Whether a caller may send a medium of this size."""
        seconds = self.max_audio_seconds if size.samples else self.max_video_seconds
        return (
            size.width * size.height <= self.max_pixels
            and size.pixels <= self.max_request_pixels
            and size.frames <= self.max_frames
            and size.seconds <= seconds
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    """From where media are fetched: `hosts` ("name" or "name:port"), private ones too, or, where it is empty, whatever
    is on the public internet. A request's media have come after `seconds`."""

    hosts: frozenset[str]
    seconds: float


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
    `fetch` None: no URL is fetched. `batch_budget` is in pixels; None: as an engine measures. `cache_bytes` 0: none in
    memory; `redis` None: none is shared;
    an item is encoded at least every `evidence_seconds`, while any are asked for. At most `max_connections` are kept
    open; one on which no request's head has come whole for `idle_seconds` is closed. The golden probe is run every
    `probe_period_seconds`; 0: at start and on order alone. `traces`: whether spans are sent.
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
    fetch: FetchSettings | None
    engines: EngineSettings
    batch_budget: int | None
    cache_bytes: int
    redis: RedisSettings | None
    evidence_seconds: float
    probe_period_seconds: float
    max_connections: int
    idle_seconds: float
    traces: bool
