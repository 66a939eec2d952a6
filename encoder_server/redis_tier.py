"""The Redis tier: entries that the replicas of a pool share, and the bans that all of them heed.

Place: asked by `sharing` before an engine is, filled by it after the answer. It lives as long as the server (`run`).
Must never: fail anybody. Whatever the Redis does, or is, costs a bounded wait at most (`redis_reader`) and a bounded
room (`redis_writer`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence

from encoder_server.breaker import Breaker
from encoder_server.cache import Entry
from encoder_server.metrics import CacheMetrics
from encoder_server.redis_connection import RedisPlace
from encoder_server.redis_reader import Found, RedisReader
from encoder_server.redis_writer import RedisWriter
from encoder_server.settings import RedisSettings

_LOG = logging.getLogger(__name__)
_LEAST_PAUSE, _MOST_PAUSE = 1.0, 10.0
_READS_TO_TRIP, _WRITES_TO_TRIP = 3, 1


class RedisTier:
    """The Redis of `settings`, as this replica knows it."""

    def __init__(self, settings: RedisSettings, metrics: CacheMetrics) -> None:
        place = RedisPlace(settings)
        self._reader = RedisReader(place, _breaker(_READS_TO_TRIP), metrics)
        self._writer = RedisWriter(place, _breaker(_WRITES_TO_TRIP), metrics)

    @property
    def usable(self) -> bool:
        """Whether it is worth asking now."""
        return self._reader.usable

    @property
    def unusable_since(self) -> float | None:
        """Since when it is not, in seconds since 1970; None while it is."""
        return self._reader.unusable_since

    async def read(self, keys: Sequence[str]) -> Found:
        """Return what is there of `keys`, as far as it came in time."""
        return await self._reader.read(keys)

    def put(self, entry: Entry) -> None:
        """Have `entry` written soon, if that can be."""
        self._writer.put(entry)

    def drop(self, key: str) -> None:
        """Have the entry of `key` taken out soon, if that can be."""
        self._writer.drop(key)

    async def ban(self, producers: Sequence[str]) -> None:
        """Return when nobody takes what `producers` made for a hit any more; tries until then."""
        await self._writer.ban(producers)

    async def run(self) -> None:
        """Keep connections open and write, until cancelled; then close everything."""
        try:
            async with asyncio.TaskGroup() as group:  # It waits for both to have ended: one may be connecting.
                group.create_task(_forever(self._reader.keep_connected))
                group.create_task(_forever(self._writer.keep_writing))
        finally:
            await self._reader.close()
            await self._writer.close()


def _breaker(most_failures: int) -> Breaker:
    return Breaker(most_failures=most_failures, least_pause=_LEAST_PAUSE, most_pause=_MOST_PAUSE)


async def _forever(step: Callable[[], Awaitable[None]]) -> None:
    """Repeat `step` until cancelled, were it that a library took the notice for itself; a fault in it is one of ours,
    and costs the cache alone."""
    task = asyncio.current_task()
    while task is None or not task.cancelling():
        try:
            await step()
        except Exception:
            _LOG.exception("cache_failed")
            await asyncio.sleep(_LEAST_PAUSE)
