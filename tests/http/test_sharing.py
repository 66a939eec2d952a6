"""A Redis that replicas share: what one encoded another recalls, and nothing that is in there is believed."""

import asyncio
import itertools
import json
import logging
import struct
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from encoder_server import container
from encoder_server.cache import Entry, _checksum
from tests.http.redis_server import SCOPE, RedisServer, redis_running
from tests.http.sharing_pool import REDIS, SharingPool, count, rows
from tests.http.test_cache import checks
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import items, until


async def test_what_one_replica_encoded_another_recalls_and_checks_again(pool: SharingPool, redis: RedisServer) -> None:
    one = await pool.start()
    first = await rows(one)
    await redis.until_entries(1)
    other = await pool.start()
    assert [await rows(other), await rows(other)] == [first, first]
    assert other.batches == []
    assert (await checks(other, "fresh"), await checks(other, "cached")) == (0, 2)
    assert (await count(other, "hits_total"), await count(other, "misses_total")) == (1, 0)
    assert await other.metric("encoder_cache_hits_total", tier="memory") == 1
    assert await count(one, "moved_bytes_total", direction="written") > 1024
    assert await count(other, "moved_bytes_total", direction="read") > 1024


async def test_the_promise_comes_first_for_what_is_recalled_too(pool: SharingPool, redis: RedisServer) -> None:
    await rows(await pool.start())
    await redis.until_entries(1)
    other = await pool.start()
    answer = await other.encode(items((56, 56), (56, 84)), accept="multipart/mixed")
    promised = json.loads(answer.body.split(b"\r\n\r\n")[1].split(b"\r\n--")[0])
    assert [item["tokens"] for item in promised["items"]] == [4, 6]
    assert other.batches == [["56x84"]]


async def test_a_callers_own_count_is_compared_with_what_another_encoded(pool: SharingPool, redis: RedisServer) -> None:
    await rows(await pool.start())
    await redis.until_entries(1)
    other = await pool.start()
    refused = await other.encode(items((56, 56), expected_tokens=5))
    assert (refused.status, refused.code) == (422, "promise_mismatch")
    assert "expected 5 tokens, the processor makes 4" in refused.message
    assert (await rows(other, expected_tokens=4))["tokens"] == 4
    assert other.batches == []


async def test_equal_items_at_one_time_are_looked_up_and_computed_once(pool: SharingPool) -> None:
    server = await pool.start(sizes={"112x56": "gate"})
    callers = []
    for number in (1, 2, 3):
        callers.append(asyncio.create_task(rows(server, (112, 56))))
        await server.until_load(inFlight=number)
    await server.until_taken()
    await open_gate(server.model)
    assert len({json.dumps(await caller) for caller in callers}) == 1
    assert server.batches == [["112x56"]]
    assert await count(server, "seconds_count", operation="read") == 1


async def test_another_pools_entries_are_not_this_ones(pool: SharingPool, redis: RedisServer) -> None:
    await rows(await pool.start("--cache-redis-scope=models/vision"))

    async def written() -> bool:
        return bool(await redis.client.keys("encoderpool:EPC2:models/vision:entry:*"))

    await until(written)
    other = await pool.start("--cache-redis-scope=models/other")
    await rows(other)
    assert other.batches == [["56x56"]]


async def test_what_failed_its_check_is_not_shared(pool: SharingPool, redis: RedisServer) -> None:
    server = await pool.start(sizes={"112x56": "short"})
    assert (await server.encode(items((56, 56), (112, 56)))).code == "token_mismatch"
    await redis.until_entries(1)


async def test_an_entry_lives_as_long_as_it_may(pool: SharingPool, redis: RedisServer) -> None:
    one = await pool.start("--cache-redis-ttl-seconds=0.4")
    await rows(one)

    async def all_is_gone() -> bool:
        written = await count(one, "seconds_count", operation="write")
        return written == 1 and await redis.client.dbsize() == 0

    await until(all_is_gone)
    other = await pool.start()
    await rows(other)
    (key,) = await redis.until_entries(1)
    assert len(other.batches) == 1
    assert 86_000 < await redis.client.ttl(key) <= 86_400


async def test_what_is_too_large_is_not_shared(pool: SharingPool, redis: RedisServer) -> None:
    server = await pool.start("--cache-redis-max-entry-bytes=1024")
    await rows(server, (56, 84))
    await rows(server, (56, 56))
    await redis.until_entries(1)
    assert await count(server, "skipped_total", reason="large") == 1


async def test_a_replica_that_could_recall_everything_still_gives_evidence(
    pool: SharingPool, redis: RedisServer
) -> None:
    one = await pool.start()
    await one.encode(items((56, 56), (56, 84), (56, 112)))
    await redis.until_entries(3)
    other = await pool.start("--evidence-seconds=0.000001")
    answer = await other.encode(items((56, 56), (56, 84), (56, 112)))
    assert [item["index"] for item in answer.json["items"]] == [0, 1, 2]
    assert [len(batch) for batch in other.batches] == [1]
    assert (await checks(other, "fresh"), await checks(other, "cached")) == (1, 2)


