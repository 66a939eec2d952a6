"""Callers who leave: what is done for them is dropped, wherever it is, and their places are free."""

import asyncio
from pathlib import Path

import pytest

from tests.http.test_batches import TOGETHER
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Start, items, until


async def test_who_hangs_up_after_50_ms_has_nothing_more_computed_and_gives_the_place_back(
    start: Start, checkpoint: Checkpoint
) -> None:
    """One batch is at the engine, with its model not yet run for most of it; the rest waits in the queue."""
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate-late"})
    server = await start("--batch-budget=30000")
    leaving = asyncio.create_task(server.encode(items((28, 28), (100, 100), (100, 101), (112, 112), (112, 113))))
    await server.until_taken()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await leaving
    await server.until_load(inFlight=0, inFlightBytes=0, queued=0)
    stays = asyncio.create_task(server.encode(items((56, 56))))
    await server.until_load(queued=1)
    await open_gate(server.model)
    assert (await stays).status == 200
    assert server.batches == [["28x28", "100x100", "100x101"], ["56x56"]]
    assert server.encoded == [["28x28"], ["56x56"]]


async def test_who_stays_in_a_batch_is_served_though_others_leave_it(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate-late"})
    server = await start("--engines=1")
    first = asyncio.create_task(server.encode(items((28, 28))))
    await server.until_taken()
    requests = []
    for count, size in enumerate([(28, 28), (56, 56), (56, 84), (84, 84)], start=1):
        requests.append(asyncio.create_task(server.encode(items(size))))
        await server.until_load(inFlight=count + 1, queued=count)
    await open_gate(server.model)
    assert (await first).status == 200
    await until(lambda: _noted(server.model, "batches", 2))
    for leaving in (requests[1], requests[3]):
        leaving.cancel()
    await server.until_load(inFlight=2)
    await open_gate(server.model)
    assert [(await requests[at]).status for at in (0, 2)] == [200, 200]
    assert server.batches[1] == ["28x28", "56x56", "56x84", "84x84"]
    assert server.encoded[1] == ["28x28", "56x84"]


async def test_an_item_that_another_caller_waits_for_is_encoded_though_the_first_leaves(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate-late"})
    server = await start("--cache-bytes=1000000")
    leaving = asyncio.create_task(server.encode(items((28, 28), (56, 56))))
    await server.until_taken()
    stays = asyncio.create_task(server.encode(items((56, 56))))
    await server.until_load(inFlight=2)
    leaving.cancel()
    await server.until_load(inFlight=1)
    await open_gate(server.model)
    assert (await stays).status == 200
    assert server.encoded == [["28x28", "56x56"]]


async def _noted(model: Path, name: str, count: int) -> bool:
    return len((model / name).read_text().splitlines()) == count
