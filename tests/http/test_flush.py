"""A flush that the operator orders: what one producer made is nobody's hit any more, wherever it is."""

import json
from pathlib import Path
from typing import Any

import pytest

from encoder_server.redis_connection import RedisPlace
from encoder_server.settings import RedisSettings
from tests.http.redis_server import SCOPE, RedisServer
from tests.http.sharing_pool import SharingPool, count, rows
from tests.http.test_probes import later
from tests.http.under_test import Server, Start, until

ORDERS = json.loads((Path(__file__).parents[1] / "contract" / "orders.json").read_text())
FLUSH = ORDERS["flush"]["annotation"]
MEMORY = {"tier": "memory"}


async def producer(server: Server) -> str:
    identity = await server.identity()
    return f"{identity['podUid']}/{identity['bootId']}"


async def order(server: Server, *producers: str, boot_id: str | None = None, order_id: str = "flush-1") -> None:
    boot_id = boot_id or (await server.identity())["bootId"]
    value = ORDERS["flush"]["value"] | {"id": order_id, "bootId": boot_id, "producers": list(producers)}
    server.pod.write({"encoderpool.io/serving": "true"}, {FLUSH: value})


def settings_of(redis: RedisServer) -> RedisSettings:
    return RedisSettings(
        url=redis.url, url_file=None, scope="local", timeout_seconds=1, ttl_seconds=60, most_entry_bytes=2**20
    )


async def until_result(server: Server, result: str, order_id: str = "flush-1") -> None:
    async def reached() -> bool:
        done: Any = (await server.identity())["orders"]["flush"]
        return bool(done == {"id": order_id, "result": result})

    await until(reached)


async def test_what_a_producer_made_goes_from_memory_and_from_redis_for_all(
    pool: SharingPool, redis: RedisServer
) -> None:
    bad, reader = await pool.start(), await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    await rows(reader)
    assert reader.batches == []
    await order(reader, await producer(bad))
    await until_result(reader, "done")
    assert await redis.entries() == []
    assert await reader.metric("encoder_cache_flushed_total", **MEMORY) == 1
    await rows(reader)
    assert reader.batches == [["56x56"]]
    # Encoded anew by somebody else, it is everybody's again.
    await redis.until_entries(1)
    late = await pool.start()
    await rows(late)
    assert late.batches == []


async def test_names_that_no_replica_wrote_do_not_keep_a_producers_entries_from_going(
    pool: SharingPool, redis: RedisServer
) -> None:
    bad, reader = await pool.start(), await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    made = f"{SCOPE}made:{await producer(bad)}"
    await redis.client.zadd(made, {b"\xff" + at.to_bytes(2, "big"): 0 for at in range(300)})
    await order(reader, await producer(bad))
    await until_result(reader, "done")
    assert await redis.entries() == []
    assert await redis.client.zcard(made) == 0


@pytest.mark.parametrize("which", ["banned", "made"])
async def test_a_flush_ends_though_somebody_elses_value_lies_under_a_key_of_the_pools_own(
    pool: SharingPool, redis: RedisServer, which: str
) -> None:
    bad, reader = await pool.start(), await pool.start()
    await rows(bad)
    (key,) = await redis.until_entries(1)
    value, made = await redis.value(key), f"{SCOPE}made:{await producer(bad)}"
    forged = f"{SCOPE}banned" if which == "banned" else made
    await redis.client.delete(forged)
    await redis.client.set(forged, b"no set of names")
    await order(reader, await producer(bad))
    await until_result(reader, "done")
    assert await redis.client.type(forged) == (b"zset" if which == "banned" else b"none")
    # The ban holds for who was not told of it, even where the entry could not be found to be taken out.
    await redis.client.set(key, value)
    late = await pool.start()
    await rows(late)
    assert late.batches == [["56x56"]]


