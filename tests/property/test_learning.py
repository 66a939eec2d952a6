"""Properties of learning: who is read first does not matter in the end, and on the way somebody always serves."""

from __future__ import annotations

import asyncio
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from encoder_operator import vocabulary
from tests.support.memory_world import MemoryWorld

KINDS = ["aa" * 32, "bb" * 32, "cc" * 32]


@st.composite
def arrivals(draw: st.DrawFn) -> list[tuple[str, int]]:
    """The replicas' fingerprints in the order in which they come up, each with the passes until the next."""
    found = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=5))
    return [(each, draw(st.integers(0, 2))) for each in draw(st.permutations(found))]


async def come_up(world: MemoryWorld, order: list[tuple[str, int]]) -> None:
    await world.passes(1)
    for name, (fingerprint, _) in zip(sorted(world.servers), order, strict=True):
        world.servers[name].fingerprint, world.servers[name].answers = fingerprint, False
    served = False
    for index, (_, pause) in enumerate([*order, (None, 6)]):
        if index < len(order):
            world.server(index).answers = True
        for _ in range(pause):
            await world.passes(1)
            ready = sum(pod["status"]["conditions"][0]["status"] == "True" for pod in world.pod_objects.values())
            assert ready > 0 or not served, "somebody serves from the first lesson on"
            served = served or ready > 0


@given(arrivals())
@settings(max_examples=60, deadline=None)
def test_a_majority_is_learned_in_whatever_order_its_replicas_come_up(order: list[tuple[str, int]]) -> None:
    world = MemoryWorld(replicas=len(order))
    asyncio.run(come_up(world, order))
    (most, count), *_ = Counter(each for each, _ in order).most_common()
    if 2 * count <= len(order):
        assert world.condition()["reason"] == vocabulary.REFERENCE_SUSPECT
        return
    assert world.pool is not None
    assert world.pool["status"]["fingerprint"] == most
    states = {
        name: pod["status"]["conditions"][0]["status"] == "True" for name, pod in sorted(world.pod_objects.items())
    }
    assert list(states.values()) == [each == most for each, _ in order], "the majority serves, all others are held"
    told = [event["message"] for event in world.events.values() if event["reason"] == "Learned"]
    assert len(told) <= 2
    assert most in told[-1]
