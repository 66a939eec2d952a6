"""Stories of a pool in memory that are broken off at any call to the API server, and go on with another operator.

A story is told as steps: until a step is done, others do what it says before each pass. It depends on the world
alone, so it can go on from any moment of it. Where an operator that started anew comes upon a moment that was told
to its end before, the end is the same and is not told again.
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, cast

from encoder_operator import vocabulary
from encoder_operator.budget import most_cordoned
from encoder_operator.cluster import ChildKind, Cluster
from encoder_operator.errors import ClusterError, ConflictError, UnavailableError
from encoder_operator.events import Recorder
from encoder_operator.metrics import Metrics
from encoder_operator.observe import Sources
from encoder_operator.reconcile import World, reconcile
from encoder_operator.spec import parse
from encoder_operator.window import PodSamples
from tests.support.memory_world import Killed, MemoryWorld

_MOST_PASSES = 60
_WRITES = ("patch_pool_status", "patch_pod", "evict_pod", "apply_child", "delete_child", "create_event")
_METRICS = Metrics()

Event = tuple[str, str]
"""An event's reason and what it is about."""


class Break(Enum):
    """What becomes of one call."""

    KILLED_BEFORE = "the operator is killed before the call"
    KILLED_AFTER = "the operator is killed when the call took hold"
    REFUSED = "the call is refused with 503"
    LOST = "the call took hold, its answer is lost"
    CONFLICT = "the call is refused with 409"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A part of a story: what others do before each pass, and when it is over."""

    meanwhile: Callable[[MemoryWorld], None]
    done: Callable[[MemoryWorld], bool]


@dataclass(slots=True, kw_only=True)
class Gate:
    """The way to the API server, on which the nth call breaks. It knows what no act of the operator may do."""

    world: MemoryWorld
    breaks_at: int | None = None
    how: Break | None = None
    calls: list[str] = field(default_factory=list)
    posted: dict[str, Event] = field(default_factory=dict)

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call: Callable[..., Awaitable[Any]] = getattr(self.world, name)

        async def through(*arguments: Any) -> Any:
            self.calls.append(name)
            broken = self.how if len(self.calls) == self.breaks_at else None
            match broken:
                case Break.KILLED_BEFORE:
                    raise Killed(name)
                case Break.REFUSED:
                    raise UnavailableError(503, "no answer")
                case Break.CONFLICT:
                    raise ConflictError(409, "changed meanwhile")
                case _:
                    self._check(name, arguments)
            found = await call(*arguments)
            match broken:
                case Break.KILLED_AFTER:
                    raise Killed(name)
                case Break.LOST:
                    raise UnavailableError(0, "no answer in time")
                case _:
                    return found

        return through

    def _check(self, name: str, arguments: tuple[Any, ...]) -> None:
        if name == "create_event":
            body: Mapping[str, Any] = arguments[1]
            self.posted[body["metadata"]["name"]] = event_of(body)
        elif name == "evict_pod":
            assert arguments[2] not in self.world.evicted
        elif name == "patch_pod" and arguments[3].get(vocabulary.LABEL_SERVING) == vocabulary.NOT_SERVING:
            record = json.loads(arguments[4][vocabulary.ANNOTATION_CORDON])
            if record["by"] == vocabulary.FIELD_MANAGER:
                self._check_budget(arguments[1])

    def _check_budget(self, replica: str) -> None:
        assert self.world.pool is not None
        pool = parse(self.world.pool)
        serving = [name for name, pod in self.world.pod_objects.items() if _serves(pod) and name != replica]
        assert len(serving) >= pool.spec.quarantine.min_serving
        assert len(_cordoned(self.world)) < most_cordoned(pool)


def event_of(body: Mapping[str, Any]) -> Event:
    """What an event is, and what it is about."""
    return body["reason"], body["message"].partition(":")[0]


def told_in(world: MemoryWorld) -> dict[str, Event]:
    """The events that there are, by name."""
    return {name: event_of(each) for name, each in world.events.items()}


def _serves(pod: Mapping[str, Any]) -> bool:
    serving = pod["metadata"]["labels"][vocabulary.LABEL_SERVING] == vocabulary.SERVING
    return bool(serving and pod["status"]["conditions"][0]["status"] == "True")


def _cordoned(world: MemoryWorld) -> list[str]:
    found = []
    for name, pod in world.pod_objects.items():
        record = json.loads(pod["metadata"]["annotations"].get(vocabulary.ANNOTATION_CORDON, "{}"))
        if (record.get("by"), record.get("state")) == (vocabulary.FIELD_MANAGER, "Cordoned"):
            found.append(name)
    return found


async def a_pass(gate: Gate) -> None:
    """One pass of an operator that remembers nothing; it may be broken off."""
    cluster = cast("Cluster", gate)
    sources = Sources(cluster=cluster, identities=gate.world, counters=gate.world)
    world = World(sources=sources, recorder=Recorder(cluster), metrics=_METRICS, clock=lambda: gate.world.now)
    try:
        await reconcile("models", "vision", world)
    except (Killed, ClusterError):
        assert gate.breaks_at is not None
        assert not set(gate.calls[gate.breaks_at :]) & set(_WRITES), "nothing is written after what went wrong"


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
        pods[name] = (pod["metadata"]["uid"], _serves(pod), counted, world.servers[name].obeyed)
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
        before = moment(world), {key: each["metadata"]["resourceVersion"] for key, each in world.objects.items()}
        events = set(world.events)
        await a_pass(Gate(world=world))
        after = moment(world), {key: each["metadata"]["resourceVersion"] for key, each in world.objects.items()}
        assert after == before, "another pass changes nothing"
        assert set(world.events) == events


# These are told of what was just done, and stand in nothing that another operator reads.
LOST_WITH_THEIR_PASS = frozenset({"RestartOrdered", "ProbeOrdered", "AttemptFailed", "Evicted", "Learned"})


def _move_on(world: MemoryWorld) -> None:
    world.live()
    world.now += 1.0


def _ways(at: int, writes: Sequence[int]) -> tuple[Break, ...]:
    """The ways in which a call may break, but for those that leave the world as another one does: a kill before a
    write is one after the write before it, and a pass that only reads leaves no trace wherever it ends."""
    if at in writes:
        return tuple(each for each in Break if each is not Break.KILLED_BEFORE or at == writes[0])
    return (Break.REFUSED,) if writes or at == 1 else ()


async def everywhere(story: tuple[Step, ...], world: MemoryWorld, *, brief: frozenset[str] = frozenset()) -> Telling:
    """Tell this story once, and then broken off at each of its calls in each way that may change what follows."""
    telling = Telling(story=story, brief=brief)
    for scene in await telling.begin(world):
        calls = scene.gate.calls
        writes = [at for at, name in enumerate(calls, 1) if name in _WRITES]
        for at in range(1, len(calls) + 1):
            for how in _ways(at, writes):
                await telling.break_off(scene, at, how, late=False)
                if how in (Break.KILLED_BEFORE, Break.KILLED_AFTER):
                    await telling.break_off(scene, at, how, late=True)
    return telling
