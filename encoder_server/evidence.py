"""Evidence: what the checks of this replica showed, counted and remembered.

Place: beside the pipeline and the probe; read by the operator through /metrics and /v1/identity.
Must never: count what is the caller's fault, count one medium twice, or grow without bound.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

from encoder_server.check import Passed, Result, Rows, Violation
from encoder_server.encoding import Outcome
from encoder_server.engine.messages import ProbeItem
from encoder_server.faults import Bearings
from encoder_server.metrics import Metrics
from encoder_server.size import Size

_LOG = logging.getLogger(__name__)
_MOST_DIGESTS = 4096
_MOST_RECENT = 8


class Evidence:
    """The counters of checks, the digests that failed, and the recent violations (newest first, at most 8).

    `now` returns the time as it is written in /v1/identity.
    """

    def __init__(self, metrics: Metrics, now: Callable[[], str]) -> None:
        self._metrics = metrics
        self._now = now
        self._digests: OrderedDict[str, None] = OrderedDict()
        self._recent: OrderedDict[tuple[Size, str], dict[str, Any]] = OrderedDict()

    @property
    def recent(self) -> list[dict[str, Any]]:
        """The recent violations of fresh traffic, distinct by modality, size and result."""
        return list(reversed(self._recent.values()))

    def take(self, outcome: Outcome, passed: Passed, violations: Sequence[Violation], bearings: Bearings) -> None:
        """Take in the check of one item that was encoded; who shares it after the first adds no evidence."""
        if not outcome.fresh:
            self.cached(passed.rows, violations)
            return
        for rows in passed.rows:
            self._count(rows.promise.modality, "fresh", Result.OK.value)
        for violation in violations:
            self._count(violation.modality, "fresh", violation.result.value)
            self._violated(violation, outcome, bearings)

    def cached(self, passed: Sequence[Rows], violations: Sequence[Violation]) -> None:
        """Take in the check of rows that were computed before: counted, and never judged or remembered."""
        for rows in passed:
            self._count(rows.promise.modality, "cached", "ok")
        for violation in violations:
            self._count(violation.modality, "cached", violation.result.value)

    def probe(self, items: Sequence[ProbeItem]) -> None:
        """Take in a probe: counted, and never mixed with what callers sent."""
        for item in items:
            self._count(item.modality, "probe", item.result)

    def _count(self, modality: str, source: str, result: str) -> None:
        self._metrics.checks.add((modality, source, result))

    def _violated(self, violation: Violation, outcome: Outcome, bearings: Bearings) -> None:
        digest = outcome.medium.digest
        if violation.promised is not None and violation.produced is not None:
            gap = violation.produced - violation.promised
            if gap:
                direction = "surplus" if gap > 0 else "missing"
                self._metrics.mismatch_tokens.labels(direction).observe(abs(gap))
        if digest not in self._digests:
            self._metrics.mismatched_media.inc()
        self._digests[digest] = None
        self._digests.move_to_end(digest)
        if len(self._digests) > _MOST_DIGESTS:
            self._digests.popitem(last=False)
        self._remember(violation, outcome.size)
        _log_violation(violation, outcome, bearings)

    def _remember(self, violation: Violation, size: Size) -> None:
        key = (size, violation.result.value)
        self._recent[key] = {
            "modality": size.modality,
            **size.measures,
            "grid": None if violation.grid is None else list(violation.grid),
            "promised": violation.promised,
            "produced": violation.produced,
            "result": violation.result.value,
            "at": self._now(),
        }
        self._recent.move_to_end(key)
        if len(self._recent) > _MOST_RECENT:
            self._recent.popitem(last=False)


def _log_violation(violation: Violation, outcome: Outcome, bearings: Bearings) -> None:
    extra = {
        "request_id": bearings.request_id,
        "index": violation.index,
        "modality": violation.modality,
        **outcome.size.measures,
        "grid": violation.grid,
        "promised": violation.promised,
        "produced": violation.produced,
        "result": violation.result.value,
        "detail": violation.message,
        "digest": outcome.medium.digest,
        "model_revision": bearings.model_revision,
        "processor_revision": bearings.processor_revision,
    }
    _LOG.error("check_failed", extra=extra)
