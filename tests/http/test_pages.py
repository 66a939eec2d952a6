"""The pages for whoever runs pools: what they do with a Redis, on one that holds entries and bans."""

import asyncio
import os

import pytest

from encoder_server.container import MAGIC
from tests.http.redis_server import RedisServer
from tests.support.pages import Page, of_redis

BLOCKS = [block for page in ("runbook.md", "upgrade.md") for block in Page.of(page).commands if of_redis(block)]
LOOK, CLEAR, FORGET = BLOCKS
POOL = "models/vision"


async def run(redis: RedisServer, block: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", block),
        env={**os.environ, "REDIS": redis.url, "NAMESPACE": "models", "POOL": "vision"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    return printed.decode()


async def fill(redis: RedisServer) -> None:
    for layout in ("EPC1", "EPC2"):
        for number in range(3):
            await redis.client.set(f"encoderpool:{layout}:{POOL}:entry:{number}", b"rows")
        await redis.client.zadd(f"encoderpool:{layout}:{POOL}:banned", {f"pod/{layout}": 1})
    await redis.client.set("encoderpool:EPC2:models/other:entry:1", b"rows")


async def keys(redis: RedisServer) -> set[str]:
    return {key.decode() async for key in redis.client.scan_iter("*")}


async def test_a_look_tells_the_memory_the_number_of_entries_and_who_is_banned(redis: RedisServer) -> None:
    await fill(redis)
    told = await run(redis, LOOK)
    assert told.startswith("PONG")
    assert "maxmemory_policy:" in told
    assert told.splitlines()[-2:] == ["3", "pod/EPC2"]


@pytest.mark.parametrize("times", [1, 2])
async def test_entries_are_thrown_away_and_bans_and_other_pools_stay(redis: RedisServer, times: int) -> None:
    await fill(redis)
    before = await keys(redis)
    for _ in range(times):
        await run(redis, CLEAR)
    assert before - await keys(redis) == {f"encoderpool:EPC2:{POOL}:entry:{number}" for number in range(3)}


async def test_an_old_layout_goes_whole_and_the_new_one_stays(redis: RedisServer) -> None:
    await fill(redis)
    before = await keys(redis)
    await run(redis, FORGET)
    assert before - await keys(redis) == {key for key in before if key.startswith(f"encoderpool:EPC1:{POOL}:")}


def test_the_pages_name_the_layout_that_there_is() -> None:
    assert all(f":{MAGIC.decode()}:" in block for block in (LOOK, CLEAR))
