"""Engines that die, hang, refuse or come back as another: what it costs, and what the server says of itself."""

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from encoder_server import keys
from tests.http.under_test import Answer, Checkpoint, Server, Start, items, until


async def test_an_engine_killed_once_in_a_batch_costs_nobody_anything(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "die-once"})
    server = await start()
    answer = await server.encode(items((112, 56)))
    assert answer.status == 200
    assert await server.metric("encoder_engine_restarts_total") == 1


@pytest.mark.parametrize("action", ["die", "crash-late"])
async def test_a_batch_that_kills_every_engine_fails_alone(start: Start, checkpoint: Checkpoint, action: str) -> None:
    checkpoint.write(sizes={"112x56": action})
    server = await start()
    answer = await server.encode(items((112, 56)))
    assert (answer.status, answer.code) == (503, "engine_lost")
    assert "Retry-After" in answer.headers
    await server.until_state("READY")
    assert (await server.encode(items((56, 56)))).status == 200
    assert (await server.get("/healthz")).status == 200


async def test_a_second_engine_serves_while_the_first_is_down(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "die-once"})
    server = await start("--engines=2", "--backoff-seconds=60")
    await server.until_load(enginesReady=2)
    assert (await server.encode(items((112, 56)))).status == 200
    await server.until_load(enginesReady=1)
    assert (await server.get("/readyz")).status == 200
    assert (await server.encode(items((56, 56)))).status == 200


async def test_a_stuck_engine_is_killed_and_its_request_ends_by_its_deadline(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "hang"})
    server = await start("--deadline-seconds=0.4", "--grace-seconds=0.1")
    answer = await server.encode(items((112, 56)))
    assert (answer.status, answer.code) == (504, "promise_timeout")
    await server.until_state("FAILED", "EngineLost")
    await server.until_state("READY")
    assert await server.metric("encoder_engine_restarts_total") == 1


async def test_who_waits_behind_a_stuck_engine_has_a_definite_end_too(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--deadline-seconds=0.4", "--grace-seconds=5")
    answers = await asyncio.gather(*(server.encode(items(size)) for size in [(112, 56), (56, 56), (56, 56)]))
    assert [answer.code for answer in answers] == ["promise_timeout"] * 3
    await open_gate(server.model)  # So that the engine can leave with its server.


async def test_a_checkpoint_that_is_refused_can_be_repaired(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(refuse="config.json has no model_type")
    server = await start(state="FAILED")
    ready = await server.get("/readyz")
    assert ready.status == 503
    assert (ready.json["state"], ready.json["reason"]) == ("FAILED", "LoadFailed")
    assert ready.json["message"] == "config.json has no model_type"
    assert (await server.get("/healthz")).status == 200
    assert (await server.encode(items((56, 56)))).code == "engine_lost"
    checkpoint.write()
    await server.until_state("READY")


async def test_an_engine_that_cannot_even_say_why_is_reported(start: Start, checkpoint: Checkpoint) -> None:
    (checkpoint.directory / "script.json").unlink()
    server = await start(state="FAILED")
    identity = await until(lambda: _says(server, "exited with status 1"))
    assert (identity["state"], identity["reason"]) == ("FAILED", "LoadFailed")


async def test_an_engine_that_comes_back_as_another_is_refused(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "die"})
    server = await start()
    checkpoint.write(weights="ff" * 32)
    answer = await server.encode(items((112, 56)))
    assert answer.code == "engine_lost"
    identity = await until(lambda: _says(server, "another weights"))
    assert (identity["state"], identity["reason"]) == ("FAILED", "EngineLost")
    assert identity["exact"]["weights"] == "b3" * 32
    checkpoint.write()
    await server.until_state("READY")


async def test_who_waits_is_sent_elsewhere_once_a_restart_came_to_nothing(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate", "84x56": "die"})
    server = await start()
    first = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    culprit = asyncio.create_task(server.encode(items((84, 56))))
    await server.until_load(queued=1)
    waiting = asyncio.create_task(server.encode(items((56, 56))))
    await server.until_load(queued=2)
    checkpoint.write(weights="ff" * 32)
    await open_gate(server.model)
    assert (await first).status == 200
    for answer in (await culprit, await waiting):
        assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "engine_lost", "1")
    refused = await server.encode(items((56, 56)))
    assert (refused.status, refused.code) == (503, "engine_lost")


async def test_who_waits_behind_one_crash_is_served_by_the_first_restart(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate", "84x56": "die-once"})
    server = await start()
    first = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    others = [asyncio.create_task(server.encode(items(size))) for size in ((84, 56), (56, 56))]
    await server.until_load(queued=2)
    await open_gate(server.model)
    assert [(await task).status for task in (first, *others)] == [200, 200, 200]


async def test_who_cannot_wait_for_the_restart_is_sent_elsewhere_at_once(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "die-once"})
    server = await start("--backoff-seconds=30", "--deadline-seconds=20")
    async with asyncio.timeout(15):
        answer = await server.encode(items((112, 56)))
    assert (answer.status, answer.code, answer.headers["Retry-After"]) == (503, "engine_lost", "1")


async def test_an_engine_that_is_lost_for_good_is_the_servers_death(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "die"})
    server = await start("--lost-seconds=0.2")
    assert (await server.get("/healthz")).status == 200
    checkpoint.write(weights="ff" * 32)
    assert (await server.encode(items((112, 56)))).code == "engine_lost"

    async def dead() -> Any:
        answer = await server.get("/healthz")
        return answer.status == 503 and answer

    answer = await until(dead)
    assert answer.json["alive"] is False
    assert answer.json["message"].startswith("no engine has served for more than 0.2 s: ")
    await until(lambda: _says(server, "another weights"))
    checkpoint.write()
    await server.until_state("READY")
    assert (await server.get("/healthz")).status == 200


