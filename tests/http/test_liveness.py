"""Busy is not healthy, and not unhealthy either: what fails /healthz, and how soon."""

import asyncio
import os
import signal
import time

from encoder_server import keys
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Server, Start, items, until


def engine_pid(server: Server) -> int:
    (slot,) = server.app[keys.ENGINES]._slots
    assert slot.link is not None
    return slot.link._process.pid


async def test_engines_that_are_stuck_in_every_batch_fail_liveness_though_they_are_always_busy(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"any": "hang"})
    server = await start("--deadline-seconds=0.3", "--grace-seconds=0.1", "--lost-seconds=1")
    began = time.monotonic()

    async def send() -> None:
        while True:
            await server.encode(items((56, 56)))

    callers = [asyncio.create_task(send()) for _ in range(3)]
    try:
        await until(lambda: _is_dead(server))
    finally:
        for caller in callers:
            caller.cancel()
        await asyncio.gather(*callers, return_exceptions=True)
    assert time.monotonic() - began > 0.3 + 0.1 + 1
    assert (await server.get("/healthz")).json["message"] == "no engine has ended a batch for more than 1 s"


async def test_an_engine_stuck_now_and_then_is_no_death(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "hang"})
    server = await start("--deadline-seconds=0.3", "--grace-seconds=0.1", "--lost-seconds=0.5")
    for _ in range(4):
        assert (await server.encode(items((112, 56)))).status == 504
        assert (await server.get("/healthz")).status == 200
        await server.until_state("FAILED")
        await server.until_state("READY")
        assert (await server.encode(items((56, 56)))).status == 200
        assert (await server.get("/healthz")).status == 200


async def test_a_frozen_engine_is_killed_and_replaced_within_a_requests_time(start: Start) -> None:
    server = await start("--deadline-seconds=0.5", "--grace-seconds=0.1")
    frozen = engine_pid(server)
    os.kill(frozen, signal.SIGSTOP)
    assert (await server.encode(items((56, 56)))).status == 504
    await server.until_state("FAILED", "EngineLost")
    await server.until_state("READY")
    assert engine_pid(server) != frozen
    assert (await server.encode(items((56, 56)))).status == 200


async def test_an_engine_that_is_killed_and_never_comes_back_fails_liveness(
    start: Start, checkpoint: Checkpoint
) -> None:
    server = await start("--lost-seconds=0.3")
    checkpoint.write(start="exit")
    os.kill(engine_pid(server), signal.SIGKILL)
    await until(lambda: _is_dead(server))


async def test_health_is_told_at_once_while_every_place_is_taken(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight=32")
    full = [asyncio.create_task(server.encode(items((112, 56))))]
    await server.until_taken()
    full += [asyncio.create_task(server.encode(items(*[(512, 512)] * 4))) for _ in range(31)]
    await server.until_load(inFlight=32)
    seconds = []
    for path in ("/healthz", "/readyz", "/metrics", "/v1/load") * 8:
        began = time.monotonic()
        answer = await server.get(path)
        seconds.append(time.monotonic() - began)
        assert answer.status == 200
    assert sorted(seconds)[len(seconds) // 2] < 0.2
    assert (await server.encode(items((56, 56)))).code == "overloaded"
    for caller in full[1:]:
        caller.cancel()
    await server.until_load(inFlight=1, queued=0)
    await open_gate(server.model)
    assert (await full[0]).status == 200


async def _is_dead(server: Server) -> bool:
    return (await server.get("/healthz")).status == 503
