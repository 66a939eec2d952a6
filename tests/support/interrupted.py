"""Stories of a pool in memory that are broken off at any call to the API server, and go on with another operator.

A story is told as steps: until a step is done, others do what it says before each pass. It depends on the world
alone, so it can go on from any moment of it. Where an operator that started anew comes upon a moment that was told
to its end before, the end is the same and is not told again.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.cluster import ChildKind
from encoder_operator.window import PodSamples
from tests.support.breaking import WRITES, Break, Event, Gate, a_pass, serves, told_in
from tests.support.memory_world import MemoryWorld

_MOST_PASSES = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a story: what others do before each pass, and when it is over."""

    meanwhile: Callable[[MemoryWorld], None]
    done: Callable[[MemoryWorld], bool]


def moment(world: MemoryWorld) -> str:
    """All that an operator could ever read, but for events; in one form."""
    seen = {
        "now": world.now,
        "pool": world.pool,
        "pods": world.pod_objects,
        "servers": {name: asdict(each) for name, each in world.servers.items()},
        "mounted": world.mounted,
        "children": {
            f"{kind.value}/{name}": {**child, "metadata": {**child["metadata"], "resourceVersion": None}}
            for (kind, name), child in world.objects.items()
        },
        "evicted": world.evicted,
        "counters": {name: [len(each.checks), each.media[-1:]] for name, each in world.counters.items()},
    }
    return json.dumps(seen, sort_keys=True, default=str)


