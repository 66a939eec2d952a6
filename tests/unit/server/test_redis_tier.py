"""Whatever a Redis does, and whenever the tier ends, no connection to it stays open."""

import asyncio
import contextlib
import gc
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from encoder_server.metrics import Metrics
from encoder_server.redis_connection import RedisConnection, StoreError
from encoder_server.redis_tier import RedisTier
from encoder_server.settings import RedisSettings

# Of the loop: from the first connection's being accepted until all four were tried, and beyond.
TURNS = range(48)
EMPTY = b"$0\r\n\r\n*0\r\n"


class Store:
    """A listening socket that answers what the tier asks, or nothing; it knows who has not hung up yet."""

    def __init__(self, *, answers: bool) -> None:
        self.answers = answers
        self.open: set[asyncio.StreamWriter] = set()
        self.accepted = asyncio.Event()
        self.asked = asyncio.Event()
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.open.add(writer)
        self.accepted.set()
        with contextlib.suppress(ConnectionError):
            while await reader.read(65536):
                self.asked.set()
                if self.answers:
                    writer.write(EMPTY)
        self.open.discard(writer)
        writer.close()


@asynccontextmanager
async def listening(*, answers: bool) -> AsyncIterator[Store]:
    store = Store(answers=answers)
    server = await asyncio.start_server(store.serve, "127.0.0.1", 0)
    store.url = f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0?socket_timeout=5"
    async with server:
        yield store


def tier_of(url: str) -> RedisTier:
    settings = RedisSettings(
        url=url, url_file=None, scope="x", timeout_seconds=0.5, ttl_seconds=60, most_entry_bytes=1000
    )
    return RedisTier(settings, Metrics().cache)


def open_files() -> set[str]:
    gc.collect()
    return {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.exists()}


async def eventually_closed(store: Store) -> None:
    async with asyncio.timeout(5):
        while store.open:  # noqa: ASYNC110 - what is awaited is the other end of a socket
            await asyncio.sleep(0.001)


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    async with asyncio.timeout(5):
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("answers", [False, True], ids=["never answers", "answers"])
async def test_whenever_the_tier_ends_while_it_connects_no_connection_stays_open(answers: bool) -> None:
    for turns in TURNS:
        async with listening(answers=answers) as store:
            running = asyncio.create_task(tier_of(store.url).run())
            await store.accepted.wait()
            for _ in range(turns):
                await asyncio.sleep(0)
            await end(running)
            await eventually_closed(store)


async def test_the_tier_ends_at_once_while_nobody_even_accepts_its_connection() -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        async with contextlib.AsyncExitStack() as fillers:
            for _ in range(4):
                filler = fillers.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(("127.0.0.1", port))
            before = open_files()
            running = asyncio.create_task(tier_of(f"redis://127.0.0.1:{port}/0").run())
            async with asyncio.timeout(5):
                while open_files() <= before:  # noqa: ASYNC110 - what is awaited is a thread's doing
                    await asyncio.sleep(0.001)
            await end(running)
            assert open_files() <= before


async def test_a_connection_that_is_read_from_when_the_tier_ends_is_closed_when_it_is_given_back() -> None:
    async with listening(answers=True) as store:
        tier = tier_of(store.url)
        running = asyncio.create_task(tier.run())
        async with asyncio.timeout(5):
            while not tier.usable:  # noqa: ASYNC110 - what is awaited is the other end of a socket
                await asyncio.sleep(0.001)
        store.answers = False
        store.asked.clear()
        reading = asyncio.create_task(tier.read(["key"]))
        await store.asked.wait()
        await end(running)
        assert not tier.usable
        for writer in store.open:
            writer.write(EMPTY)
        await reading
        await eventually_closed(store)


async def test_what_a_redis_that_reads_nothing_was_sent_is_let_go_with_its_connection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        before = open_files()
        url = f"redis://127.0.0.1:{listener.getsockname()[1]}/0"
        connection = await RedisConnection.open(url, asyncio.Lock(), 1.0)
        with pytest.raises(StoreError, match="timeout"):
            await connection.ask([("SET", "key", bytes(32 * 2**20))], 0.05)
        await asyncio.sleep(0)
        assert open_files() <= before
