"""What goes to an engine next, who shares a computation, and what a lost engine means to a batch."""

import asyncio
import math
from typing import Any

import pytest

from encoder_server.batch import Batch, ItemBatch
from encoder_server.batcher import Batcher
from encoder_server.engine import messages
from encoder_server.errors import EngineLostError
from encoder_server.flights import Flights
from encoder_server.job import Job, Told
from encoder_server.media import Medium
from encoder_server.metrics import Metrics
from encoder_server.size import Size

SIDE = 100
MEASURED = messages.Measured(
    weights="", processor="", config="", classes={}, declared={}, probe=(), signature=None, advisory={}
)


def medium(name: str, side: int = SIDE, expected: int | None = None) -> Medium:
    return Medium(
        index=0,
        modality="image",
        contents=(name.encode(),),
        digest=name,
        size=Size(modality="image", width=side, height=side),
        cost=side * side,
        expected_tokens=expected,
    )


def batcher(items: int = 4, *, budget: int | None = None, together: bool = True) -> Batcher:
    """One whose batches hold so many pictures."""
    made = Batcher(budget, Metrics())
    made.suit(messages.Hello(measured=MEASURED, together=together, batch_budget=items * SIDE * SIDE))
    return made


def board(flights: Flights, *names: str, deadline: float = math.inf, caller: str = "") -> list[Job]:
    jobs, new = flights.board([(name, medium(name)) for name in names], deadline)
    flights.encode([job for _, job in new], caller)
    return jobs


async def take(queue: Batcher) -> list[str]:
    return names(await queue.take(asyncio.get_running_loop().create_future()))


def names(batch: Batch) -> list[str]:
    assert isinstance(batch, ItemBatch)
    return [job.medium.digest for job in batch.jobs]


async def test_of_what_several_engines_measured_the_most_counts() -> None:
    queue = Batcher(None, Metrics())
    for pixels in (1000, 5000, 200):
        queue.suit(messages.Hello(measured=MEASURED, together=True, batch_budget=pixels))
    assert queue.budget == 5000


async def test_what_waits_is_packed_across_callers_and_a_large_caller_lets_others_in_between() -> None:
    queue = batcher(4)
    flights = Flights(queue)
    board(flights, "a1", "a2", "a3", "a4", "a5", "a6")
    board(flights, "b1", "b2", "b3")
    board(flights, "c1")
    assert queue.queued == 3
    assert await take(queue) == ["a1", "a2", "a3", "a4"]
    assert await take(queue) == ["b1", "b2", "b3", "c1"]
    assert await take(queue) == ["a5", "a6"]
    assert queue.queued == 0


@pytest.mark.parametrize("items_in_a_request", [1, 16, 500])
@pytest.mark.parametrize("together", [True, False])
async def test_who_sends_500_items_delays_another_caller_by_one_batch(together: bool, items_in_a_request: int) -> None:
    queue = batcher(4, together=together)
    flights = Flights(queue)
    many = [f"a{at}" for at in range(500)]
    for start in range(0, 500, items_in_a_request):
        board(flights, *many[start : start + items_in_a_request], caller="a")
    under_way = await take(queue)
    board(flights, "b", caller="b")
    batches = [under_way, await take(queue), await take(queue)]
    assert any("b" in batch for batch in batches)
    while queue.queued:
        batches.append(await take(queue))
    assert sorted(name for batch in batches for name in batch) == sorted([*many, "b"])


async def test_requests_of_one_caller_take_turns_too() -> None:
    queue = batcher(2)
    flights = Flights(queue)
    board(flights, "a1", "a2", "a3", "a4", "a5", caller="router")
    board(flights, "b1", caller="router")
    assert [await take(queue), await take(queue), await take(queue)] == [["a1", "a2"], ["b1"], ["a3", "a4"]]


@pytest.mark.parametrize("queue", [0, 1], ids=["not together", "not faster together"])
async def test_where_callers_must_not_share_a_batch_each_goes_alone(queue: int) -> None:
    alone = [batcher(together=False), batcher(0)][queue]
    flights = Flights(alone)
    board(flights, "a1", "a2", "a3", "a4", "a5", "a6")
    board(flights, "b1")
    assert [await take(alone), await take(alone)] == [["a1", "a2", "a3", "a4", "a5", "a6"], ["b1"]]


