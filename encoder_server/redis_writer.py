"""The writer: what this replica encoded goes into the pool's Redis, and who is banned.

Place: a half of `redis_tier`; works behind the answers' backs. Must never: have anybody wait who encodes, hold without
bound what could not be written, or give up a ban.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from encoder_server import container
from encoder_server.breaker import Breaker
from encoder_server.cache import MOST_BANS, Entry
from encoder_server.metrics import CacheMetrics
from encoder_server.redis_connection import (
    Command,
    Reason,
    RedisConnection,
    RedisPlace,
    StoreError,
    is_wrong_type,
    value_of,
)

_LOG = logging.getLogger(__name__)
_TIER = "redis"
# Nobody waits for it, and a Redis that is busy should still hear of a ban.
_SECONDS = 5.0
_MOST_QUEUED = 1024
_MOST_QUEUED_BYTES = 32 * 2**20
_PAGE = 256
_MOST_PAGES = 65536


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ban:
    producers: Sequence[str]
    made: asyncio.Future[None]


class RedisWriter:
    """A queue of entries to write (Entry) and of keys to unlink (str), bans before them, and one connection."""

    def __init__(self, place: RedisPlace, breaker: Breaker, metrics: CacheMetrics) -> None:
        self._place = place
        self._breaker = breaker
        self._metrics = metrics
        self._connection: RedisConnection | None = None
        self._bans: deque[_Ban] = deque()
        self._queue: deque[Entry | str] = deque()
        self._bytes = 0
        self._filled = asyncio.Event()

    def put(self, entry: Entry) -> None:
        """Have `entry` written soon, where there is room for it and somebody to take it."""
        if len(entry.data) > self._place.settings.most_entry_bytes:
            self._metrics.skipped.labels(_TIER, "large").inc()
        else:
            self._queue_up(entry, entry.size)

    def drop(self, key: str) -> None:
        """Have the entry of `key` unlinked soon."""
        self._queue_up(key, 0)

    def _queue_up(self, change: Entry | str, size: int) -> None:
        if not self._breaker.allows(asyncio.get_running_loop().time()):
            self._metrics.skipped.labels(_TIER, "open").inc()
        elif len(self._queue) >= _MOST_QUEUED or self._bytes + size > _MOST_QUEUED_BYTES:
            self._metrics.skipped.labels(_TIER, "full").inc()
        else:
            self._bytes += size
            self._queue.append(change)
            self._filled.set()

    async def ban(self, producers: Sequence[str]) -> None:
        """Return when the Redis says of all that `producers` made, and may yet make, that it is nobody's hit."""
        ban = _Ban(producers=tuple(producers), made=asyncio.get_running_loop().create_future())
        self._bans.append(ban)
        self._filled.set()
        await ban.made

    async def keep_writing(self) -> None:
        """Make one change, or wait for one."""
        await self._filled.wait()
        await asyncio.sleep(max(0.0, self._breaker.until - asyncio.get_running_loop().time()))
        if self._bans:
            if await self._tried("flush", self._bans[0]):
                ban = self._bans.popleft()
                if not ban.made.done():
                    ban.made.set_result(None)
        elif self._queue:
            change = self._queue.popleft()
            self._bytes -= change.size if isinstance(change, Entry) else 0
            await self._tried("write", change)
        else:
            self._filled.clear()

    async def _tried(self, operation: str, change: _Ban | Entry | str) -> bool:
        try:
            with self._metrics.time(_TIER, operation):
                if self._connection is None:
                    self._connection = await self._place.connect()
                await self._make(self._connection, change)
        except StoreError as error:
            await self._fail(operation, error)
            return False
        self._breaker = self._breaker.worked()
        return True

    async def _fail(self, operation: str, error: StoreError) -> None:
        """Let go of everything but the bans: what is written late is of no use, and takes room."""
        self._metrics.errors.labels(_TIER, operation, error.reason.value).inc()
        before, self._breaker = self._breaker, self._breaker.failed(asyncio.get_running_loop().time())
        if not before.tripped:
            _LOG.warning("cache_redis_not_written", extra={"operation": operation, "reason": str(error)})
        self._metrics.skipped.labels(_TIER, "open").inc(len(self._queue))
        self._queue.clear()
        self._bytes = 0
        await self.close()

    async def _make(self, connection: RedisConnection, change: _Ban | Entry | str) -> None:
        match change:
            case _Ban():
                for producer in change.producers:
                    await self._ban(connection, producer)
            case Entry():
                data = container.pack(change)
                await _do(connection, self._writing(change, data), self._place.made(change.producer))
                self._metrics.moved.labels(_TIER, "written").inc(len(data))
            case str():
                await _do(connection, [("UNLINK", self._place.entry(change))])

    def _writing(self, entry: Entry, data: bytes) -> list[Command]:
        now, life, made = time.time(), self._place.settings.ttl_seconds, self._place.made(entry.producer)
        milliseconds = max(1, int(life * 1000))
        return [
            ("SET", self._place.entry(entry.key), data, "PX", milliseconds),
            ("ZADD", made, now + life, entry.key),
            ("ZREMRANGEBYSCORE", made, "-inf", now),
            ("PEXPIRE", made, milliseconds),
        ]

    async def _ban(self, connection: RedisConnection, producer: str) -> None:
        now, made = time.time(), self._place.made(producer)
        # Twice a life: what its producer writes at this very moment is to have ended before the ban does.
        until = now + 2 * self._place.settings.ttl_seconds
        banning: list[Command] = [
            ("ZADD", self._place.banned, until, producer),
            ("ZREMRANGEBYSCORE", self._place.banned, "-inf", now),
            ("ZREMRANGEBYRANK", self._place.banned, 0, -MOST_BANS - 1),
        ]
        said = await _asked(connection, banning, self._place.banned)
        # Even where there was no room for the ban: unlinking makes some.
        for _ in range(_MOST_PAGES):
            (page,) = await _asked(connection, [("ZRANGE", made, 0, _PAGE - 1)], made)
            # Taken out as they are read: what is no name that a replica wrote would else stay, before all others.
            keys = [value_of(each, bytes) for each in value_of(page, list)]
            if not keys:
                break
            entries = [self._place.entry(key.decode(errors="replace")) for key in keys]
            await _do(connection, [("UNLINK", *entries), ("ZREM", made, *keys)])
        value_of(said[0], int)

    async def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()


async def _asked(connection: RedisConnection, commands: Sequence[Command], key: str | None) -> list[Any]:
    """Return the replies to `commands`, each of which may be sent twice: where what lies under `key` is no sorted set,
    it is taken out, and all are."""
    replies = await connection.ask(commands, _SECONDS)
    if key is None or not any(map(is_wrong_type, replies)):
        return replies
    await connection.clear(key, _SECONDS)
    return await connection.ask(commands, _SECONDS)


async def _do(connection: RedisConnection, commands: Sequence[Command], key: str | None = None) -> None:
    """Have `commands` done, as `_asked` does; raises StoreError where one was refused."""
    for reply in await _asked(connection, commands, key):
        if isinstance(reply, Exception):
            raise StoreError(Reason.REFUSED, type(reply).__name__)
