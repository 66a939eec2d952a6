"""A start that can be followed, and one that never ends."""

from typing import Any

import pytest

from tests.http.test_batches import TOGETHER
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Start, items, until

READINESS = ["state", "reason", "message", "since", "progress"]


@pytest.mark.parametrize(
    ("stage", "state", "reason"),
    [
        ("starting", "STARTING", "Loading"),
        ("loading", "STARTING", "Loading"),
        ("building", "STARTING", "Loading"),
        ("warming", "WARMING", "WarmingUp"),
        ("probing", "WARMING", "Probing"),
        ("measuring", "WARMING", "Measuring"),
    ],
)
async def test_each_stage_of_a_start_is_seen_at_readyz_in_the_identity_and_in_the_log(
    start: Start, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture, stage: str, state: str, reason: str
) -> None:
    caplog.set_level("INFO")
    checkpoint.write(progress=["starting", stage], start="gate")
    server = await start(state=state)
    identity = await server.until_state(state, reason)

    async def reached() -> Any:
        answer = await server.get("/readyz")
        told = answer.json["progress"]
        return told is not None and told["stage"] == stage and answer

    ready = await until(reached)
    assert ready.status == 503
    assert list(ready.json) == READINESS
    assert (ready.json["state"], ready.json["reason"]) == (state, reason)
    assert (await server.identity())["progress"] == ready.json["progress"]
    assert ready.json["progress"]["fraction"] == 0.25
    assert identity["startedAt"] <= ready.json["progress"]["since"]
    assert (await server.encode(items((56, 56)))).code == "starting"
    assert (await server.get("/healthz")).status == 200
    told = [vars(record)["stage"] for record in caplog.records if record.message == "engine_progress"]
    assert told == list(dict.fromkeys(["starting", stage]))
    await open_gate(server.model)
    await server.until_state("READY")
    served = (await server.get("/readyz")).json
    assert (served["state"], served["progress"]) == ("READY", None)
    assert served["since"] >= ready.json["since"]


async def test_a_start_that_never_ends_fails_in_time_and_says_at_which_stage(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(progress=["starting", "loading"], start="hang")
    server = await start("--load-seconds=1", state="FAILED")
    identity = await server.identity()
    assert (identity["reason"], identity["message"]) == ("LoadFailed", "no engine was ready within 1 s; it was loading")


async def test_the_budget_that_an_engine_measured_is_shown_and_one_that_was_asked_for_comes_first(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER)
    server = await start()
    assert (await server.get("/v1/load")).json["batchBudget"] == 10**6


async def test_a_budget_that_was_asked_for_is_shown_in_place_of_the_measured_one(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER)
    server = await start("--batch-budget=5000")
    assert (await server.get("/v1/load")).json["batchBudget"] == 5000
