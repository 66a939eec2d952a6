"""Events: one for each thing that happened, whoever posts it, however often."""

from __future__ import annotations

from encoder_operator.events import Announcement, Recorder, body_of
from tests.support.memory_world import MemoryWorld
from tests.support.replicas import NOW, POOL

TOLD = Announcement(reason="Cordoned", subject="a", key="uid-a 17", message="38 of 120 failed", warning=True)


async def test_a_restarted_operator_posts_none_twice() -> None:
    world = MemoryWorld()
    first = Recorder(world)
    await first.post(POOL, [TOLD, TOLD], NOW)
    assert world.event_attempts == 1
    await Recorder(world).post(POOL, [TOLD], NOW + 100)
    assert len(world.events) == 1


def test_an_event_is_the_pools_and_within_its_limits() -> None:
    body = body_of(POOL, TOLD, NOW)
    assert body["involvedObject"]["uid"] == POOL.uid
    assert body["metadata"]["name"].startswith("vision.")
    assert (body["type"], body["message"]) == ("Warning", "a: 38 of 120 failed")
    assert body["metadata"]["namespace"] == body["involvedObject"]["namespace"] == "models"
