"""Replacement: when an old replica goes for a new one, and that it ends well on any hardware that allows it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from encoder_operator import names
from encoder_operator.judge import judge
from encoder_operator.observation import Replica
from encoder_operator.pod_template import pod_template
from encoder_operator.replacement import Handover, Scales, held_accelerators, initial_scales, scales
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Revision, Role, Standing
from encoder_operator.verdict import Result
from tests.support.pool_objects import a_pool
from tests.support.replicas import NOW, a_replica, observed, standing

WAITING = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. preemption: not eligible."
ACCELERATOR = {"resourceName": "nvidia.com/gpu"}


def gpu_pool(*, replicas: int = 3, strategy: str = "Auto", count: int = 1) -> EncoderPool:
    return a_pool(replicas=replicas, accelerator={**ACCELERATOR, "count": count}, rollout={"strategy": strategy})


def revisions(old_scale: int | None = None, new_scale: int | None = None) -> tuple[Revision, Revision]:
    (known,) = standing().revisions
    return (
        replace(known, hash="old", scale=old_scale),
        replace(known, hash="new", role=Role.TARGET, scale=new_scale),
    )


def of(revision: str, count: int, **fields: Any) -> list[Replica]:
    return [
        a_replica(f"{revision}-{index}-{fields.get('ready')}", revision=revision, **fields) for index in range(count)
    ]


def waiting(count: int, message: str = WAITING) -> list[Replica]:
    return of("new", count, ready=False, identity=None, unschedulable=message)


def decided(
    pool: EncoderPool,
    replicas: list[Replica],
    *,
    scaled: tuple[int | None, int | None] = (None, None),
    at: float = NOW + 60,
    leaving: frozenset[str] = frozenset(),
    held: int = 1,
    undecided: bool = False,
) -> Scales:
    old, new = revisions(*scaled)
    world = replace(observed(replicas, at=at), leaving=leaving)
    return scales(Handover(pool=pool, old=old, new=new, held=held, observation=world, undecided=undecided))


AS_ASKED = Scales(old=None, new=None)


def test_with_spare_accelerators_the_old_revision_stays_whole() -> None:
    coming = of("new", 3, ready=False)
    assert decided(gpu_pool(), [*of("old", 3), *coming]) == AS_ASKED


def test_where_new_replicas_find_none_one_old_replica_goes() -> None:
    assert decided(gpu_pool(), [*of("old", 3), *waiting(3)]) == Scales(old=2, new=None)


@pytest.mark.parametrize(
    ("sentence", "old", "undecided", "left"),
    [
        ("one more may tell who is right", 3, True, 2),
        ("one that is held is no better than one that is coming up", 3, False, 3),
        ("not where too few would serve", 0, True, 3),
    ],
)
def test_where_new_replicas_disagree_another_old_one_goes(sentence: str, old: int, undecided: bool, left: int) -> None:
    new = [*of("new", 1, ready=True), *of("new", 1, ready=False), *waiting(3)]
    serving = [*of("old", old), *of("old", 3 - old, ready=False)]
    found = decided(gpu_pool(replicas=5), [*serving, *new], scaled=(3, None), undecided=undecided)
    assert found == Scales(old=left, new=None), sentence


def test_a_single_replica_with_the_only_accelerator_goes_first() -> None:
    assert decided(gpu_pool(replicas=1), [*of("old", 1), *waiting(1)]) == Scales(old=0, new=None)


@pytest.mark.parametrize(
    ("sentence", "replicas", "at", "leaving", "held"),
    [
        ("its successor is still coming up", [*of("old", 2), *of("new", 1, ready=False), *waiting(2)], 60, False, 1),
        ("the last one is still ending", [*of("old", 2), *waiting(3)], 60, True, 1),
        ("the last one has not begun to end", [*of("old", 3), *waiting(3)], 60, False, 1),
        ("the scheduler had no time to look again", [*of("old", 2), *of("new", 1), *waiting(2)], 5, False, 1),
        ("what went first did not help", [*of("old", 2), *waiting(3)], 60, False, 1),
        ("the old revision has none to give", [*of("old", 2), *of("new", 1), *waiting(2)], 60, False, 0),
        ("nobody waits", [*of("old", 2), *of("new", 3)], 60, False, 1),
        (
            "they wait for something else",
            [*of("old", 2), *of("new", 1), *waiting(2, "0/1 nodes are available: 1 Insufficient memory.")],
            60,
            False,
            1,
        ),
        (
            "they wait for another resource of a like name",
            [*of("old", 2), *of("new", 1), *waiting(2, WAITING.replace("/gpu", "/gpu.shared"))],
            60,
            False,
            1,
        ),
    ],
)
def test_no_other_goes_while(sentence: str, replicas: list[Replica], at: float, leaving: bool, held: int) -> None:
    found = decided(
        gpu_pool(),
        replicas,
        scaled=(2, None),
        at=NOW + at,
        leaving=frozenset({"old"}) if leaving else frozenset(),
        held=held,
    )
    assert found == Scales(old=2, new=None), sentence


def test_surge_waits_for_accelerators_for_ever() -> None:
    assert decided(gpu_pool(strategy="Surge"), [*of("old", 3), *waiting(3)]) == AS_ASKED


def test_in_place_one_goes_before_one_comes() -> None:
    pool = gpu_pool(strategy="InPlace")
    assert decided(pool, of("old", 3), scaled=(3, 0)) == Scales(old=2, new=1)
    assert decided(pool, of("old", 2), scaled=(2, 1)) == Scales(old=2, new=1)
    assert decided(pool, [*of("old", 2), *of("new", 1, ready=False)], scaled=(2, 1)) == Scales(old=2, new=1)
    assert decided(pool, [*of("old", 2), *of("new", 1)], scaled=(2, 1)) == Scales(old=1, new=2)


def test_in_place_takes_no_new_replica_away() -> None:
    assert decided(gpu_pool(strategy="InPlace"), [*of("old", 3), *of("new", 3)]) == Scales(old=2, new=3)


def test_in_place_begins_with_what_is_there() -> None:
    pool = gpu_pool(strategy="InPlace")
    assert [each.scale for each in initial_scales(pool, revisions(), {"old": 3})] == [3, 0]
    assert [each.scale for each in initial_scales(gpu_pool(), revisions(), {"old": 3})] == [None, None]


def test_a_revision_alone_has_what_the_spec_asks_for() -> None:
    assert [each.scale for each in initial_scales(gpu_pool(), revisions(old_scale=1)[:1], {"old": 1})] == [None]


def test_what_a_replica_holds_is_read_from_its_template() -> None:
    assert held_accelerators(gpu_pool(), pod_template(gpu_pool(count=2), "old")) == 2
    assert held_accelerators(gpu_pool(), pod_template(a_pool(), "old")) == 0
    assert held_accelerators(a_pool(), pod_template(gpu_pool(), "old")) == 0


def test_a_replica_without_an_accelerator_says_what_the_scheduler_says() -> None:
    pool = gpu_pool()
    revision = names.revision_hash(pool.spec)
    (known,) = standing().revisions
    stands = Standing(revisions=(replace(known, hash=revision),), templates={})
    lonely = a_replica("a", revision=revision, ready=False, identity=None, unschedulable=WAITING)
    found = judge(pool, stands, observed([lonely])).pool
    assert (found.result, found.reason) == (Result.UNKNOWN, "NoSpareAccelerator")
    assert WAITING in found.message


@dataclass(slots=True)
class Hardware:
    """So many accelerators, a scheduler that places whom it can, replicas that come up one step later."""

    accelerators: int
    pool: EncoderPool
    old: int
    new: list[str] = field(default_factory=list)
    scaled: Scales = AS_ASKED
    at: float = NOW

    def step(self) -> None:
        """What Kubernetes does within a while, then one decision."""
        wanted = self.pool.spec.replicas
        self.new = ["ready" if each == "coming" else each for each in self.new]
        self.old = min(self.old, wanted if self.scaled.old is None else self.scaled.old)
        size = wanted if self.scaled.new is None else self.scaled.new
        self.new = sorted(self.new, key=("ready", "coming", "waiting").index)[:size]
        self.new += ["waiting"] * (size - len(self.new))
        for index, each in enumerate(self.new):
            if each == "waiting" and self.old + sum(one != "waiting" for one in self.new) < self.accelerators:
                self.new[index] = "coming"
        self.at += 20.0
        self.scaled = decided(self.pool, self.seen(), scaled=(self.scaled.old, self.scaled.new), at=self.at)

    def seen(self) -> list[Replica]:
        """The replicas as they are observed."""
        count = self.new.count
        return [
            *of("old", self.old),
            *of("new", count("ready"), ready=True),
            *of("new", count("coming"), ready=False),
            *waiting(count("waiting")),
        ]


@pytest.mark.parametrize("strategy", ["Auto", "InPlace"])
@pytest.mark.parametrize("replicas", [1, 2, 3, 5])
@pytest.mark.parametrize("spare", [0, 1, 2])
def test_every_replica_is_replaced_and_all_but_one_serve_throughout(strategy: str, replicas: int, spare: int) -> None:
    world = Hardware(accelerators=replicas + spare, pool=gpu_pool(replicas=replicas, strategy=strategy), old=replicas)
    if strategy == "InPlace":
        world.scaled = Scales(old=replicas, new=0)
    for _ in range(6 * replicas):
        world.step()
        assert world.old + world.new.count("ready") >= replicas - 1
    assert world.new == ["ready"] * replicas
