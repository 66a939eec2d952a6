"""The reader: what the pool's replicas have put into their Redis, and whom it bans.

Place: a half of `redis_tier`; asked within requests. Must never: have a request wait for a connection to be made, or
longer than the time that it is given; raise; or believe what it reads (see `container`).

Trials of a Redis that failed are made here behind the requests' backs (`keep_connected`). So one that is dead costs the
few requests that found it so, and one that hangs no more than one wait for each connection.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from encoder_server.breaker import Breaker
from encoder_server.cache import MOST_BANS
from encoder_server.container import MOST_OVERHEAD
from encoder_server.metrics import CacheMetrics
from encoder_server.redis_connection import (
    RedisConnection,
    RedisPlace,
    StoreError,
    WrongTypeError,
    is_wrong_type,
    value_of,
)

_LOG = logging.getLogger(__name__)
_TIER = "redis"
_CONNECTIONS = 4
_LONGEST_PRODUCER = 256
_LEAST_WAIT = 0.001
_BETWEEN_CONNECTS = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What was read: containers by key, None for what is none in any case, and the producers that are banned."""

    values: dict[str, bytes | None] = field(default_factory=dict)
    banned: frozenset[str] = frozenset()


class RedisReader:
    """Connections that are open already, and what is read through them."""

    def __init__(self, place: RedisPlace, breaker: Breaker, metrics: CacheMetrics) -> None:
        self._place = place
        self._seconds = place.settings.timeout_seconds
        self._most = place.settings.most_entry_bytes + MOST_OVERHEAD
        self._metrics = metrics
        self._breaker = breaker
        self._ready: asyncio.LifoQueue[RedisConnection] = asyncio.LifoQueue()
        self._open = 0
        self._closed = False
        self.unusable_since: float | None = time.time()
        self._missing = asyncio.Event()
        self._show()

    @property
    def usable(self) -> bool:
        """Whether it is worth asking now."""
        return self._open > 0 and not self._closed

    async def read(self, keys: Sequence[str]) -> Found:
        """Return what is there of `keys`, as far as it came in time."""
        deadline = asyncio.get_running_loop().time() + self._seconds
        connection = await self._take(deadline) if self.usable else None
        if connection is None:
            self._metrics.skipped.labels(_TIER, "busy" if self.usable else "open").inc(len(keys))
            return Found()
        values: dict[str, bytes | None] = {}
        banned: set[str] = set()
        try:
            with self._metrics.time(_TIER, "read"):
                await self._read(connection, keys, deadline, values, banned)
        except StoreError as error:
            self._fail("read", error)
            await self._forsake(connection)
        except BaseException:
            await self._forsake(connection)
            raise
        else:
            self._breaker = self._breaker.worked()
            if self._closed:
                await connection.close()
            else:
                self._ready.put_nowait(connection)
        return Found(values=values, banned=frozenset(banned))

    async def _take(self, deadline: float) -> RedisConnection | None:
        try:
            async with asyncio.timeout_at(deadline):
                return await self._ready.get()
        except TimeoutError:
            return None

    async def _read(
        self,
        connection: RedisConnection,
        keys: Sequence[str],
        deadline: float,
        values: dict[str, bytes | None],
        banned: set[str],
    ) -> None:
        for place, key in enumerate(keys):
            left = deadline - asyncio.get_running_loop().time()
            if place and left < self._seconds / 2:
                # Rather a miss than a connection that is cut off in the middle of an answer.
                self._metrics.skipped.labels(_TIER, "late").inc(len(keys) - place)
                return
            value, bans = await self._read_one(connection, key, max(left, _LEAST_WAIT))
            banned |= bans
            if value != b"":
                values[key] = value

    async def _read_one(self, connection: RedisConnection, key: str, seconds: float) -> tuple[bytes | None, set[str]]:
        """Return a value (empty: there is none; None: one that cannot be a container) and who is banned.

        The bans come after the value, so that one that came before the value was read is seen. A range is read,
        because a value that somebody else wrote may be of any length.
        """
        commands = [
            ("GETRANGE", self._place.entry(key), 0, self._most),
            ("ZREVRANGE", self._place.banned, 0, MOST_BANS - 1),
        ]
        value, bans = await connection.ask(commands, seconds)
        said = [value_of(each, bytes) for each in value_of(bans, list)]
        banned = {each.decode(errors="replace") for each in said[:MOST_BANS] if len(each) <= _LONGEST_PRODUCER}
        if is_wrong_type(value):
            return None, banned
        data: bytes = value_of(value, bytes)
        self._metrics.moved.labels(_TIER, "read").inc(len(data))
        return (data if len(data) <= self._most else None), banned

    async def _forsake(self, connection: RedisConnection) -> None:
        """Close a connection that failed; once too many did in a row, close those that wait, too."""
        forsaken = [connection]
        while self._breaker.tripped and not self._ready.empty():
            forsaken.append(self._ready.get_nowait())
        self._open -= len(forsaken)
        self._show()
        self._missing.set()
        for each in forsaken:
            await each.close()

    async def keep_connected(self) -> None:
        """Open one connection where one is missing, or wait until then. The trial asks what a request would: a port
        that merely opens, or a server that says no, is not usable."""
        if self._open >= _CONNECTIONS:
            self._missing.clear()
            await self._missing.wait()
        await asyncio.sleep(max(0.0, self._breaker.until - asyncio.get_running_loop().time()))
        try:
            connection = await self._place.connect()
            try:
                await self._try(connection)
            except BaseException:
                await connection.close()
                raise
        except StoreError as error:
            self._fail("connect", error)
            await asyncio.sleep(_BETWEEN_CONNECTS)
            return
        if self._breaker.tripped:
            _LOG.info("cache_redis_back")
        self._breaker = self._breaker.worked()
        self._open += 1
        self._ready.put_nowait(connection)
        self._show()

    async def _try(self, connection: RedisConnection) -> None:
        try:
            await self._read_one(connection, "", self._seconds)
        except WrongTypeError:
            # Without the bans nothing is believed, and nobody but a flush would write them.
            await connection.clear(self._place.banned, self._seconds)
            await self._read_one(connection, "", self._seconds)

    def _fail(self, operation: str, error: StoreError) -> None:
        self._metrics.errors.labels(_TIER, operation, error.reason.value).inc()
        before, self._breaker = self._breaker, self._breaker.failed(asyncio.get_running_loop().time())
        if self._breaker.tripped and not before.tripped:
            _LOG.warning("cache_redis_lost", extra={"operation": operation, "reason": str(error)})

    def _show(self) -> None:
        self.unusable_since = None if self.usable else self.unusable_since or time.time()
        self._metrics.usable.labels(_TIER).set(int(self.usable))

    async def close(self) -> None:
        """Close every connection, those that are read from as soon as they are given back."""
        self._closed = True
        while not self._ready.empty():
            await self._ready.get_nowait().close()
