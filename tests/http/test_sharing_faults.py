"""Whatever becomes of the Redis: answers are right, nobody waits for long, and nothing heaps up."""

import asyncio
import contextlib
import signal
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from encoder_server import keys
from tests.http.redis_server import RedisServer, free_port
from tests.http.sharing_pool import SharingPool, count, rows, usable
from tests.http.under_test import Server, items, until

CONNECTIONS = 4
SIZES = [(28 * width, 28 * height) for width in range(2, 6) for height in range(2, 7)]


@pytest.fixture
async def pool(tmp_path: Path) -> AsyncIterator[SharingPool]:
    async with AsyncExitStack() as stack:
        yield SharingPool(tmp_path, stack)


async def right_rows(server: Server) -> None:
    """Ask for media that are not in memory, and compare with what the engine makes of them."""
    for width, height in SIZES:
        row = await rows(server, (width, height))
        assert row["tokens"] == (width // 28) * (height // 28)


async def timeouts(server: Server) -> float:
    return await count(server, "errors_total", operation="read", reason="timeout")


async def test_a_redis_that_stands_still_costs_a_wait_for_each_connection_and_then_none(
    pool: SharingPool, redis: RedisServer
) -> None:
    pool.point_to(redis)
    server = await pool.start("--cache-bytes=0")
    await rows(server)
    await redis.until_entries(1)
    redis.signal(signal.SIGSTOP)
    # Some at one time, then many in turn: each of them misses, and is encoded.
    answers = await asyncio.gather(*(server.encode(items(size)) for size in SIZES[:8]))
    assert {answer.status for answer in answers} == {200}
    await right_rows(server)
    assert 1 <= await timeouts(server) <= CONNECTIONS
    assert await server.metric("encoder_cache_seconds_sum", tier="redis", operation="read") < CONNECTIONS * 1.0
    assert await count(server, "usable") == 0
    waited, before = await count(server, "seconds_count", operation="read"), len(server.batches)
    await right_rows(server)
    assert await count(server, "seconds_count", operation="read") == waited
    assert len(server.batches) == before + len(SIZES)
    redis.signal(signal.SIGCONT)
    await usable(server)
    assert (await rows(server))["tokens"] == 4
    assert await count(server, "hits_total") == 1


async def test_no_single_answer_waits_for_longer_than_it_may(pool: SharingPool, redis: RedisServer) -> None:
    pool.point_to(redis)
    server = await pool.start("--cache-bytes=0", "--cache-redis-timeout-seconds=0.5")
    without = await pool.start("--cache-bytes=0", connected=False)
    redis.signal(signal.SIGSTOP)

    async def took(each: Server) -> float:
        began = time.monotonic()
        assert (await each.encode(items(*SIZES[:16]))).status == 200
        return time.monotonic() - began

    # Sixteen items that are looked up together wait once, not sixteen times.
    assert await took(server) < await took(without) + 0.5 + 1.0
    redis.signal(signal.SIGCONT)


async def test_a_redis_that_is_killed_in_traffic_and_comes_back_empty_costs_no_answer(
    pool: SharingPool, redis: RedisServer
) -> None:
    pool.point_to(redis)
    server = await pool.start("--cache-bytes=0")
    stop = asyncio.Event()

    async def caller() -> int:
        answered = 0
        while not stop.is_set():
            await rows(server, SIZES[answered % len(SIZES)])
            answered += 1
        return answered

    callers = [asyncio.create_task(caller()) for _ in range(3)]
    for _ in range(2):
        await redis.until_entries(len(SIZES))
        await redis.kill()
        await usable(server, 0)
        await redis.start()
        await usable(server)
    stop.set()
    assert min([await each for each in callers]) > 0
    assert await count(server, "corrupt_total") == 0


async def test_one_that_was_never_there_is_no_error(pool: SharingPool) -> None:
    pool.point_to(f"redis://127.0.0.1:{free_port()}/0")
    server = await pool.start(connected=False)
    await right_rows(server)
    assert await count(server, "seconds_count", operation="read") == 0
    assert await count(server, "errors_total", operation="connect", reason="connection") > 0


@pytest.mark.parametrize("url", ["", "nonsense", "redis://[", "redis://127.0.0.1:6379/0?no_such=1", "http://x"])
async def test_a_url_that_is_none_is_no_error_and_is_counted(pool: SharingPool, url: str) -> None:
    pool.point_to(url)
    server = await pool.start(connected=False)
    assert (await rows(server))["tokens"] == 4

    async def counted() -> bool:
        return await count(server, "errors_total", operation="connect", reason="refused") > 0

    await until(counted)


Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(-1)


async def another_protocol(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")


async def dribbling(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(b"$")
        await writer.drain()
        await asyncio.sleep(0.01)


async def hanging_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read(1)


async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"$99999999999\r\n")
    while True:
        writer.write(bytes(65536))
        await writer.drain()


async def nested(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"*1\r\n" * 100_000)
    await writer.drain()
    await reader.read(-1)


def saying(reply: bytes) -> Talk:
    """Answers every command so: the packets of a client hold as many as they have asterisks."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while packet := await reader.read(65536):
            writer.write(reply * packet.count(b"\r\n$0\r\n") or reply * packet.count(b"*"))
            await writer.drain()

    return talk


@asynccontextmanager
async def pretending(talk: Talk) -> AsyncIterator[str]:
    writers: list[asyncio.StreamWriter] = []
    talks: list[asyncio.Task[None]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await talk(reader, writer)
        writer.close()

    def on_connection(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Kept from here on: a connection that was just accepted when a test ends has no one else to close it.
        writers.append(writer)
        talks.append(asyncio.create_task(answer(reader, writer)))

    server = await asyncio.start_server(on_connection, "127.0.0.1", 0)
    try:
        yield f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}/0"
    finally:
        server.close()
        for each in talks:
            each.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        for writer in writers:
            writer.close()


@pytest.mark.parametrize(
    "talk",
    [
        silent,
        another_protocol,
        dribbling,
        hanging_up,
        endless,
        nested,
        saying(b"+OK\r\n"),
        saying(b":1\r\n"),
        saying(b"*0\r\n"),
        saying(b"-LOADING Redis is loading the dataset in memory\r\n"),
        saying(b"-NOAUTH Authentication required.\r\n"),
        saying(b"$-1\r\n"),
    ],
    ids=["silent", "http", "dribbling", "hangs-up", "endless", "nested", "ok", "one", "none", "loading", "auth", "nil"],
)
async def test_what_is_no_redis_is_never_usable_and_costs_no_answer(pool: SharingPool, talk: Talk) -> None:
    async with pretending(talk) as url:
        pool.point_to(url)
        server = await pool.start(connected=False)

        async def tried() -> bool:
            text = (await server.get("/metrics")).body.decode()
            lines = [line for line in text.splitlines() if line.startswith("encoder_cache_errors_total")]
            return any('operation="connect"' in line and not line.endswith(" 0.0") for line in lines)

        await until(tried)
        await right_rows(server)
        assert await count(server, "usable") == 0
        assert (await server.get("/healthz")).status == 200


@pytest.mark.parametrize(
    "settings",
    [
        {"maxmemory": "1"},
        {"min-replicas-to-write": "1"},
    ],
    ids=["full", "not-to-be-written"],
)
async def test_one_that_takes_no_writes_is_read_all_the_same(
    pool: SharingPool, redis: RedisServer, settings: dict[str, str]
) -> None:
    pool.point_to(redis)
    first = await rows(await pool.start())
    await redis.until_entries(1)
    for name, value in settings.items():
        await redis.client.config_set(name, value)
    server = await pool.start("--cache-bytes=0")
    await right_rows(server)

    async def refused() -> bool:
        return await count(server, "errors_total", operation="write", reason="refused") > 0

    await until(refused)
    assert await rows(server) == first
    assert await count(server, "hits_total") == 2
    assert await count(server, "usable") == 1
    assert await redis.entries() == await redis.until_entries(1)


async def test_the_identity_says_since_when_the_redis_cannot_be_read(pool: SharingPool, redis: RedisServer) -> None:
    pool.point_to(redis)
    server = await pool.start()
    assert (await server.identity())["sharing"] == {"unusableSince": None}
    await redis.kill()

    async def lost() -> Any:
        await right_rows(server)
        return (await server.identity())["sharing"]["unusableSince"]

    since = await until(lost)
    assert since > (await server.identity())["startedAt"]
    await right_rows(server)
    assert (await server.identity())["sharing"] == {"unusableSince": since}
    await redis.start()
    await usable(server)
    assert (await server.identity())["sharing"] == {"unusableSince": None}


async def test_nothing_heaps_up_while_it_stands_still_and_nothing_is_left_when_the_server_leaves(
    tmp_path: Path, redis: RedisServer
) -> None:
    async with AsyncExitStack() as stack:
        pool = SharingPool(tmp_path, stack)
        pool.point_to(redis)
        server = await pool.start("--cache-bytes=0")
        await right_rows(server)
        redis.signal(signal.SIGSTOP)
        await right_rows(server)
        tasks = len(asyncio.all_tasks())
        for _ in range(3):
            await right_rows(server)
        assert len(asyncio.all_tasks()) <= tasks + 2
        tier = server.app[keys.PIPELINE].recall._tier
        assert tier is not None
        writer = tier._writer

        async def let_go() -> bool:
            return writer._bytes == 0

        await until(let_go)
        redis.signal(signal.SIGCONT)
        await usable(server)

    async def only_ours() -> bool:
        return len(await redis.client.client_list()) == 1

    await until(only_ours)