def resealed(entry: Entry, **changes: object) -> bytes:
    """What somebody would write who can compute a checksum, but has other rows."""
    changed: Entry = replace(entry, **changes)  # type: ignore[arg-type]
    about = (changed.key, changed.promise, changed.shape, changed.dtype, changed.producer, changed.data)
    return container.pack(replace(changed, checksum=_checksum(*about)))


def entry_of(value: bytes) -> Entry:
    return container.unpack("", value)


LIES: dict[str, Callable[[str, bytes, bytes], bytes]] = {
    "a bit of its rows": lambda key, value, other: value[:-1] + bytes([value[-1] ^ 1]),
    "a bit of its head": lambda key, value, other: value[:60] + bytes([value[60] ^ 1]) + value[61:],
    "cut short": lambda key, value, other: value[:-4],
    "longer": lambda key, value, other: value + b"\0" * 4,
    "another item's": lambda key, value, other: other,
    "another layout's": lambda key, value, other: b"EPC1" + value[4:],
    "no entry": lambda key, value, other: b"\x80\x04pickled",
    "a huge head": lambda key, value, other: value[:4] + b"\xff" * 4 + value[8:],
    "huge rows": lambda key, value, other: value[:8] + b"\xff" * 8 + value[16:],
    "larger than any": lambda key, value, other: value + bytes(8 * 2**20),
    "another shape's": lambda key, value, other: resealed(replace(entry_of(value), key=key), shape=(2, 128)),
    "another dtype's": lambda key, value, other: resealed(
        replace(entry_of(value), key=key), dtype="float16", data=bytes(512)
    ),
    "another count's": lambda key, value, other: resealed(
        replace(entry_of(value), key=key), promise=replace(entry_of(value).promise, tokens=5)
    ),
    "another modality's": lambda key, value, other: resealed(
        replace(entry_of(value), key=key), promise=replace(entry_of(value).promise, modality="audio")
    ),
    "zeros": lambda key, value, other: bytes(len(value)),
    "an empty frame": lambda key, value, other: struct.pack("<4sIQ16s", b"EPC2", 0, 0, bytes(16)),
}


async def lie(redis: RedisServer, make: Callable[[str, bytes, bytes], bytes], size: tuple[int, int]) -> None:
    """Put something else under the key of the one entry whose rows are those of `size`."""
    values = {key: await redis.value(key) for key in await redis.entries()}
    tokens = {(56, 56): 4, (56, 84): 6}[size]
    ((key, value),) = [pair for pair in values.items() if entry_of(pair[1]).promise.tokens == tokens]
    ((_, other),) = [pair for pair in values.items() if pair[0] != key]
    await redis.client.set(key, make(key.removeprefix(f"{SCOPE}entry:"), value, other))


async def test_whatever_lies_under_a_key_is_evicted_counted_apart_and_encoded_again_once(
    pool: SharingPool, redis: RedisServer
) -> None:
    one = await pool.start()
    right = [await rows(one), await rows(one, (56, 84))]
    for what, make in LIES.items():
        await redis.until_entries(2)
        await lie(redis, make, (56, 56))
        reader = await pool.start("--cache-bytes=0")
        assert [await rows(reader), await rows(reader, (56, 84))] == right, what
        assert reader.batches == [["56x56"]], what
        assert await count(reader, "corrupt_total") == 1, what
        assert await checks(reader, "fresh") == 1, what
        assert await reader.metric("encoder_mismatched_media_total") == 0
        assert (await reader.identity())["recentViolations"] == []

        async def repaired() -> bool:
            values = [await redis.value(key) for key in await redis.entries()]
            return len(values) == 2 and len({value[:4] for value in values}) == 1 and _all_whole(values)

        await until(repaired)


def _all_whole(values: list[bytes]) -> bool:
    try:
        return sorted(entry_of(value).promise.tokens for value in values) == [4, 6]
    except container.CorruptError:
        return False


async def test_a_key_of_another_type_is_replaced(pool: SharingPool, redis: RedisServer) -> None:
    one = await pool.start()
    right = await rows(one)
    (key,) = await redis.until_entries(1)
    await redis.client.delete(key)
    await redis.client.rpush(key, "a", "b")
    reader = await pool.start()
    assert await rows(reader) == right
    assert await count(reader, "corrupt_total") == 1

    async def replaced() -> bool:
        return await redis.client.type(key) == b"string"

    await until(replaced)


async def test_no_password_is_shown_anywhere(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with redis_running(tmp_path / "locked", password="hunter2") as redis, AsyncExitStack() as stack:
        pool = SharingPool(tmp_path, stack)
        pool.point_to(redis.url.replace("hunter2", "swordfish"))
        server = await pool.start(connected=False)

        async def refused() -> bool:
            return await count(server, "errors_total", operation="connect", reason="refused") > 0

        await until(refused)
        await rows(server)
        # Who changes the password changes the file; nobody need start the server anew.
        pool.point_to(redis)

        async def reached() -> bool:
            return await server.metric("encoder_cache_usable", **REDIS) == 1

        await until(reached)
        heights = itertools.count(84)

        async def written() -> bool:
            await rows(server, (56, next(heights)))
            return bool(await redis.entries())

        await until(written)
        shown = [(await server.get(path)).body.decode() for path in ("/metrics", "/v1/identity", "/v1/limits")]
        for text in (*shown, caplog.text, str(server.app)):
            assert "hunter2" not in text
            assert "swordfish" not in text