async def test_a_checkpoint_that_is_refused_again_and_again_is_no_death(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(refuse="config.json has no model_type")
    server = await start("--lost-seconds=0.01", state="FAILED")

    async def restarted() -> bool:
        return await server.metric("encoder_engine_restarts_total") >= 2

    await until(restarted)
    assert (await server.get("/healthz")).status == 200


async def test_a_first_start_that_takes_long_is_no_death(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(start="hang")
    server = await start("--lost-seconds=0.01", state="STARTING")

    async def hangs() -> bool:
        return (server.model / "marked").exists()

    await until(hangs)
    assert (await server.get("/healthz")).status == 200
    assert (await server.identity())["state"] == "STARTING"


async def test_a_busy_engine_is_no_death(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--lost-seconds=0.01")
    busy = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    assert (await server.get("/healthz")).status == 200
    await open_gate(server.model)
    assert (await busy).status == 200


async def test_an_engine_that_hangs_at_its_start_is_killed_and_started_again(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(start="hang-once")
    server = await start("--load-seconds=2", state="FAILED")
    identity = await server.identity()
    assert (identity["reason"], identity["message"]) == ("LoadFailed", "no engine was ready within 2 s")
    await server.until_state("READY")


async def test_an_engine_that_leaves_at_its_start_says_with_which_status(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(start="exit")
    server = await start(state="FAILED")
    identity = await until(lambda: _says(server, "exited with status 5"))
    assert (identity["state"], identity["reason"]) == ("FAILED", "LoadFailed")


async def _says(server: Server, text: str) -> Any:
    identity = await server.identity()
    return text in identity["message"] and identity


async def test_a_full_server_refuses_at_once_and_a_caller_who_leaves_frees_a_place(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight=2")
    first = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    second = asyncio.create_task(server.encode(items((56, 56))))
    await server.until_load(inFlight=2, queued=1)
    third = await server.encode(items((56, 56)))
    assert (third.status, third.code) == (429, "overloaded")
    assert "Retry-After" in third.headers
    second.cancel()
    await server.until_load(inFlight=1, queued=0)
    fourth = asyncio.create_task(server.encode(items((56, 56))))
    await server.until_load(inFlight=2)
    await open_gate(server.model)
    assert [(await task).status for task in (first, fourth)] == [200, 200]
    assert await server.metric("encoder_requests_total", code="cancelled") == 1
    checks = await server.metric("encoder_token_checks_total", modality="image", source="fresh", result="ok")
    assert checks == 2


async def test_a_caller_who_takes_every_place_keeps_another_out_until_one_is_free_and_no_longer(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight=4")

    def call(caller: str, size: tuple[int, int]) -> asyncio.Task[Answer]:
        return asyncio.create_task(server.encode(items(size), **{"X-Caller-Id": caller}))

    greedy = [call("greedy", (112, 56)) for _ in range(4)]
    await server.until_load(inFlight=4, queued=3)
    assert (await call("late", (56, 56))).status == 429
    await open_gate(server.model)
    await server.until_load(inFlight=3)
    refused = await call("greedy", (112, 56))
    assert (refused.status, refused.headers["Retry-After"]) == (429, "1")
    assert "3 requests of this caller are in flight" in refused.message
    late = call("late", (56, 56))
    await server.until_load(inFlight=4)
    for each in greedy:
        each.cancel()
    await server.until_load(inFlight=1, queued=1)
    await open_gate(server.model)
    assert (await late).status == 200


async def test_bytes_in_flight_are_bounded_too(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight-bytes=2000", "--max-body-bytes=2000")
    first = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_taken()
    refused = await server.encode(b" " * 1990)
    assert (refused.status, refused.code) == (429, "overloaded")
    await open_gate(server.model)
    assert (await first).status == 200
    await server.until_load(inFlight=0, inFlightBytes=0)
    assert (await server.encode(b" " * 1990)).code == "bad_request"


async def open_gate(model: Path) -> None:
    """Let the engine go on that waits at its gate."""

    async def opened() -> bool:
        try:
            os.close(os.open(model / "gate", os.O_WRONLY | os.O_NONBLOCK))
        except OSError:
            return False  # No engine has come to the gate yet.
        return True

    await until(opened)


async def test_an_engine_that_is_killed_while_it_has_nothing_to_do_is_started_again(start: Start) -> None:
    server = await start()
    (slot,) = server.app[keys.ENGINES]._slots
    assert slot.link is not None
    slot.link._process.kill()
    await server.until_state("FAILED", "EngineLost")
    await server.until_state("READY")
    assert (await server.encode(items((56, 56)))).status == 200


async def test_the_pause_before_a_restart_doubles_until_a_batch_is_done(
    start: Start, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.write(refuse="config.json has no model_type")
    server = await start("--backoff-seconds=0.01", state="FAILED")

    async def pauses() -> Any:
        found = [vars(record)["retry_seconds"] for record in caplog.records if record.message == "engine_ended"]
        return len(found) >= 3 and found

    assert (await until(pauses))[:3] == [0.01, 0.02, 0.04]
    checkpoint.write(sizes={"112x56": "die"})
    await server.until_state("READY")
    assert (await server.encode(items((56, 56)))).status == 200
    caplog.clear()
    assert (await server.encode(items((112, 56)))).code == "engine_lost"

    async def ended() -> Any:
        return [vars(record)["retry_seconds"] for record in caplog.records if record.message == "engine_ended"]

    assert (await until(ended))[0] == 0.01
