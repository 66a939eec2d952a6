"""Sharing: what another replica of the pool has encoded need not be encoded here.

Place: between `recall`, whose new jobs come here, and the engines, to which goes what the shared tier does not have.
A job is looked up once, whoever waits for it, and what is found is read as hostile input, then held to its checksum
and to the check like fresh rows. Must never: count a bad entry against its reader, let a job wait for longer than
the tier takes, or lose one, whatever fails.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

from encoder_server import container
from encoder_server.cache import Bans, Entry
from encoder_server.check import Rows, Violation, check_kept
from encoder_server.encoding import mistaken
from encoder_server.engine.messages import Declared, Output
from encoder_server.evidence import Evidence
from encoder_server.flights import Boarded
from encoder_server.job import Done, Job, Told
from encoder_server.metrics import CacheMetrics
from encoder_server.redis_tier import RedisTier

_LOG = logging.getLogger(__name__)
_TIER = "redis"


class Sharing:
    """The entries that the pool shares; `heed` hears of producers that the pool has banned."""

    def __init__(
        self,
        tier: RedisTier,
        bans: Bans,
        metrics: CacheMetrics,
        evidence: Evidence,
        heed: Callable[[frozenset[str]], None],
    ) -> None:
        self._tier = tier
        self._bans = bans
        self._metrics = metrics
        self._evidence = evidence
        self._heed = heed
        self._tasks: set[asyncio.Task[None]] = set()

    def look_up(
        self,
        new: Sequence[tuple[str, Job]],
        declared: Mapping[str, Declared],
        *,
        recalled: Callable[[Entry], object],
        encode: Callable[[Sequence[Job]], None],
    ) -> None:
        """Begin to look `new` up: each is `recalled`, and its job has its rows, or is left to `encode`."""
        if not self._tier.usable:
            self._metrics.skipped.labels(_TIER, "open").inc(len(new))
            encode([job for _, job in new])
            return
        task = asyncio.create_task(self._look_up(new, declared, recalled, encode))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _look_up(
        self,
        new: Sequence[tuple[str, Job]],
        declared: Mapping[str, Declared],
        recalled: Callable[[Entry], object],
        encode: Callable[[Sequence[Job]], None],
    ) -> None:
        try:
            found = await self._tier.read([key for key, _ in new])
            self._heed(found.banned)
            # In a thread, because a checksum is over all of the rows.
            entries = await asyncio.to_thread(_open, found.values) if found.values else {}
            for key, job in new:
                if key in entries:
                    self._settle(key, job, entries[key], declared, recalled)
        except Exception:
            _LOG.exception("cache_failed")
        finally:
            missing = [job for _, job in new if not job.finished.done()]
            self._metrics.hits.add((_TIER,), len(new) - len(missing))
            self._metrics.misses.add((_TIER,), len(missing))
            encode(missing)

    def _settle(
        self,
        key: str,
        job: Job,
        entry: Entry | None,
        declared: Mapping[str, Declared],
        recalled: Callable[[Entry], object],
    ) -> None:
        """Give `job` what was found, if that is good; else have it taken out."""
        if entry is not None and entry.producer in self._bans:
            self._metrics.flushed.labels(_TIER).inc()
        elif entry is not None and (rows := self._passed(job, entry, declared)) is not None:
            job.recall(*_result(job, rows))
            recalled(entry)
            return
        else:
            self._metrics.corrupt.labels(_TIER).inc()
            producer = None if entry is None else entry.producer
            _LOG.error("cache_corrupt", extra={"tier": _TIER, "producer": producer, "key": key})
        self._tier.drop(key)

    def _passed(self, job: Job, entry: Entry, declared: Mapping[str, Declared]) -> Rows | None:
        """Return the rows that `entry` holds for `job`; None where they do not pass the check."""
        rows = entry.rows(job.medium.index)
        found = check_kept(job.medium.modality, rows, declared)
        if isinstance(found, Violation):
            self._evidence.cached((), (found,))
            return None
        return rows

    def share(self, entry: Entry) -> None:
        """Have what was encoded here, and passed the check, put where the pool finds it."""
        self._tier.put(entry)

    async def flush(self, producers: Sequence[str]) -> None:
        """Return when nobody in the pool takes what `producers` made for a hit any more."""
        await self._tier.ban(producers)


def split(new: Sequence[Boarded]) -> tuple[list[tuple[str, Job]], list[Job]]:
    """Return the jobs that can be looked up, and those that have no key."""
    return [(key, job) for key, job in new if key is not None], [job for key, job in new if key is None]


def _open(values: Mapping[str, bytes | None]) -> dict[str, Entry | None]:
    """Return the entries that are whole and are those of their keys; None for whatever else was there."""
    entries: dict[str, Entry | None] = {}
    for key, value in values.items():
        entries[key] = None
        if value is not None:
            try:
                entry = container.unpack(key, value)
            except container.CorruptError:
                continue
            entries[key] = entry if entry.intact else None
    return entries


def _result(job: Job, rows: Rows) -> tuple[Told, Done]:
    """Return what an engine would have said of the medium that has these `rows`."""
    medium = job.medium
    failures = mistaken(medium, rows.promise)
    if failures:
        return Told(failures=failures), Done()
    # What is not finite did not pass when it was fresh, and the checksum says that it is the same still.
    output = Output(
        index=medium.index, modality=medium.modality, shape=rows.shape, dtype=rows.dtype, finite=True, blob=0
    )
    return Told(promises=(rows.promise,)), Done(outputs=(output,), blobs=(rows.data,))
