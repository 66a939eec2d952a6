"""The golden probe on the timer: what it sees of a running engine, and what it must leave alone."""

import asyncio
import json
from typing import Any

import pytest

from tests.http.test_engine_faults import open_gate
from tests.http.test_states import probe_order
from tests.http.under_test import Checkpoint, Server, Start, items, until

OFTEN = "--probe-period-seconds=0.05"
MOVED = [1.02 * number for number in range(1, 17)]
"""Two per cent off the signature that a stand-in has at its start."""


def later(server: Server, **script: Any) -> None:
    """From now on engines do this when they are probed."""
    file = server.model / "later.new"
    file.write_text(json.dumps(script))
    file.rename(server.model / "later.json")


async def probes(server: Server, result: str = "ok") -> float:
    return await server.metric("encoder_token_checks_total", modality="image", source="probe", result=result)


async def until_probed(server: Server, times: int = 2) -> None:
    """Wait for probes that began after this call."""
    before = await probes(server)

    async def probed() -> bool:
        return await probes(server) >= before + times

    await until(probed)


async def test_the_probe_on_the_timer_is_counted_as_a_probe_and_as_nothing_that_a_client_did(start: Start) -> None:
    server = await start(OFTEN, "--cache-bytes=1000000")
    await until_probed(server, times=4)
    assert await server.metric("encoder_requests_total", code="ok") == 0
    assert await server.metric("encoder_batch_items_count") == 0
    for source in ("fresh", "cached"):
        assert await server.metric("encoder_token_checks_total", modality="image", source=source, result="ok") == 0
    for family in ("hits_total", "misses_total", "bytes"):
        assert await server.metric(f"encoder_cache_{family}", tier="memory") == 0
    identity = await server.identity()
    assert (identity["state"], identity["probe"]["result"], identity["probe"]["orderId"]) == ("READY", "passed", None)
    assert (identity["orders"], identity["recentViolations"]) == (dict.fromkeys(("probe", "restart", "flush")), [])


async def test_a_period_of_zero_leaves_the_probe_to_the_start_and_to_orders(start: Start) -> None:
    server = await start("--probe-period-seconds=0")
    boot = (await server.identity())["bootId"]
    server.pod.write({}, probe_order(boot, [], "only"))
    await until(lambda: is_done(server, "only"))
    assert await probes(server) == 2


def pids(server: Server) -> list[int]:
    """Of all engines that were ever started, in this order."""
    return [int(line) for line in (server.model / "pids").read_text().split()]


async def restarts(server: Server) -> float:
    return await server.metric("encoder_engine_restarts_total")


async def are_restarted(server: Server) -> bool:
    return await restarts(server) == 1


async def is_done(server: Server, order_id: str) -> bool:
    done = (await server.identity())["orders"]["probe"]
    return bool(done and done["id"] == order_id and done["result"] != "running")


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ({"golden": "count"}, "ProbeFailed"),
        ({"golden": "layout"}, "ProbeFailed"),
        ({"signature": MOVED}, "SignatureDrift"),
    ],
)
async def test_a_running_engine_that_goes_wrong_serves_no_more_and_is_started_anew_within_a_period(
    start: Start, checkpoint: Checkpoint, script: dict[str, Any], reason: str
) -> None:
    server = await start(OFTEN)
    (pid,) = pids(server)
    checkpoint.write(start="gate")
    later(server, pid=pid, **script)
    identity = await server.until_state("FAILED", "EngineLost")
    assert identity["message"].startswith(f"engine 0 was ended: {reason}: ")
    refused = await server.encode(items((56, 56)))
    assert (refused.status, refused.code) == (503, "engine_lost")
    assert (await server.get("/readyz")).status == 503
    await open_gate(server.model)
    identity = await server.until_state("READY", "AsExpected")
    assert identity["probe"]["result"] == "passed"
    assert len(pids(server)) == 2
    assert await restarts(server) == 1
    await until_probed(server)
    assert (await server.encode(items((56, 56)))).status == 200


async def test_an_engine_that_measures_otherwise_after_it_was_started_anew_never_serves(
    start: Start, checkpoint: Checkpoint
) -> None:
    server = await start(OFTEN)
    checkpoint.write(signature=MOVED)
    later(server, signature=MOVED)

    async def refused() -> Any:
        identity = await server.identity()
        return "started again measured a signature 20 per mille off" in identity["message"] and identity

    assert (await until(refused))["state"] == "FAILED"
    assert (await server.encode(items((56, 56)))).code == "engine_lost"