async def test_a_budget_that_was_asked_for_comes_before_the_encoders() -> None:
    queue = batcher(0, budget=2 * SIDE * SIDE)
    flights = Flights(queue)
    for name in "abc":
        board(flights, name)
    assert [await take(queue), await take(queue)] == [["a", "b"], ["c"]]


async def test_who_left_is_skipped_and_a_shared_item_goes_on_for_who_stays() -> None:
    queue = batcher()
    flights = Flights(queue)
    (gone,), (left,), (stays,) = board(flights, "a"), board(flights, "b"), board(flights, "b")
    assert left is stays
    flights.leave("a", gone)
    flights.leave("b", left)
    assert await take(queue) == ["b"]
    flights.leave("b", stays)
    (again,) = board(flights, "b")
    assert again is not stays


async def test_who_expects_another_count_or_comes_after_a_failure_shares_nothing() -> None:
    flights = Flights(batcher())
    jobs, new = flights.board([("a", medium("a")), ("a", medium("a")), ("a", medium("a", expected=5))], 1)
    assert (jobs[0] is jobs[1], jobs[0] is jobs[2], len(new)) == (True, False, 2)
    jobs[0].fail(EngineLostError("gone"))
    jobs[2].publish(Told(failures=(failure(),)))
    later, new = flights.board([("a", medium("a")), ("a", medium("a", expected=5)), (None, medium("a"))], 1)
    assert [job for _, job in new] == later
    assert not set(map(id, later)) & set(map(id, jobs))


def failure() -> messages.Failure:
    return messages.Failure(index=0, modality="image", code="promise_mismatch", detail="")


async def test_a_lost_batch_is_tried_item_by_item_before_anything_else_and_its_culprit_alone_fails() -> None:
    queue = batcher()
    flights = Flights(queue)
    good, bad = board(flights, "good")[0], board(flights, "bad")[0]
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    fused = await queue.take(lost)
    assert (names(fused), fused.shared) == (["good", "bad"], True)
    board(flights, "later")
    queue.lose(fused)
    first, second = await queue.take(lost), await queue.take(lost)
    assert [names(first), names(second)] == [["good"], ["bad"]]
    queue.lose(second)
    with pytest.raises(EngineLostError):
        await bad.finished
    assert good.wanted
    assert await take(queue) == ["later"]


async def test_a_stuck_batch_is_tried_item_by_item_and_an_item_that_was_alone_is_not_tried_again() -> None:
    queue = batcher()
    flights = Flights(queue)
    jobs = board(flights, "a", "b")
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    queue.give_up(await queue.take(lost))
    queue.give_up(await queue.take(lost))
    assert jobs[0].finished.exception() is not None
    assert await take(queue) == ["b"]


async def test_rows_of_nobody_in_a_fused_batch_have_each_item_run_alone() -> None:
    queue = batcher()
    jobs = board(Flights(queue), "a", "b")
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    outputs = tuple(
        messages.Output(index=index, modality="image", shape=(1, 1), dtype="float32", finite=True, blob=0)
        for index in (0, 1, 2)
    )
    answer = messages.Received(messages.Encoded(batch=1, outputs=outputs, failures=()), (memoryview(bytes(4)),))
    queue.finish(await queue.take(lost), answer)
    assert [await take(queue), await take(queue)] == [["a"], ["b"]]
    assert all(job.wanted for job in jobs)


async def test_a_promise_is_published_once_whatever_a_second_engine_says() -> None:
    (job,) = board(Flights(batcher()), "a")
    promise = messages.Promise(index=0, modality="image", tokens=4, grid=(1, 4, 4))
    job.publish(Told(promises=(promise,)))
    job.publish(Told(failures=(failure(),)))
    assert (await job.promised).promises == (promise,)


@pytest.mark.parametrize(
    ("code", "told"), [("out_of_memory", True), ("internal", True), ("layout", True), ("bad_media", False)]
)
async def test_what_a_second_engine_says_of_itself_is_how_an_item_ends_that_was_promised(code: Any, told: bool) -> None:
    (job,) = board(Flights(batcher()), "a")
    job.publish(Told(promises=(messages.Promise(index=0, modality="image", tokens=4, grid=(1, 4, 4)),)))
    fails = messages.Failure(index=0, modality="image", code=code, detail="")
    again = ItemBatch([job], shared=False)
    again.publish(messages.Promised(batch=2, promises=(), failures=(fails,)))
    again.finish(messages.Received(messages.Encoded(batch=2, outputs=(), failures=()), ()))
    assert (await job.finished).failures == ((fails,) if told else ())


