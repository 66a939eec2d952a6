"""Recall: what was encoded before is not encoded again, and what is being encoded is waited for.

Place: between media and check: this replica's memory first, then what the pool shares (`sharing`). A hit is held to
the check like fresh rows; a bad one is evicted, counted apart, and its item encoded again.
Must never: keep what did not pass the check, count a bad entry against its reader, or fail a request because the
cache failed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial

from encoder_server import aside, cache, times
from encoder_server.cache import Bans, Entry, Memory
from encoder_server.check import Passed, check_kept, in_order
from encoder_server.encoding import Encoding, Hit, Outcome, Pending, mistaken
from encoder_server.engine.messages import Measured
from encoder_server.evidence import Evidence
from encoder_server.flights import Boarded, Flights
from encoder_server.job import Job
from encoder_server.media import Medium
from encoder_server.metrics import CacheMetrics
from encoder_server.redis_tier import RedisTier
from encoder_server.settings import Settings
from encoder_server.sharing import Sharing, split

_LOG = logging.getLogger(__name__)
_TIER = "memory"


class Recall:
    """The cache of one server with the computations under way, as `settings` say; with no cache everything is encoded.

    `boot_id` is said of every entry that is made here. Where nothing was encoded for `evidence_seconds`, an item is
    encoded though it could be recalled: recalled rows say nothing of the replica as it is now, and one whose callers
    repeat themselves must still be judged.
    """

    def __init__(
        self, settings: Settings, flights: Flights, metrics: CacheMetrics, evidence: Evidence, boot_id: str
    ) -> None:
        self._names = [f"{settings.pod_uid}/{boot_id}"]
        self._evidence_seconds = settings.evidence_seconds
        self._encoded_at = asyncio.get_running_loop().time()
        self._flights = flights
        self._metrics = metrics
        self._evidence = evidence
        self._bans = Bans()
        self._tier = RedisTier(settings.redis, metrics) if settings.redis else None
        self._sharing = Sharing(self._tier, self._bans, metrics, evidence, self._heed) if self._tier else None
        # What is shared passes through it: then there is one, be it of no bytes.
        self._memory = Memory(settings.cache_bytes) if settings.cache_bytes or self._tier else None

    def report(self) -> dict[str, str | None] | None:
        """Return what /v1/identity says of what the pool shares: since when it cannot be read here; None: no Redis."""
        if self._tier is None:
            return None
        since = self._tier.unusable_since
        return {"unusableSince": None if since is None else times.to_text(since)}

    async def run(self) -> None:
        """Keep what the pool shares, where it does, until cancelled."""
        await (self._tier.run() if self._tier else asyncio.Event().wait())

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
        jobs, new = self._flights.board([(keys.get(medium.index), medium) for medium in missing], deadline)
        self._compute(new, measured, caller)
        if self._memory is not None:
            self._metrics.hits.add((_TIER,), len(media) - len(new))
            self._metrics.misses.add((_TIER,), len(new))
        pending = [
            Pending(medium=medium, key=keys.get(medium.index), job=job)
            for medium, job in zip(missing, jobs, strict=True)
        ]
        return Encoding(hits=hits, pending=pending, leave=self._flights.leave)

    def known(self, media: Sequence[Medium], measured: Measured, fingerprint: str, revision: str) -> Passed | None:
        """Return the rows of `media` where all of them are in this memory, good, and few enough to be gone over at
        once. None else: `begin` says what comes of them, and nothing was counted."""
        if self._memory is None or self._evidence_is_due():
            return None
        self._memory.belong(fingerprint, revision)
        parts: list[Passed] = []
        size = 0
        for medium in media:
            entry = self._memory.get(_key(medium, measured, fingerprint, revision))
            if entry is None or (size := size + entry.size) > aside.SMALL_BYTES or not entry.intact:
                return None
            passed = check_kept(medium.modality, entry.rows(medium.index), measured.declared)
            if not isinstance(passed, Passed) or mistaken(medium, entry.promise):
                return None
            parts.append(passed)
        found = in_order(parts)
        self._evidence.cached(found.rows, ())
        self._metrics.hits.add((_TIER,), len(media))
        return found

    def _compute(self, new: Sequence[Boarded], measured: Measured, caller: str) -> None:
        """See to it that each of `new` gets its rows, from another replica or from an engine."""
        encode = partial(self._encode, caller=caller)
        if self._sharing is None:
            encode([job for _, job in new])
            return
        due = 1 if self._evidence_is_due() else 0
        known, others = split(new[due:])
        encode([job for _, job in new[:due]] + others)
        if known:
            self._sharing.look_up(known, measured.declared, recalled=self._hold, encode=encode)

    def _encode(self, jobs: Sequence[Job], caller: str) -> None:
        if jobs:
            self._encoded_at = asyncio.get_running_loop().time()
        self._flights.encode(jobs, caller)

    def _evidence_is_due(self) -> bool:
        return asyncio.get_running_loop().time() - self._encoded_at >= self._evidence_seconds

    def _keys(self, media: Sequence[Medium], measured: Measured, fingerprint: str, revision: str) -> dict[int, str]:
        if self._memory is None:
            return {}
        self._memory.belong(fingerprint, revision)
        return {medium.index: _key(medium, measured, fingerprint, revision) for medium in media}

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
            checked = check_kept(medium.modality, entry.rows(medium.index), measured.declared)
            if isinstance(checked, Passed):
                self._evidence.cached(checked.rows, ())
                return Hit(medium=medium, passed=checked)
            self._evidence.cached((), (checked,))
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
        producer = self._names[-1]
        try:
            sealed = await asyncio.to_thread(lambda: [cache.seal(key, rows, producer) for key, rows in fresh])
        except Exception:
            _LOG.exception("cache_failed")
            return
        for entry in sealed:
            if self._hold(entry) and self._sharing is not None:
                self._sharing.share(entry)

    def _hold(self, entry: Entry) -> bool:
        """Take `entry` into memory; False where who made it is banned, and nobody should have it."""
        if self._memory is None or entry.producer in self._bans:
            return False
        self._metrics.evictions.labels(_TIER).inc(self._memory.put(entry.key, entry))
        self._metrics.bytes.labels(_TIER).set(self._memory.bytes)
        return True

    async def flush(self, producers: Sequence[str]) -> None:
        """Take nothing that `producers` made for a hit from now on; returns when nobody in the pool does.

        Who names this boot means all that it made, under whichever name.
        """
        await self._ban([*producers, *(self._names[1:] if self._names[0] in producers else ())])

    async def disown(self) -> None:
        """Take nothing that was made here so far for a hit, like `flush`; what is made from now on has another name."""
        suspect = self._names[-1]
        self._names.append(f"{self._names[0]}.{len(self._names)}")
        await self._ban([suspect])

    async def _ban(self, producers: Sequence[str]) -> None:
        self._heed(frozenset(producers))
        if self._sharing is not None:
            await self._sharing.flush(producers)

    def _heed(self, banned: frozenset[str]) -> None:
        new = self._bans.add(banned)
        if new and self._memory is not None:
            self._metrics.flushed.labels(_TIER).inc(self._memory.flush(new))
            self._metrics.bytes.labels(_TIER).set(self._memory.bytes)


def _key(medium: Medium, measured: Measured, fingerprint: str, revision: str) -> str:
    origin = cache.Origin(fingerprint, revision, measured.declared[medium.modality].dtype)
    return cache.key(medium.modality, medium.digest, (), origin)


def _read(found: dict[int, Entry]) -> dict[int, tuple[Entry, bool]]:
    return {index: (entry, entry.intact) for index, entry in found.items()}
