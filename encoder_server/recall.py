"""Recall: what was encoded before is not encoded again, and what is being encoded is waited for.

Place: between media and check. A hit is held to the check like fresh rows; a bad one is evicted, counted apart,
and its item encoded again. Must never: keep what did not pass the check, count a bad entry against its reader,
or fail a request because the cache failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from encoder_server import aside, cache
from encoder_server.cache import Entry, Memory
from encoder_server.check import Batch, Passed, check_batch
from encoder_server.encoding import Encoding, Hit, Outcome, Pending
from encoder_server.engine.messages import Measured, Output
from encoder_server.evidence import Evidence
from encoder_server.flights import Flights
from encoder_server.media import Medium
from encoder_server.metrics import CacheMetrics

_LOG = logging.getLogger(__name__)
_TIER = "memory"


class Recall:
    """The cache of one server with the computations under way; `memory` None: everything is encoded.

    `producer` is said of every entry that is made here: pod uid and boot id. Where nothing was encoded for
    `evidence_seconds`, an item is encoded though it could be recalled: recalled rows say nothing of the replica as
    it is now, and one whose callers repeat themselves must still be judged.
    """

    def __init__(
        self,
        flights: Flights,
        memory: Memory | None,
        metrics: CacheMetrics,
        evidence: Evidence,
        *,
        producer: str,
        evidence_seconds: float,
    ) -> None:
        self._producer = producer
        self._evidence_seconds = evidence_seconds
        self._encoded_at = asyncio.get_running_loop().time()
        self._flights = flights
        self._memory = memory
        self._metrics = metrics
        self._evidence = evidence

    async def begin(
        self, media: Sequence[Medium], measured: Measured, fingerprint: str, revision: str, deadline: float, caller: str
    ) -> Encoding:
        """Take from the cache what is there, and have the rest encoded; to be left by its context manager.

        The request waits until `deadline`, a time of the event loop's clock; callers take turns at the engines.
        """
        keys = self._keys(media, measured, fingerprint, revision)
        entries = self._find(keys)
        # A checksum is over all of the rows.
        found = await aside.run(sum(entry.size for entry in entries.values()), _read, entries) if entries else {}
        if self._evidence_is_due() and found:
            found.popitem()
        hits: dict[int, Hit] = {}
        for medium in media:
            hit = self._hit(medium, keys.get(medium.index), found.get(medium.index), measured)
            if hit is not None:
                hits[medium.index] = hit
        missing = [medium for medium in media if medium.index not in hits]
        jobs, joined = self._flights.board([(keys.get(medium.index), medium) for medium in missing], deadline, caller)
        if len(jobs) > joined:
            self._encoded_at = asyncio.get_running_loop().time()
        if self._memory is not None:
            self._metrics.hits.labels(_TIER).inc(len(hits) + joined)
            self._metrics.misses.labels(_TIER).inc(len(missing) - joined)
        pending = [
            Pending(medium=medium, key=keys.get(medium.index), job=job)
            for medium, job in zip(missing, jobs, strict=True)
        ]
        return Encoding(hits=hits, pending=pending, leave=self._flights.leave)

    def _evidence_is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._encoded_at >= self._evidence_seconds

    def _keys(self, media: Sequence[Medium], measured: Measured, fingerprint: str, revision: str) -> dict[int, str]:
        if self._memory is None:
            return {}
        self._memory.belong(fingerprint, revision)
        return {
            medium.index: cache.key(
                medium.modality,
                medium.digest,
                {},
                cache.Origin(
                    fingerprint=fingerprint, revision=revision, dtype=measured.declared[medium.modality].dtype
                ),
            )
            for medium in media
        }

    def _find(self, keys: dict[int, str]) -> dict[int, Entry]:
        if self._memory is None:
            return {}
        found = {index: self._memory.get(key) for index, key in keys.items()}
        return {index: entry for index, entry in found.items() if entry is not None}

    def _hit(self, medium: Medium, key: str | None, found: tuple[Entry, bool] | None, measured: Measured) -> Hit | None:
        """Return what was found as a hit, or None where there was nothing good."""
        if found is None or key is None:
            return None
        entry, intact = found
        if intact:
            passed, violations = check_batch(_as_batch(medium, entry), measured.declared)
            self._evidence.cached(passed, violations)
            if not violations:
                return Hit(medium=medium, passed=passed)
        self._discard(key, entry)
        return None

    def _discard(self, key: str, entry: Entry) -> None:
        self._metrics.corrupt.labels(_TIER).inc()
        _LOG.error("cache_corrupt", extra={"tier": _TIER, "producer": entry.producer, "key": key})
        if self._memory is not None and self._memory.get(key) is entry:
            self._memory.drop(key)
            self._metrics.bytes.labels(_TIER).set(self._memory.bytes)

    async def keep(self, outcomes: Sequence[Outcome], passed: Sequence[Passed]) -> None:
        """Keep what passed the check, each by its outcome's key."""
        fresh = [
            (outcome.key, rows)
            for outcome, part in zip(outcomes, passed, strict=True)
            for rows in part.rows
            if outcome.fresh and outcome.key is not None
        ]
        if self._memory is None or not fresh:
            return
        try:
            sealed = await asyncio.to_thread(lambda: [(key, cache.seal(rows, self._producer)) for key, rows in fresh])
            evicted = sum(self._memory.put(key, entry) for key, entry in sealed)
        except Exception:
            _LOG.exception("cache_failed")
            return
        self._metrics.evictions.labels(_TIER).inc(evicted)
        self._metrics.bytes.labels(_TIER).set(self._memory.bytes)


def _read(found: dict[int, Entry]) -> dict[int, tuple[Entry, bool]]:
    return {index: (entry, entry.intact) for index, entry in found.items()}


def _as_batch(medium: Medium, entry: Entry) -> Batch:
    index, modality = medium.index, medium.modality
    # What is not finite did not pass when it was fresh, and the checksum says that it is the same still.
    output = Output(index=index, modality=modality, shape=entry.shape, dtype=entry.dtype, finite=True, blob=0)
    return Batch(
        asked={index: modality},
        promises=(entry.promise if entry.promise.index == index else replace(entry.promise, index=index),),
        outputs=(output,),
        blobs=(memoryview(entry.data),),
        failures=(),
    )
