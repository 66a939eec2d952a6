"""Batches of several requests: what shares one, and what it costs the others when one goes wrong."""

import asyncio

from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Answer, Checkpoint, Server, Start, items, until

TOGETHER = {"together": True, "batch_budget": 10**6}
Size = tuple[int, int]


async def behind_a_gate(server: Server, *sizes: Size) -> list[Answer]:
    """Send these pictures, each in its own request, while the engine is busy with another; return their answers."""
    gate = asyncio.create_task(server.encode(items((28, 28))))
    await server.until_taken()
    waiting = []
    for count, size in enumerate(sizes, start=1):
        waiting.append(asyncio.create_task(server.encode(items(size))))
        await server.until_load(inFlight=count + 1, queued=count)
    await open_gate(server.model)
    assert (await gate).status == 200
    return [await task for task in waiting]


async def test_what_waits_when_an_engine_is_free_shares_a_batch(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate"})
    server = await start()
    answers = await behind_a_gate(server, (56, 56), (56, 84), (84, 84))
    assert server.batches == [["28x28"], ["56x56", "56x84", "84x84"]]
    assert [answer.json["items"][0]["index"] for answer in answers] == [0, 0, 0]
    assert [answer.json["items"][0]["tokens"] for answer in answers] == [4, 6, 9]
    assert [answer.json["items"][0]["shape"] for answer in answers] == [[4, 64], [6, 64], [9, 64]]
    assert await server.metric("encoder_batch_items_sum") == 4


async def test_a_budget_bounds_a_batch(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate"})
    server = await start("--batch-budget=24000")
    await behind_a_gate(server, (100, 100), (100, 101), (100, 102))
    assert server.batches == [["28x28"], ["100x100", "100x101"], ["100x102"]]


async def test_an_encoder_that_must_not_mix_callers_gets_one_request_at_a_time(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello={"together": False, "batch_budget": 10**6}, sizes={"28x28": "gate"})
    server = await start("--batch-budget=1000000")
    await behind_a_gate(server, (56, 56), (56, 84))
    assert server.batches == [["28x28"], ["56x56"], ["56x84"]]


async def test_a_batch_that_kills_its_engine_costs_the_culprit_alone(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate", "112x56": "die"})
    server = await start()
    answers = await behind_a_gate(server, (56, 56), (112, 56), (56, 84))
    assert [answer.status for answer in answers] == [200, 503, 200]
    assert answers[1].code == "engine_lost"
    assert server.batches[1:] == [["56x56", "112x56", "56x84"], ["56x56"], ["112x56"], ["56x84"]]


async def test_a_batch_in_which_an_engine_is_stuck_is_tried_item_by_item(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate", "112x56": "hang-once"})
    server = await start("--deadline-seconds=4")
    answers = await behind_a_gate(server, (56, 56), (112, 56))
    assert [answer.status for answer in answers] == [200, 200]
    assert server.batches[1:] == [["56x56", "112x56"], ["56x56"], ["112x56"]]


async def test_a_failed_check_in_a_shared_batch_fails_its_own_request_alone(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate", "112x56": "short", "112x84": "bad", "112x112": "stray"})
    server = await start()
    answers = await behind_a_gate(server, (56, 56), (112, 56), (112, 84), (112, 112), (56, 84))
    assert [answer.status for answer in answers] == [200, 502, 400, 502, 200]
    assert [answer.code for answer in answers[1:4]] == ["token_mismatch", "bad_media", "layout"]
    assert all(answer.json["error"]["items"][0]["index"] == 0 for answer in answers[1:4])
    labels = {"modality": "image", "source": "fresh"}
    assert await server.metric("encoder_token_checks_total", result="count", **labels) == 1
    assert await server.metric("encoder_token_checks_total", result="layout", **labels) == 1
    assert await server.metric("encoder_token_checks_total", result="ok", **labels) == 3


async def test_an_engine_that_is_free_takes_what_another_left_of_a_large_request(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER, sizes={"28x28": "gate"})
    server = await start("--engines=2", "--batch-budget=10000")
    await server.until_load(enginesReady=2)
    large = asyncio.create_task(server.encode(items((28, 28), (100, 100))))
    await until(lambda: _taken(server, 2))
    await open_gate(server.model)
    assert [item["tokens"] for item in (await large).json["items"]] == [1, 16]


async def _taken(server: Server, count: int) -> bool:
    return len(server.batches) == count