async def test_an_engine_that_goes_first_leaves_its_call_to_another() -> None:
    queue = batcher()
    going: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    leaves, stays = asyncio.create_task(queue.take(going)), asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    board(Flights(queue), "a")
    going.set_result(None)
    with pytest.raises(messages.ConnectionLostError):
        await leaves
    assert await stays == ["a"]


async def test_engines_that_are_free_share_what_waits_and_one_alone_takes_it_all() -> None:
    queue = batcher(8)
    flights = Flights(queue)
    both = [asyncio.create_task(take(queue)) for _ in range(2)]
    await asyncio.sleep(0)
    board(flights, "a", "b", "c", "d", caller="one request")
    for name in ("e", "f"):
        board(flights, name)
    assert sorted(map(len, await asyncio.gather(*both))) == [3, 3]
    board(flights, "g", "h")
    assert await take(queue) == ["g", "h"]


async def test_an_engine_that_is_called_takes_what_comes_while_it_is_read() -> None:
    queue = batcher(8)
    flights = Flights(queue)
    engine = asyncio.create_task(take(queue))

    async def come() -> None:
        for name in "abc":
            board(flights, name)
            await asyncio.sleep(0)

    await come()
    assert await engine == ["a", "b", "c"]


async def test_a_batch_that_is_full_waits_for_nothing_more() -> None:
    queue = batcher(1)
    flights = Flights(queue)
    board(flights, "a")
    engine = asyncio.create_task(take(queue))
    await asyncio.sleep(0)
    board(flights, "b")
    assert await engine == ["a"]


async def test_the_call_of_an_engine_that_is_ended_goes_to_another() -> None:
    queue = batcher()
    ends, stays = asyncio.create_task(take(queue)), asyncio.create_task(take(queue))
    for _ in range(4):
        await asyncio.sleep(0)
    board(Flights(queue), "a")
    ends.cancel()
    assert await stays == ["a"]


async def test_engines_that_are_ended_together_end() -> None:
    queue = batcher()
    engines = [asyncio.create_task(take(queue)) for _ in range(3)]
    for _ in range(4):
        await asyncio.sleep(0)
    for engine in engines:
        engine.cancel()
    assert [type(each) for each in await asyncio.gather(*engines, return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 3
    assert queue.idle == 0


async def test_a_closed_queue_leaves_nobody_waiting() -> None:
    queue = batcher()
    (job,) = board(Flights(queue), "a")
    probe = queue.probe([])
    queue.close(EngineLostError("leaving"))
    for future in (job.promised, job.finished, probe.finished):
        with pytest.raises(EngineLostError):
            await future


async def test_who_cannot_wait_until_an_engine_is_back_is_told_at_once_and_so_is_who_comes() -> None:
    queue = batcher()
    flights = Flights(queue)
    (short,), (long,) = board(flights, "short", deadline=10), board(flights, "long", deadline=30)
    queue.expect(20, EngineLostError("gone"))
    (late,) = board(flights, "late", deadline=15)
    assert [job.finished.done() for job in (short, long, late)] == [True, False, True]
    assert await take(queue) == ["long"]


async def test_who_shares_an_item_waits_as_long_as_the_last_of_its_callers() -> None:
    queue = batcher()
    flights = Flights(queue)
    board(flights, "a", deadline=10)
    (shared,) = board(flights, "a", deadline=30)
    queue.expect(20, EngineLostError("gone"))
    assert not shared.finished.done()


async def test_a_closed_queue_turns_away_until_an_engine_is_there_again() -> None:
    queue = batcher()
    flights = Flights(queue)
    queue.close(EngineLostError("gone"))
    (refused,), probe = board(flights, "a"), queue.probe([])
    assert refused.failed
    assert isinstance(probe.finished.exception(), EngineLostError)
    queue.open()
    board(flights, "b")
    assert await take(queue) == ["b"]