async def test_one_bad_engine_of_three_does_not_hide_behind_the_others_and_they_serve_while_it_starts(
    start: Start, checkpoint: Checkpoint
) -> None:
    server = await start(OFTEN, "--engines=3")
    await server.until_load(enginesReady=3)
    checkpoint.write(start="gate")
    later(server, signature=MOVED, pid=pids(server)[1])
    await server.until_load(enginesReady=2)
    for _ in range(3):
        assert (await server.encode(items((56, 56)))).status == 200
        assert (await server.identity())["state"] == "READY"
    await until_probed(server)
    await open_gate(server.model)
    await server.until_load(enginesReady=3)
    assert await restarts(server) == 1


async def test_an_ordered_probe_tells_what_a_running_engine_has_become_and_then_it_is_started_anew(
    start: Start,
) -> None:
    server = await start("--engines=2", "--probe-period-seconds=0")
    await server.until_load(enginesReady=2)
    boot = (await server.identity())["bootId"]
    later(server, golden="count", pid=pids(server)[0])
    server.pod.write({}, probe_order(boot, [], "once"))
    await until(lambda: is_done(server, "once"))
    await until(lambda: are_restarted(server))
    await server.until_load(enginesReady=2)
    identity = await server.identity()
    assert identity["orders"]["probe"] == {"id": "once", "result": "failed"}
    assert (identity["state"], identity["probe"]["orderId"], identity["probe"]["result"]) == ("READY", "once", "failed")
    server.pod.write({}, probe_order(boot, [], "again"))
    await until(lambda: is_done(server, "again"))
    assert (await server.identity())["orders"]["probe"] == {"id": "again", "result": "passed"}


async def test_what_failed_from_the_start_is_held_and_not_started_anew(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(golden="count")
    server = await start(OFTEN, state="HELD")
    before = await probes(server, "count")

    async def probed() -> bool:
        return await probes(server, "count") >= before + 3

    await until(probed)
    assert (await server.identity())["reason"] == "ProbeFailed"
    assert await restarts(server) == 0


async def test_sizes_that_fail_by_order_end_no_engine(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"640x480": "short"})
    server = await start("--probe-period-seconds=0")
    boot = (await server.identity())["bootId"]
    server.pod.write({}, probe_order(boot, [{"modality": "image", "width": 640, "height": 480}], "asked"))
    await until(lambda: is_done(server, "asked"))
    assert (await server.encode(items((56, 56)))).status == 200
    assert await restarts(server) == 0


async def test_what_an_engine_made_before_it_was_found_wrong_is_encoded_again(start: Start) -> None:
    server = await start("--probe-period-seconds=0", "--cache-bytes=1000000")
    for _ in range(2):
        await server.encode(items((56, 56)))
    assert len(server.batches) == 1
    later(server, signature=MOVED, pid=pids(server)[0])
    server.pod.write({}, probe_order((await server.identity())["bootId"], [], "once"))
    await until(lambda: are_restarted(server))
    await server.until_state("READY")
    for _ in range(2):
        assert (await server.encode(items((56, 56)))).status == 200
    assert len(server.batches) == 2
    assert await server.metric("encoder_cache_flushed_total", tier="memory") == 1


async def test_who_waits_behind_a_batch_when_a_probe_is_due_is_answered_and_then_it_is_probed(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--probe-period-seconds=2")
    caller = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    behind = asyncio.create_task(server.encode(items((84, 56))))
    await server.until_load(inFlight=2, queued=1)
    await open_gate(server.model)
    assert [(await each).status for each in (caller, behind)] == [200, 200]
    await until_probed(server)


async def test_a_replica_that_is_never_idle_is_probed_all_the_same_and_serves_on(start: Start) -> None:
    server = await start(OFTEN)
    stop = asyncio.Event()

    async def call_without_end() -> set[int]:
        answers = set()
        while not stop.is_set():
            answers.add((await server.encode(items((56, 56), (84, 56)))).status)
        return answers

    callers = [asyncio.create_task(call_without_end()) for _ in range(4)]
    await until_probed(server, times=5)
    stop.set()
    assert await asyncio.gather(*callers) == [{200}] * 4


async def test_what_an_ordered_probe_found_stays_shown_until_a_timed_one_contradicts_it(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"640x480": "short"})
    server = await start(OFTEN)
    boot = (await server.identity())["bootId"]
    server.pod.write({}, probe_order(boot, [{"modality": "image", "width": 640, "height": 480}], "asked"))
    await until(lambda: is_done(server, "asked"))
    await until_probed(server, times=4)
    identity = await server.identity()
    assert (identity["state"], identity["probe"]["orderId"], identity["probe"]["result"]) == (
        "READY",
        "asked",
        "failed",
    )
    checkpoint.write(start="gate")
    later(server, golden="count")
    identity = await server.until_state("FAILED", "EngineLost")
    assert (identity["probe"]["orderId"], identity["probe"]["result"]) == (None, "failed")
    await open_gate(server.model)
    assert identity["orders"]["probe"] == {"id": "asked", "result": "failed"}
