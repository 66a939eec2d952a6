"""The way from the operator to the API server, on which any call may break; and one pass on that way."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, cast

from encoder_operator import vocabulary
from encoder_operator.budget import most_cordoned
from encoder_operator.cluster import Cluster
from encoder_operator.errors import ClusterError, ConflictError, UnavailableError
from encoder_operator.events import Recorder
from encoder_operator.metrics import Metrics
from encoder_operator.observe import Sources
from encoder_operator.reconcile import World, reconcile
from encoder_operator.spec import parse
from tests.support.memory_world import Killed, MemoryWorld

WRITES = ("patch_pool_status", "patch_pod", "evict_pod", "apply_child", "delete_child", "create_event")
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
        serving = [name for name, pod in self.world.pod_objects.items() if serves(pod) and name != replica]
        assert len(serving) >= pool.spec.quarantine.min_serving
        assert len(_cordoned(self.world)) < most_cordoned(pool)


def event_of(body: Mapping[str, Any]) -> Event:
    """What an event is, and what it is about."""
    return body["reason"], body["message"].partition(":")[0]


def told_in(world: MemoryWorld) -> dict[str, Event]:
    """The events that there are, by name."""
    return {name: event_of(each) for name, each in world.events.items()}


def serves(pod: Mapping[str, Any]) -> bool:
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
        assert not set(gate.calls[gate.breaks_at :]) & set(WRITES), "nothing is written after what went wrong"
