"""Pools: one task for each, each failing alone; and the process' own health."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import aiohttp
import pytest
from prometheus_client import CollectorRegistry, Counter

from encoder_operator import pools as module
from encoder_operator.cluster import JsonObject
from encoder_operator.errors import UnavailableError
from encoder_operator.health import Heartbeats, serve
from encoder_operator.pools import Pools
from tests.support.memory_world import MemoryWorld


class ManyPools(MemoryWorld):
    """A cluster that answers for some pools and not for others."""

    def __init__(self) -> None:
        super().__init__()
        self.looked_at: list[str] = []
        self.failing: dict[str, Exception] = {}
        self.gone: set[str] = set()
        self.seen = asyncio.Condition()

    async def get_pool(self, namespace: str, name: str) -> JsonObject | None:
        self.looked_at.append(name)
        async with self.seen:
            self.seen.notify_all()
        if name in self.failing:
            raise self.failing[name]
        return None if name in self.gone else await super().get_pool(namespace, "vision")

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(10), self.seen:
            await self.seen.wait_for(holds)


@pytest.fixture
async def cluster(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[ManyPools, Pools]]:
    monkeypatch.setattr(module, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(module, "_FIRST_BACKOFF", 0.01)
    cluster = ManyPools()
    pools = Pools(cluster.as_world())
    yield cluster, pools
    await pools.close()


@pytest.mark.parametrize("error", [UnavailableError(503, "down"), RuntimeError("a fault of our own")])
async def test_one_pools_failure_is_tried_again_and_stops_no_other(
    cluster: tuple[ManyPools, Pools], error: Exception
) -> None:
    world, pools = cluster
    world.failing["broken"] = error
    pools.wake("models", "broken")
    pools.wake("models", "vision")
    await world.until(lambda: world.looked_at.count("broken") > 2 and "vision" in world.looked_at)


async def test_waking_a_known_pool_looks_again_at_once(cluster: tuple[ManyPools, Pools]) -> None:
    world, pools = cluster
    pools.wake("models", "vision")
    await world.until(lambda: "vision" in world.looked_at)
    looked = len(world.looked_at)
    pools.wake_known("models", "vision")
    await world.until(lambda: len(world.looked_at) > looked)


async def test_a_pod_with_an_unknown_pools_label_starts_nothing(cluster: tuple[ManyPools, Pools]) -> None:
    world, pools = cluster
    pools.wake_known("models", "somebody-elses")
    pools.found([("models", "vision")])
    await world.until(lambda: "vision" in world.looked_at)
    assert "somebody-elses" not in world.looked_at


async def test_a_pool_that_came_again_under_its_name_is_looked_after(cluster: tuple[ManyPools, Pools]) -> None:
    world, pools = cluster
    world.gone.add("vision")
    pools.wake("models", "vision")
    await world.until(lambda: "vision" in world.looked_at)
    world.gone.clear()
    looked = len(world.looked_at)
    pools.found([("models", "vision")])
    pools.wake("models", "vision")
    await world.until(lambda: len(world.looked_at) > looked)


def test_a_loop_that_was_not_seen_for_too_long_is_late() -> None:
    now = [0.0]
    heartbeats = Heartbeats(lambda: now[0])
    heartbeats.expect("relist", 10.0)
    now[0] = 10.0
    assert heartbeats.late() == ()
    now[0] = 11.0
    assert heartbeats.late() == ("relist",)
    heartbeats.beat("relist")
    assert heartbeats.late() == ()


async def test_healthz_and_metrics_answer() -> None:
    now = [0.0]
    heartbeats, registry = Heartbeats(lambda: now[0]), CollectorRegistry()
    Counter("some_total", "Some.", registry=registry)
    heartbeats.expect("relist", 10.0)
    runner = await serve(0, heartbeats, registry)
    port = next(port for host, port, *_ in runner.addresses if host == "0.0.0.0")
    async with aiohttp.ClientSession(f"http://127.0.0.1:{port}") as session:
        async with session.get("/healthz") as answer:
            assert answer.status == 200
        now[0] = 60.0
        async with session.get("/healthz") as answer:
            assert (answer.status, await answer.text()) == (503, "late: relist")
        async with session.get("/metrics") as answer:
            assert "some_total 0.0" in await answer.text()
    await runner.cleanup()
