"""A connection to a Redis, with an end to every wait, and the names of the keys in it.

Place: below `redis_reader` and `redis_writer`, which decide when one is opened and what is asked.
Must never: connect again by itself (who asks would pay for it), pass on what a server says of an error (it may name
users and hosts), or log a URL.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from enum import StrEnum
from typing import Any

import redis
from redis.asyncio.connection import AbstractConnection, ConnectionPool, SSLConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from encoder_server.container import MAGIC
from encoder_server.settings import RedisSettings

_LOG = logging.getLogger(__name__)
# No request waits for it.
_CONNECT_SECONDS = 1.0
# Whatever a URL says: every wait here has an end, and the library's own, by `asyncio.wait_for`, forgets that it was
# cancelled where what it waited for came in the same turn of the loop.
_NO_CLOCKS = {"socket_timeout": None, "socket_connect_timeout": None}

Command = tuple[str | bytes | int | float, ...]


class Reason(StrEnum):
    """Why nothing came of it: no answer in time, no connection, or an answer that says no, or that is no answer."""

    TIMEOUT = "timeout"
    CONNECTION = "connection"
    REFUSED = "refused"


class StoreError(Exception):
    """The store did not do what it was asked to; the connection is closed."""

    def __init__(self, reason: Reason, kind: str) -> None:
        super().__init__(f"{reason.value}: {kind}")
        self.reason = reason


class WrongTypeError(StoreError):
    """What lies under a key is of a type that no replica gives it: somebody else's, or damage."""


class RedisPlace:
    """Where the Redis of `settings` is, and what the pool's keys in it are called:

    entry:KEY       a container, with an end to its life
    made:PRODUCER   the KEYs that a producer wrote, by when they end: what a flush unlinks
    banned          the producers whose entries are nobody's hit, by when the last of them has ended
    """

    def __init__(self, settings: RedisSettings) -> None:
        self.settings = settings
        self._resolving = asyncio.Lock()
        self._prefix = f"encoderpool:{MAGIC.decode()}:{settings.scope}:"
        self.banned = f"{self._prefix}banned"

    def entry(self, key: str) -> str:
        """The key of an entry."""
        return f"{self._prefix}entry:{key}"

    def made(self, producer: str) -> str:
        """The key of the list of what `producer` wrote."""
        return f"{self._prefix}made:{producer}"

    async def connect(self) -> RedisConnection:
        """Open a connection; raises StoreError."""
        url = await asyncio.to_thread(self._url)
        return await RedisConnection.open(url, self._resolving, _CONNECT_SECONDS)

    def _url(self) -> str:
        """Return the URL, read anew each time: a password that was changed is found in its file."""
        settings = self.settings
        if settings.url_file is None:
            return settings.url or ""
        try:
            return settings.url_file.read_text(encoding="utf-8").strip()
        except (OSError, ValueError) as unreadable:
            raise StoreError(Reason.REFUSED, type(unreadable).__name__) from None


class RedisConnection:
    """One connection; made by `open`. Asked by one at a time."""

    def __init__(self, connection: AbstractConnection) -> None:
        self._connection = connection
        self._transport: asyncio.WriteTransport | None = None

    @classmethod
    async def open(cls, url: str, resolving: asyncio.Lock, seconds: float) -> RedisConnection:
        """Connect within `seconds`, beside the time that a name takes; raises StoreError."""
        try:
            # The protocol's version by name, because its negotiation would hide which server is asked.
            pool = ConnectionPool.from_url(url, retry=Retry(NoBackoff(), 0), driver_info=None, protocol=2)
            pool.connection_kwargs.update(_NO_CLOCKS)
            connection: AbstractConnection = pool.make_connection()  # type: ignore[no-untyped-call]
            if isinstance(connection, SSLConnection):
                # It reads all the authorities of the system: 30 ms that are not to be the front's.
                await asyncio.to_thread(connection.ssl_context.get)
            await _resolve(pool.connection_kwargs, resolving)
        except Exception as failed:
            raise _told(failed) from None
        made = cls(connection)
        connection.redis_connect_func = made._log_in
        try:
            async with asyncio.timeout(seconds):
                await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException as failed:
            await made.close()
            raise _told(failed) from None
        return made

    async def _log_in(self, connection: AbstractConnection) -> None:
        """Note what is to be closed, before anything is asked: the library forgets it where that comes to nothing."""
        writer = connection._writer
        self._transport = None if writer is None else writer.transport
        await connection.on_connect()

    async def ask(self, commands: Sequence[Command], seconds: float) -> list[Any]:
        """Send `commands` in one packet and return a reply to each, an error that is one command's among them.

        Raises StoreError where not all replies came within `seconds`.
        """
        replies: list[Any] = []
        try:
            async with asyncio.timeout(seconds):
                await self._connection.send_packed_command(self._connection.pack_commands(commands))
                for _ in commands:
                    replies.append(await self._reply())
        except BaseException as failed:
            await self.close()
            raise _told(failed) from None
        return replies

    async def clear(self, key: str, seconds: float) -> None:
        """Take out what lies under `key`, one of the pool's sorted sets, where it is none. A set that another replica
        makes in its place meanwhile stays."""
        _, kind = await self.ask([("WATCH", key), ("TYPE", key)], seconds)
        if value_of(kind, bytes) in (b"none", b"zset"):
            await self.ask([("UNWATCH",)], seconds)
            return
        _LOG.warning("cache_redis_key_cleared", extra={"key": key})
        await self.ask([("MULTI",), ("UNLINK", key), ("EXEC",)], seconds)

    async def _reply(self) -> Any:
        try:
            return await self._connection.read_response(disable_decoding=True)
        except redis.ResponseError as error:
            return error

    async def close(self) -> None:
        """Close it at once: what a server has not read is not sent, and no farewell is awaited."""
        await self._connection.disconnect(nowait=True)
        if self._transport is not None:
            self._transport.abort()


async def _resolve(about: dict[str, Any], resolving: asyncio.Lock) -> None:
    """Look the host's name up before connecting, one at a time and however long it takes: a look-up cannot be broken
    off, holds a thread, and those of a dead resolver would soon hold all that decode pictures."""
    host = about.get("host")
    if host is not None:
        async with resolving:
            await asyncio.get_running_loop().getaddrinfo(host, about.get("port"))


def _told(error: BaseException) -> BaseException:
    """Return what is raised for `error`: itself, where somebody cancels."""
    if not isinstance(error, Exception):
        return error
    kind = type(error).__name__
    if isinstance(error, TimeoutError | redis.TimeoutError):
        return StoreError(Reason.TIMEOUT, kind)
    lost = isinstance(error, OSError | redis.ConnectionError | asyncio.IncompleteReadError)
    if lost and not isinstance(error, redis.AuthenticationError):
        return StoreError(Reason.CONNECTION, kind)
    return StoreError(Reason.REFUSED, kind)


def is_wrong_type(reply: Any) -> bool:
    """Whether a reply says that what lies under a key is of another type."""
    return isinstance(reply, redis.ResponseError) and str(reply).startswith("WRONGTYPE")


def value_of(reply: Any, kind: type) -> Any:
    """Return a reply of the type that it must have; raises StoreError for an error (WrongTypeError, where it is that),
    and for an answer to another question."""
    if isinstance(reply, kind):
        return reply
    if is_wrong_type(reply):
        raise WrongTypeError(Reason.REFUSED, WrongTypeError.__name__)
    raise StoreError(Reason.REFUSED, type(reply).__name__)
