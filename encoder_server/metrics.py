"""Metrics: every family of `tests/contract/metrics.json`, in a registry of the app's own.

Place: written by the stages, read at /metrics. Must never: leave a known label combination absent (the first
increase would be lost), or take a label's value from a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from encoder_server import errors
from encoder_server.check import Result

MODALITIES = ("image", "video", "audio")
SOURCES = ("fresh", "cached", "probe")
STAGES = ("media", "promise", "encode", "deliver", "total")
TIERS = ("memory",)
DIRECTIONS = ("missing", "surplus")
_UNCOUNTED = {errors.NotFoundError.code, errors.MethodNotAllowedError.code}


def _codes(kind: type[errors.EncoderServerError]) -> Iterator[str]:
    yield kind.code
    for child in kind.__subclasses__():
        yield from _codes(child)


CODES = ("ok", "cancelled", *sorted(set(_codes(errors.EncoderServerError)) - _UNCOUNTED))
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_PIXELS = tuple(4.0**power for power in range(6, 15))
_ITEMS = (1, 2, 4, 8, 16, 32, 64)
_TOKENS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096, 16384)


class CacheMetrics:
    """The metrics of the cache, by tier."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.hits = Counter(
            "encoder_cache_hits_total", "Items that were recalled or waited for.", ["tier"], registry=registry
        )
        self.misses = Counter("encoder_cache_misses_total", "Items that were encoded.", ["tier"], registry=registry)
        self.evictions = Counter(
            "encoder_cache_evictions_total", "Entries that made room for others.", ["tier"], registry=registry
        )
        self.corrupt = Counter(
            "encoder_cache_corrupt_total", "Entries that failed when they were read.", ["tier"], registry=registry
        )
        self.bytes = Gauge("encoder_cache_bytes", "Bytes that are held.", ["tier"], registry=registry)

    def begin(self, tier: str) -> None:
        """Have every series of `tier` from the start."""
        for family in (self.hits, self.misses, self.evictions, self.corrupt, self.bytes):
            family.labels(tier)


class Metrics:
    """One app's metrics; all label combinations exist from the start."""

    def __init__(self) -> None:
        # Series of creation times are no part of the contract, and the library has but this global switch.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.checks = Counter(
            "encoder_token_checks_total",
            "Items checked, by where their rows came from and how the check ended.",
            ["modality", "source", "result"],
            registry=registry,
        )
        self.mismatched_media = Counter(
            "encoder_mismatched_media_total", "Distinct media whose fresh check failed.", registry=registry
        )
        self.mismatch_tokens = Histogram(
            "encoder_token_mismatch_tokens",
            "By how many tokens fresh rows missed their promise.",
            ["direction"],
            buckets=_TOKENS,
            registry=registry,
        )
        self.requests = Counter(
            "encoder_requests_total", "Requests to encode, by how they ended.", ["code"], registry=registry
        )
        self.in_flight = Gauge("encoder_in_flight_requests", "Requests admitted.", registry=registry)
        self.queued = Gauge("encoder_queued_requests", "Requests that wait for an engine.", registry=registry)
        self.batch_cost = Histogram("encoder_batch_pixels", "Pixels of one batch.", buckets=_PIXELS, registry=registry)
        self.batch_items = Histogram("encoder_batch_items", "Items of one batch.", buckets=_ITEMS, registry=registry)
        self.cache = CacheMetrics(registry)
        self.stage_seconds = Histogram(
            "encoder_stage_seconds", "Time by stage.", ["stage"], buckets=_SECONDS, registry=registry
        )
        self.engine_restarts = Counter(
            "encoder_engine_restarts_total", "Engine processes started again.", registry=registry
        )
        self.identity_info = Gauge(
            "encoder_identity_info",
            "1 for the identity that was measured.",
            ["fingerprint", "revision", "pod_uid", "boot_id"],
            registry=registry,
        )
        self.ready = Gauge("encoder_ready", "1 where ready, else 0, with the reason.", ["reason"], registry=registry)
        self._begin()

    def _begin(self) -> None:
        for modality in MODALITIES:
            for source in SOURCES:
                for result in Result:
                    self.checks.labels(modality, source, result.value)
        for code in CODES:
            self.requests.labels(code)
        for stage in STAGES:
            self.stage_seconds.labels(stage)
        for tier in TIERS:
            self.cache.begin(tier)
        for direction in DIRECTIONS:
            self.mismatch_tokens.labels(direction)

    def show_ready(self, reason: str, *, ready: bool) -> None:
        """Show one reason alone."""
        self.ready.clear()
        self.ready.labels(reason).set(1 if ready else 0)

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage; one that failed is timed too."""
        start = perf_counter()
        try:
            yield
        finally:
            self.stage_seconds.labels(name).observe(perf_counter() - start)

    def render(self) -> bytes:
        """Return the exposition text."""
        return prometheus_client.generate_latest(self.registry)
