"""The cache over the full app: what is not encoded again, what is never kept, and what a bad entry costs."""

import asyncio
from dataclasses import replace

import pytest

from encoder_server import keys
from encoder_server.cache import Entry, Memory
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Server, Start, items, picture

MEMORY = {"tier": "memory"}


async def checks(server: Server, source: str, result: str = "ok") -> float:
    return await server.metric("encoder_token_checks_total", modality="image", source=source, result=result)


def memory(server: Server) -> Memory:
    """The server's own cache, to spoil an entry in it as failing memory does."""
    held = server.app[keys.PIPELINE].recall._memory
    assert held is not None
    return held


def spoil(server: Server, **changes: object) -> None:
    held = memory(server)
    ((key, entry),) = held._entries.items()
    spoiled: Entry = replace(entry, **changes)  # type: ignore[arg-type]
    held._entries[key] = spoiled


async def test_what_was_encoded_is_recalled_with_the_same_bytes_and_checked_again(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    first, second = await server.encode(items((56, 56))), await server.encode(items((56, 84), (56, 56)))
    assert server.batches == [["56x56"], ["56x84"]]
    assert second.json["items"][1] == first.json["items"][0] | {"index": 1}
    assert (await checks(server, "fresh"), await checks(server, "cached")) == (2, 1)
    assert await server.metric("encoder_cache_hits_total", **MEMORY) == 1
    assert await server.metric("encoder_cache_misses_total", **MEMORY) == 2
    assert await server.metric("encoder_cache_bytes", **MEMORY) == memory(server).bytes > 0


async def test_no_cache_encodes_everything(start: Start) -> None:
    server = await start("--cache-bytes=0")
    for _ in range(2):
        assert (await server.encode(items((56, 56)))).status == 200
    assert server.batches == [["56x56"], ["56x56"]]
    assert await server.metric("encoder_cache_misses_total", **MEMORY) == 0


async def test_a_replica_whose_callers_repeat_themselves_still_gives_evidence(start: Start) -> None:
    server = await start("--cache-bytes=1000000", "--evidence-seconds=0.000001")
    for _ in range(2):
        answer = await server.encode(items((56, 56), (56, 84), (56, 112)))
        assert [item["index"] for item in answer.json["items"]] == [0, 1, 2]
    assert [len(batch) for batch in server.batches] == [3, 1]
    assert (await checks(server, "fresh"), await checks(server, "cached")) == (4, 2)


async def test_room_is_made_and_counted(start: Start) -> None:
    server = await start("--cache-bytes=5000")
    for size in ((56, 56), (56, 57), (56, 58), (56, 56)):
        assert (await server.encode(items(size))).status == 200
    assert len(server.batches) == 4
    assert await server.metric("encoder_cache_evictions_total", **MEMORY) == 2


async def test_a_failed_check_is_never_kept_and_what_passed_beside_it_is(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "short"})
    server = await start("--cache-bytes=1000000")
    for _ in range(2):
        assert (await server.encode(items((56, 56), (112, 56)))).code == "token_mismatch"
    assert server.batches == [["56x56", "112x56"], ["112x56"]]
    assert await checks(server, "fresh", "count") == 2


@pytest.mark.parametrize("changes", [{"data": bytes(1024)}, {"shape": (3, 64)}, {"producer": "another"}])
async def test_a_bad_entry_is_evicted_counted_apart_and_encoded_again_once(
    start: Start, changes: dict[str, object]
) -> None:
    server = await start("--cache-bytes=1000000")
    first = await server.encode(items((56, 56)))
    spoil(server, **changes)
    second, third = await server.encode(items((56, 56))), await server.encode(items((56, 56)))
    assert first.json["items"] == second.json["items"] == third.json["items"]
    assert len(server.batches) == 2
    assert await server.metric("encoder_cache_corrupt_total", **MEMORY) == 1
    assert await server.metric("encoder_mismatched_media_total") == 0
    assert (await server.identity())["recentViolations"] == []
    assert (await checks(server, "fresh"), await checks(server, "cached")) == (2, 1)


async def test_an_entry_that_fails_the_check_is_bad_though_its_checksum_fits(start: Start) -> None:
    from encoder_server.cache import _checksum

    server = await start("--cache-bytes=1000000")
    await server.encode(items((56, 56)))
    ((_, entry),) = memory(server)._entries.items()
    promise = replace(entry.promise, tokens=5)
    spoil(
        server,
        promise=promise,
        checksum=_checksum(entry.key, promise, entry.shape, entry.dtype, entry.producer, entry.data),
    )
    assert (await server.encode(items((56, 56)))).status == 200
    assert await server.metric("encoder_cache_corrupt_total", **MEMORY) == 1
    assert (await checks(server, "fresh", "count"), await checks(server, "cached", "count")) == (0, 1)


async def test_a_callers_own_count_is_compared_with_what_is_recalled(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    fresh = await server.encode(items((56, 56), expected_tokens=5))
    assert (await server.encode(items((56, 56)))).status == 200
    recalled = await server.encode(items((56, 56), expected_tokens=5))
    assert (recalled.status, recalled.code) == (fresh.status, fresh.code) == (422, "promise_mismatch")
    assert recalled.message == fresh.message.replace(
        "5 tokens were expected by the caller, 4 are promised", "expected 5 tokens, the processor makes 4"
    )
    assert recalled.json["error"]["items"] == fresh.json["error"]["items"]
    assert len(server.batches) == 2


async def test_equal_items_at_one_time_are_computed_once_even_when_the_first_caller_leaves(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--cache-bytes=1000000")
    callers = []
    for count in (1, 2, 3):
        callers.append(asyncio.create_task(server.encode(items((112, 56), (112, 56)))))
        await server.until_load(inFlight=count)
    callers[0].cancel()
    await server.until_load(inFlight=2)
    # The engine comes to its gate once for each item of a batch that it is given.
    await open_gate(server.model)
    assert [(await caller).status for caller in callers[1:]] == [200, 200]
    assert server.batches == [["112x56"]]
    assert (await checks(server, "fresh"), await checks(server, "cached")) == (1, 3)


async def test_who_waited_for_a_failure_hears_of_it_and_who_comes_later_tries_again(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello={"together": True, "batch_budget": 10**6}, sizes={"28x28": "gate", "112x56": "die"})
    server = await start("--cache-bytes=1000000")
    gate = asyncio.create_task(server.encode(items((28, 28))))
    await server.until_taken()
    both = [asyncio.create_task(server.encode(items((112, 56)))) for _ in range(2)]
    await server.until_load(inFlight=3)
    await open_gate(server.model)
    assert [(await task).code for task in both] == ["engine_lost"] * 2
    assert (await gate).status == 200
    checkpoint.write()
    await server.until_state("READY")
    assert (await server.encode(items((112, 56)))).status == 200


async def test_plain_pictures_of_swapped_sides_never_share_an_entry(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    for form in ("PNG", "GIF"):
        lying = await server.encode({"items": [{"modality": "image", "data": picture(112, 56, form)}]})
        standing = await server.encode({"items": [{"modality": "image", "data": picture(56, 112, form)}]})
        assert (lying.json["items"][0]["grid"], standing.json["items"][0]["grid"]) == ([1, 4, 8], [1, 8, 4])
    assert await server.metric("encoder_cache_hits_total", **MEMORY) == 0