async def test_a_list_of_bans_that_is_none_costs_hits_until_it_is_cleared_and_no_answer(
    pool: SharingPool, redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    await redis.client.rpush(f"{SCOPE}banned", "a", "b")
    one = await pool.start()
    assert "cache_redis_key_cleared" in [record.message for record in caplog.records]
    assert await redis.client.type(f"{SCOPE}banned") == b"none"
    await rows(one)
    await redis.until_entries(1)
    other = await pool.start()
    await rows(other)
    assert other.batches == []


async def test_what_a_replica_makes_is_listed_though_the_list_was_something_else(
    pool: SharingPool, redis: RedisServer
) -> None:
    one = await pool.start()
    made = f"{SCOPE}made:{await producer(one)}"
    await redis.client.set(made, b"no set of names")
    await rows(one)

    async def listed() -> bool:
        return await redis.client.type(made) == b"zset" and bool(await redis.client.zcard(made))

    await until(listed)
    assert await count(one, "errors_total", operation="write", reason="refused") == 0


async def test_a_list_of_bans_that_another_replica_mends_first_is_left_alone(redis: RedisServer) -> None:
    place = RedisPlace(settings_of(redis))
    connection = await place.connect()
    try:
        await redis.client.zadd(place.banned, {"somebody": 1})
        await connection.clear(place.banned, 1.0)
        assert await redis.client.zcard(place.banned) == 1
    finally:
        await connection.close()


async def test_what_is_written_after_the_ban_is_nobodys_hit_either(pool: SharingPool, redis: RedisServer) -> None:
    bad, told = await pool.start(), await pool.start()
    await rows(bad)
    (key,) = await redis.until_entries(1)
    value = await redis.value(key)
    await order(told, await producer(bad))
    await until_result(told, "done")
    for reader in (told, await pool.start()):
        await redis.client.set(key, value)
        await rows(reader)
        assert reader.batches == [["56x56"]]
        assert await count(reader, "flushed_total") == 1


async def test_who_is_banned_hears_of_it_and_writes_no_more(pool: SharingPool, redis: RedisServer) -> None:
    bad, told = await pool.start(), await pool.start()
    await order(told, await producer(bad))
    await until_result(told, "done")
    await rows(bad)
    await rows(told, (56, 84))
    await redis.until_entries(1)
    assert await count(bad, "seconds_count", operation="write") == 0


async def test_who_was_not_told_hears_of_it_with_what_it_reads(pool: SharingPool, redis: RedisServer) -> None:
    bad, reader, told = await pool.start(), await pool.start(), await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    await rows(reader)
    await order(told, await producer(bad))
    await until_result(told, "done")
    await rows(reader, (56, 84))
    await rows(reader)
    assert reader.batches == [["56x84"], ["56x56"]]
    assert await reader.metric("encoder_cache_flushed_total", **MEMORY) == 1


async def test_an_entry_that_outlived_its_ban_in_redis_is_not_taken_by_who_was_told(
    pool: SharingPool, redis: RedisServer
) -> None:
    bad, told = await pool.start(), await pool.start()
    await rows(bad)
    (key,) = await redis.until_entries(1)
    value = await redis.value(key)
    await order(told, await producer(bad))
    await until_result(told, "done")
    await redis.client.delete(f"{SCOPE}banned")
    await redis.client.set(key, value)
    await rows(told)
    assert told.batches == [["56x56"]]
    assert await count(told, "flushed_total") == 1


async def test_memory_is_flushed_at_once_and_redis_when_it_is_back(pool: SharingPool, redis: RedisServer) -> None:
    bad, reader = await pool.start(), await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    await rows(reader)
    await redis.kill()
    await order(reader, await producer(bad))
    await until_result(reader, "running")
    await rows(reader)
    assert reader.batches == [["56x56"]]
    await redis.start()
    await until_result(reader, "done")
    assert await redis.client.zcard(f"{SCOPE}banned") == 1


async def test_a_full_redis_makes_room_for_a_ban(pool: SharingPool, redis: RedisServer) -> None:
    bad, reader = await pool.start(), await pool.start()
    for size in ((56, 56), (56, 84), (84, 84)):
        await rows(bad, size)
    await redis.until_entries(3)
    used = (await redis.client.info("memory"))["used_memory"]
    await redis.client.config_set("maxmemory", str(used))
    await order(reader, await producer(bad))

    async def unlinked() -> bool:
        return await redis.entries() == []

    await until(unlinked)
    await redis.client.config_set("maxmemory", "0")
    await until_result(reader, "done")


async def test_a_replica_that_is_banned_itself_keeps_nothing(pool: SharingPool, redis: RedisServer) -> None:
    bad = await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    await order(bad, await producer(bad))
    await until_result(bad, "done")
    for _ in range(2):
        await rows(bad)
    assert len(bad.batches) == 3
    assert await redis.entries() == []


async def test_an_order_for_another_boot_flushes_nothing(pool: SharingPool, redis: RedisServer) -> None:
    server = await pool.start()
    await rows(server)
    await redis.until_entries(1)
    await order(server, await producer(server), boot_id="another")
    # Heard in one look with the label, so that a cordon tells when it has been read.
    server.pod.cordon(**{FLUSH: ORDERS["flush"]["value"] | {"producers": [await producer(server)]}})
    await server.until_state("CORDONED")
    assert (await server.identity())["orders"]["flush"] is None
    assert len(await redis.entries()) == 1


async def test_without_a_redis_memory_alone_is_flushed(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    await rows(server)
    await order(server, await producer(server))
    await until_result(server, "done")
    await rows(server)
    assert len(server.batches) == 2
    assert await server.metric("encoder_cache_flushed_total", **MEMORY) == 1


async def test_what_an_engine_made_that_went_wrong_is_nobodys_hit_and_what_its_successor_makes_is(
    pool: SharingPool, redis: RedisServer
) -> None:
    bad, reader = await pool.start("--probe-period-seconds=0.05"), await pool.start()
    await rows(bad)
    await redis.until_entries(1)
    await rows(reader)
    assert reader.batches == []
    later(bad, golden="count", pid=int((bad.model / "pids").read_text()))
    await redis.until_entries(0)
    await rows(reader, (56, 84))
    await rows(reader)
    assert reader.batches == [["56x84"], ["56x56"]]
    await bad.until_state("READY")
    await rows(bad, (84, 84))
    await redis.until_entries(3)
    # Who names the boot means all that it made.
    await order(bad, await producer(bad))
    await until_result(bad, "done")
    late = await pool.start()
    await rows(late, (84, 84))
    assert late.batches == [["84x84"]]