def end(world: MemoryWorld) -> dict[str, Any]:
    """What must be the same however often the operator was killed on the way."""
    assert world.pool is not None
    status = world.pool["status"]
    pods = {}
    for name, pod in sorted(world.pod_objects.items()):
        record = json.loads(pod["metadata"]["annotations"].get(vocabulary.ANNOTATION_CORDON, "{}"))
        counted = {key: record.get(key) for key in ("by", "state", "reason", "times", "inARow", "attempt")}
        # The name of a question ends with the time at which it was asked.
        obeyed = [
            each.rpartition("-")[0] if each.startswith("opinion-") else each for each in world.servers[name].obeyed
        ]
        pods[name] = (pod["metadata"]["uid"], serves(pod), counted, obeyed)
    return {
        "pods": pods,
        "revisions": [
            {key: each.get(key) for key in ("hash", "role", "attempts", "fingerprint")} for each in status["revisions"]
        ],
        # What traffic says depends on when it was last asked.
        "conditions": {
            each["type"]: (each["status"], each["reason"])
            for each in status["conditions"]
            if each["type"] != "IntegrityHealthy"
        },
        "images": sorted(
            child["spec"]["template"]["spec"]["containers"][0]["image"]
            for (kind, _), child in world.objects.items()
            if kind is ChildKind.DEPLOYMENT
        ),
        "evicted": world.evicted,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A pass of a story as it was first told: the world before it, and the calls that were made."""

    step: int
    packed: bytes
    counters: Mapping[str, PodSamples]
    gate: Gate

    def world(self) -> MemoryWorld:
        """The world before it, once more."""
        world: MemoryWorld = pickle.loads(self.packed)
        world.counters = dict(self.counters)
        return world


def _packed(world: MemoryWorld) -> bytes:
    counters, world.counters = world.counters, {}
    packed = pickle.dumps(world)
    world.counters = counters
    return packed


@dataclass(slots=True, kw_only=True)
class Telling:
    """One story, told to its end from wherever it was broken off; `told` holds, for each moment from which it was,
    the events that were still to come. `brief` are reasons that stand for one pass alone, and may be lost with it."""

    story: tuple[Step, ...]
    brief: frozenset[str]
    told: dict[tuple[int, str], dict[str, Event]] = field(default_factory=dict)
    first_end: dict[str, Any] = field(default_factory=dict)
    first_events: Counter[Event] = field(default_factory=Counter)
    broken: int = 0
    passes: int = 0

    async def begin(self, world: MemoryWorld) -> list[Scene]:
        """Tell it without a break; returns each pass with the world before it."""
        scenes: list[Scene] = []
        posted = await self._go_on(world, 0, told_in(world), scenes)
        self.first_end = end(world)
        self.first_events = self._of_those_that_stay(posted)
        return scenes

    async def break_off(self, scene: Scene, at: int, how: Break, *, late: bool) -> None:
        """Tell it with one call broken; another operator starts at once, or when the world has moved on."""
        world = scene.world()
        gate = Gate(world=world, breaks_at=at, how=how)
        await a_pass(gate)
        self.broken += 1
        if late or how is Break.CONFLICT:
            _move_on(world)
        posted = await self._go_on(world, scene.step, told_in(world), None)
        counted = self._of_those_that_stay(posted)
        assert not counted - self.first_events, f"told more often than without the break: {counted - self.first_events}"
        missing = self.first_events - counted
        assert {reason for reason, _ in missing} <= LOST_WITH_THEIR_PASS | self.brief, missing

    def _of_those_that_stay(self, posted: Mapping[str, Event]) -> Counter[Event]:
        """The events, but for pods that are gone: how far their repair came depends on when they went."""
        revisions = {f"revision {each['hash']}" for each in self.first_end["revisions"]}
        stay = revisions | set(self.first_end["pods"]) | {"quarantine"}
        return Counter(each for each in posted.values() if each[1] in stay)

    async def _go_on(
        self, world: MemoryWorld, index: int, posted: dict[str, Event], scenes: list[Scene] | None
    ) -> dict[str, Event]:
        trail: list[tuple[tuple[int, str], dict[str, Event]]] = []
        later: dict[str, Event] | None = None
        while later is None:
            while index < len(self.story) and self.story[index].done(world):
                index += 1
            if index == len(self.story):
                await self._ended(world)
                later = {}
                break
            self.story[index].meanwhile(world)
            key = (index, moment(world))
            later = self.told.get(key)
            if later is None:
                assert len(trail) < _MOST_PASSES, f"step {index} does not end"
                gate = Gate(world=world)
                if scenes is not None:
                    scenes.append(Scene(step=index, packed=_packed(world), counters=dict(world.counters), gate=gate))
                await a_pass(gate)
                self.passes += 1
                trail.append((key, gate.posted))
                _move_on(world)
        for key, now in reversed(trail):
            later = later | now
            self.told[key] = later
        return posted | later

    async def _ended(self, world: MemoryWorld) -> None:
        for _ in range(_MOST_PASSES):
            before = moment(world)
            await a_pass(Gate(world=world))
            if moment(world) == before:
                break
            _move_on(world)
        found = end(world)
        if self.first_end:
            differing = {key: (found[key], self.first_end[key]) for key in found if found[key] != self.first_end[key]}
            assert not differing, differing
        written = _written(world)
        await a_pass(Gate(world=world))
        assert _written(world) == written, "another pass changes nothing"


def _written(world: MemoryWorld) -> tuple[str, dict[str, str], list[str]]:
    versions = {name: str(each["metadata"]["resourceVersion"]) for (_, name), each in world.objects.items()}
    return moment(world), versions, sorted(world.events)


# These are told of what was just done, and stand in nothing that another operator reads.
LOST_WITH_THEIR_PASS = frozenset({"RestartOrdered", "ProbeOrdered", "AttemptFailed", "Evicted", "Learned"})


def _move_on(world: MemoryWorld) -> None:
    world.live()
    world.now += 1.0


def _ways(at: int, writes: Sequence[int]) -> tuple[Break, ...]:
    """The ways in which a call may break, but for those that leave the world as another one does: a kill before a
    write is one after the write before it, and so is one at any read."""
    if at in writes:
        return tuple(each for each in Break if each is not Break.KILLED_BEFORE or at == writes[0])
    return (Break.REFUSED,)


async def everywhere(story: tuple[Step, ...], world: MemoryWorld, *, brief: frozenset[str] = frozenset()) -> Telling:
    """Tell this story once, and then broken off at each of its calls in each way that may change what follows."""
    telling = Telling(story=story, brief=brief)
    refused: set[tuple[int, str, int]] = set()
    for scene in await telling.begin(world):
        calls = scene.gate.calls
        writes = [at for at, name in enumerate(calls, 1) if name in WRITES]
        for at in range(1, len(calls) + 1):
            # A read that is refused ends the pass, and nothing is written: once after each number of writes is enough.
            read = (scene.step, calls[at - 1], sum(each < at for each in writes))
            if at not in writes and read in refused:
                continue
            refused.add(read)
            for how in _ways(at, writes):
                await telling.break_off(scene, at, how, late=False)
                if how in (Break.KILLED_BEFORE, Break.KILLED_AFTER):
                    await telling.break_off(scene, at, how, late=True)
    return telling
