"""Events: one for each thing that happened, whoever posts it, however often."""

from __future__ import annotations

from encoder_operator.announcements import Announcement, Since, announcements
from encoder_operator.cordon import CordonPlan
from encoder_operator.events import Recorder, body_of
from encoder_operator.observation import CordonRecord
from encoder_operator.orders import parse_record, render_record
from encoder_operator.standing import Standing
from encoder_operator.verdict import Judgement, Matter, Result, Scope, Verdict
from tests.support.memory_world import MemoryWorld
from tests.support.replicas import NOW, POOL, a_record, cordoned, observed

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


def test_a_cordon_is_one_event_though_its_record_is_read_back_in_whole_seconds() -> None:
    written = a_record(since=NOW - 1 + 0.75)
    read = parse_record(render_record(written))
    assert read is not None
    assert read.since != written.since
    assert told_of(written) == told_of(read)


def told_of(record: CordonRecord) -> list[str]:
    """The names of the events that a pass over one replica with this record posts."""
    quiet = Verdict(
        subject="vision",
        matter=Matter.TRAFFIC,
        scope=Scope.REPLICA,
        result=Result.GOOD,
        reason="AsExpected",
        message="",
    )
    judgement = Judgement(replicas=(), revisions=(), pool=quiet, traffic=Result.GOOD)
    standing = Standing(revisions=(), templates={})
    observation = observed([cordoned(record=record)])
    nothing = CordonPlan(actions=(), withheld=(), blocked=None, end=None, next_look_at=None)
    told = announcements(standing, standing, observation, judgement, (), nothing, Since(verdict="", blocked=""))
    assert [each.reason for each in told] == ["Cordoned"]
    return [body_of(POOL, each, NOW)["metadata"]["name"] for each in told]
