"""Metrics: every family of `tests/contract/metrics.json`, in a registry of the app's own.

Place: written by the stages, read at /metrics. Must never: leave a known label combination absent (the first
increase would be lost), or take a label's value from a caller.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from encoder_server import errors
from encoder_server.check import Result
from encoder_server.tally import Counts, Durations

MODALITIES = ("image", "video", "audio")
SOURCES = ("fresh", "cached", "probe")
STAGES = ("body", "media", "cache", "promise", "encode", "check", "deliver", "total")
OPERATIONS = {"connect": False, "read": True, "write": True, "flush": True}
"""What is asked of a shared tier, and whether it is timed."""
FAILURES = ("timeout", "connection", "refused")
SKIPPED = ("open", "busy", "late", "full", "large")
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
    """The metrics of the cache, by tier. What Redis holds and evicts is Redis' own to tell."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"encoder_cache_{name}_total", text, ["tier", *labels], registry=registry)

        tier = ["tier"]
        self.hits = Counts("encoder_cache_hits", "Items that were recalled or waited for.", tier, registry)
        self.misses = Counts("encoder_cache_misses", "Items that were not there.", tier, registry)
        self.evictions = counter("evictions", "Entries that made room for others.")
        self.corrupt = counter("corrupt", "Entries that failed when they were read.")
        self.flushed = counter("flushed", "Entries dropped because of who made them.")
        self.bytes = Gauge("encoder_cache_bytes", "Bytes that are held.", ["tier"], registry=registry)
        self.errors = counter("errors", "What the tier did not do, and why.", "operation", "reason")
        self.skipped = counter("skipped", "Items that the tier was not asked for, or not given.", "reason")
        self.moved = counter("moved_bytes", "Bytes read from the tier and written to it.", "direction")
        self.usable = Gauge("encoder_cache_usable", "1 while the tier is asked.", ["tier"], registry=registry)
        self.seconds = Histogram(
            "encoder_cache_seconds",
            "Time that the tier took, failures as well.",
            ["tier", "operation"],
            buckets=_SECONDS,
            registry=registry,
        )
        self._begin()

    def _begin(self) -> None:
        for tier in ("memory", "redis"):
            self.hits.begin(tier)
            self.misses.begin(tier)
            self.corrupt.labels(tier)
            self.flushed.labels(tier)
        self.evictions.labels("memory")
        self.bytes.labels("memory")
        self.usable.labels("redis")
        for operation, timed in OPERATIONS.items():
            for reason in FAILURES:
                self.errors.labels("redis", operation, reason)
            if timed:
                self.seconds.labels("redis", operation)
        for reason in SKIPPED:
            self.skipped.labels("redis", reason)
        for direction in ("read", "written"):
            self.moved.labels("redis", direction)

    @contextmanager
    def time(self, tier: str, operation: str) -> Iterator[None]:
        """Time what is asked of `tier`."""
        with self.seconds.labels(tier, operation).time():
            yield


class Metrics:
    """One app's metrics; all label combinations exist from the start."""

    def __init__(self) -> None:
        # Series of creation times are no part of the contract, and the library has but this global switch.
        prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        self.checks = Counts(
            "encoder_token_checks",
            "Items checked, by where their rows came from and how the check ended.",
            ["modality", "source", "result"],
            registry,
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
        self.requests = Counts("encoder_requests", "Requests to encode, by how they ended.", ["code"], registry)
        self.in_flight = Gauge("encoder_in_flight_requests", "Requests admitted.", registry=registry)
        self.queued = Gauge("encoder_queued_requests", "Requests that wait for an engine.", registry=registry)
        self.batch_cost = Histogram("encoder_batch_pixels", "Pixels of one batch.", buckets=_PIXELS, registry=registry)
        self.batch_items = Histogram("encoder_batch_items", "Items of one batch.", buckets=_ITEMS, registry=registry)
        self.cache = CacheMetrics(registry)
        self.stages = Durations("encoder_stage_seconds", "Time by stage.", "stage", _SECONDS, registry)
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
                    self.checks.begin(modality, source, result.value)
        for code in CODES:
            self.requests.begin(code)
        for stage in STAGES:
            self.stages.begin(stage)
        for direction in DIRECTIONS:
            self.mismatch_tokens.labels(direction)

    def show_ready(self, reason: str, *, ready: bool) -> None:
        """Show one reason alone."""
        self.ready.clear()
        self.ready.labels(reason).set(1 if ready else 0)

    def render(self) -> bytes:
        """Return the exposition text."""
        return prometheus_client.generate_latest(self.registry)
