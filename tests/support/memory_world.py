"""A pool's world in memory: the API server's part, replicas that obey orders, counters that a test sets.

The operator may be killed before or after any of its writes: `Killed` ends a pass as a signal would.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from encoder_operator import names, vocabulary
from encoder_operator.cluster import ChildKind, JsonObject, PodEvent
from encoder_operator.errors import ConflictError, EvictionBlockedError
from encoder_operator.events import Recorder
from encoder_operator.evidence import EvidenceError
from encoder_operator.metrics import Metrics
from encoder_operator.observation import DoneOrder, Identity, ItemReport, ProbeReport, ProbeResult, Replica, Size
from encoder_operator.observe import Sources
from encoder_operator.reconcile import World, reconcile
from encoder_operator.timestamps import to_text
from encoder_operator.window import PodSamples, Sample
from tests.support.memory_cluster import MemoryChildren, as_served
from tests.support.pool_objects import pool_object
from tests.support.replicas import FAILED, FINGERPRINT, LARGE, NOW, PASSED, an_identity, an_item, signature

GOLDEN = an_item(size=Size(modality="image", width=56, height=56))


class Killed(BaseException):
    """The operator's process is gone."""


class Probing(Enum):
    """What becomes of an ordered probe."""

    ANSWERS = "it ends and is told"
    UNHEARD = "the order never arrives"
    ENDLESS = "it runs on"
    ENGINE_LOST = "no engine lives to tell"
    DIES = "the process dies of it"


@dataclass(slots=True)
class Server:
    """One replica's process: it boots, measures itself, reads its pod's labels and orders, and obeys."""

    uid: str
    boots: int = 1
    fault: bool = False
    size: Size = LARGE
    fingerprint: str = FINGERPRINT
    probe_passes: bool = True
    answers: bool = True
    probing: Probing = Probing.ANSWERS
    heard: bool = True
    report: ProbeReport | None = None
    obeyed: list[str] = field(default_factory=list)
    flushed: set[str] = field(default_factory=set)
    _taken: set[str] = field(default_factory=set)

    @property
    def boot_id(self) -> str:
        return f"{self.uid}-boot-{self.boots}"

    def boot(self) -> None:
        """A new process in the same pod."""
        self.boots += 1
        self.report = None
        self._taken.clear()

    def obey(self, annotations: Mapping[str, str]) -> None:
        """Do what the orders for this boot say."""
        flush = json.loads(annotations.get(vocabulary.ANNOTATION_ORDER_FLUSH, "{}"))
        if flush.get("bootId") == self.boot_id:
            self.flushed.update(flush["producers"])
        restart = json.loads(annotations.get(vocabulary.ANNOTATION_ORDER_RESTART, "{}"))
        if restart.get("bootId") == self.boot_id:
            self.obeyed.append(restart["id"])
            self.boot()
            return
        probe = json.loads(annotations.get(vocabulary.ANNOTATION_ORDER_PROBE, "{}"))
        unheard = self.probing is Probing.UNHEARD or probe.get("bootId") != self.boot_id
        if unheard or probe["id"] in self._taken:
            return
        self._taken.add(probe["id"])
        self.obeyed.append(probe["id"])
        if self.probing is Probing.DIES:
            self.boot()
            return
        self.report = self._probed(probe["id"], [Size(**each) for each in probe["sizes"]])

    def _probed(self, order_id: str, sizes: Sequence[Size]) -> ProbeReport:
        """The golden items decide whether it is admitted; what was named fails where the fault is in its size."""
        items = [GOLDEN]
        for index, size in enumerate(sizes, start=1):
            failed = self.fault and size == self.size
            items.append(an_item(index, size=size, result="count" if failed else "ok", produced=9 if failed else 16))
        result = ProbeResult.FAILED if any(each.result != "ok" for each in items) else ProbeResult.PASSED
        match self.probing:
            case Probing.ENDLESS:
                items, result = [], ProbeResult.RUNNING
            case Probing.ENGINE_LOST:
                items, result = [], ProbeResult.FAILED
            case _:
                pass
        return ProbeReport(result=result, order_id=order_id, items=tuple(items))

    def identity(self, serving: bool, expected: Mapping[str, Any]) -> Identity:
        """What it says of itself."""
        report = self.report or (PASSED if self.probe_passes else FAILED)
        done = None if report.order_id is None else DoneOrder(id=report.order_id, result=report.result)
        violation = an_item(size=self.size, result="count", produced=9)
        violations: tuple[ItemReport, ...] = (violation,) if self.fault else ()
        state, reason = self._state(serving, expected)
        return an_identity(
            pod_uid=self.uid,
            boot_id=self.boot_id,
            state=state,
            reason=reason,
            fingerprint=self.fingerprint,
            signature=signature(),
            probe=report,
            probe_done=done,
            recent_violations=violations,
        )

    def _state(self, serving: bool, expected: Mapping[str, Any]) -> tuple[str, str]:
        if not serving:
            return vocabulary.STATE_CORDONED, "Cordoned"
        if not self.probe_passes:
            return vocabulary.STATE_HELD, vocabulary.PROBE_FAILED
        if expected.get("policy") == "Off":
            return vocabulary.STATE_READY, vocabulary.AS_EXPECTED
        if expected.get("fingerprint") is None:
            return vocabulary.STATE_HELD, vocabulary.LEARNING
        if expected["fingerprint"] != self.fingerprint:
            return vocabulary.STATE_HELD, vocabulary.FINGERPRINT_DRIFT
        return vocabulary.STATE_READY, vocabulary.AS_EXPECTED


class MemoryWorld(MemoryChildren):
    """The cluster port, the identities and the counters of one pool."""

    sparse: str | None = None

    def __init__(self, **spec: Any) -> None:
        super().__init__()
        self.now = NOW
        said: dict[str, Any] = {
            "replicas": 3,
            "integrity": {"evaluationSeconds": 3, "windowSeconds": 30, "minChecks": 20},
            "quarantine": {"baseSeconds": 5, "maxSeconds": 15},
        }
        self.pool: JsonObject | None = pool_object(**(said | spec))
        self.pod_objects: dict[str, JsonObject] = {}
        self.servers: dict[str, Server] = {}
        self.mounted: dict[str, Mapping[str, Any]] = {}
        self._told: dict[str, object] = {}
        self.counters: dict[str, PodSamples] = {}
        self.events: dict[str, JsonObject] = {}
        self.event_attempts = 0
        self.clock_is_ahead = 0.0
        self.evidence_is_lost = False
        self.evicted: list[str] = []
        self.eviction_refusal: str | None = None
        self.kill_at: int | None = None
        self.kill_after_write = False
        self._writes = 0

    def as_world(self) -> World:
        """A newly started operator's view: it remembers nothing."""
        sources = Sources(cluster=self, identities=self, counters=self)
        return World(
            sources=sources, recorder=Recorder(self), metrics=Metrics(), clock=lambda: self.now + self.clock_is_ahead
        )

    async def passes(self, count: int, *, seconds: float = 1.0) -> None:
        """Passes of one operator; between them the world moves on."""
        world = self.as_world()
        for _ in range(count):
            await reconcile("models", "vision", world)
            self.live()
            self.now += seconds

    async def passes_with_a_kill(self, count: int, kill_at: int, *, after_write: bool) -> None:
        """The same, but the operator dies at its nth write from now, and another starts."""
        self.kill_at, self.kill_after_write = self._writes + kill_at, after_write
        for _ in range(count):
            try:
                await self.passes(1)
            except Killed:
                self.live()
                self.now += 1.0
        self.kill_at = None

    def live(self) -> None:
        """What Kubernetes and the replicas do meanwhile: pods for Deployments, orders obeyed, readiness."""
        wanted = {
            (child["metadata"]["labels"][vocabulary.LABEL_REVISION], index): child
            for (kind, _), child in self.objects.items()
            if kind is ChildKind.DEPLOYMENT
            for index in range(child["spec"]["replicas"])
        }
        pods = {f"vision-{revision}-{index}": child for (revision, index), child in wanted.items()}
        for name in set(self.pod_objects) - set(pods):
            del self.pod_objects[name], self.servers[name]
        for name, child in pods.items():
            if name not in self.pod_objects:
                self._create_pod(name, child)
            self._update(name)
        self._update_workloads()

    def writes_so_far(self) -> int:
        """How many writes there were, of all kinds."""
        return self._writes

    def pod(self, index: int) -> JsonObject:
        """The nth pod by name."""
        return self.pod_objects[sorted(self.pod_objects)[index]]

    def server(self, index: int) -> Server:
        """The nth pod's process."""
        return self.servers[sorted(self.servers)[index]]

    def record(self, index: int) -> dict[str, Any]:
        """The cordon record on the nth pod."""
        text = self.pod(index)["metadata"]["annotations"].get(vocabulary.ANNOTATION_CORDON)
        found: dict[str, Any] = json.loads(text) if text else {}
        return found

    def label(self, index: int) -> str:
        """The nth pod's serving label."""
        return str(self.pod(index)["metadata"]["labels"][vocabulary.LABEL_SERVING])

    def condition(self, kind: str = "Ready") -> JsonObject:
        """A condition of the pool."""
        assert self.pool is not None
        return next(each for each in self.pool["status"]["conditions"] if each["type"] == kind)

    def count(self, index: int, *, good: float, bad: float, media: float) -> None:
        """The nth pod's counters since its container started, scraped each second of the last 29."""
        start = self.now - 29
        steps = range(30)

        def rising(to: float) -> tuple[Sample, ...]:
            return tuple(Sample(at=start + step, value=to * step / 29) for step in steps)

        checks = {("image", result): rising(0) for result in ("width", "dtype", "layout")}
        checks[("image", "ok")], checks[("image", "count")] = rising(good), rising(bad)
        self.counters[sorted(self.pod_objects)[index]] = PodSamples(checks=checks, media=rising(media))

    async def list_pools(self) -> list[JsonObject]:
        return [as_served(self.pool)] if self.pool else []

    async def get_pool(self, namespace: str, name: str) -> JsonObject | None:
        return as_served(self.pool)

    async def patch_pool_status(self, namespace: str, name: str, status: JsonObject) -> None:
        self._before_write("status")
        if self.pool is not None:
            self.pool["status"] = as_served(status)
        self._after_write()

    async def list_pods(self, namespace: str, pool: str) -> list[JsonObject]:
        return as_served(list(self.pod_objects.values()))

    async def patch_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        self._before_write(f"patch {name} {sorted(labels)} {sorted(annotations)}")
        pod = self.pod_objects.get(name)
        if pod is None or pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {name} is another")
        for changes, kept in ((labels, pod["metadata"]["labels"]), (annotations, pod["metadata"]["annotations"])):
            for key, value in changes.items():
                if value is None:
                    kept.pop(key, None)
                else:
                    kept[key] = value
        self._after_write()

    async def evict_pod(self, namespace: str, name: str, uid: str) -> None:
        self._before_write(f"evict {name}")
        if self.eviction_refusal is not None:
            raise EvictionBlockedError(429, self.eviction_refusal)
        pod = self.pod_objects.get(name)
        if pod is not None and pod["metadata"]["uid"] != uid:
            raise ConflictError(409, f"pod {name} is another")
        if pod is not None:
            self.evicted.append(uid)
            del self.pod_objects[name], self.servers[name]
        self._after_write()

    async def watch_pods(self, namespace: str | None) -> AsyncIterator[PodEvent]:
        for _ in ():
            yield _

    async def list_deployments(self, namespace: str, pool: str) -> list[JsonObject]:
        return await self.list_children(ChildKind.DEPLOYMENT, namespace, pool)

    async def get_config_map(self, namespace: str, name: str) -> JsonObject | None:
        return await self.get_child(ChildKind.CONFIG_MAP, namespace, name)

    async def apply_child(self, manifest: JsonObject) -> JsonObject:
        self._before_write(f"apply {manifest['kind']}")
        after = await super().apply_child(manifest)
        self._after_write()
        return after

    async def delete_child(self, kind: ChildKind, namespace: str, name: str, uid: str) -> None:
        self._before_write(f"delete {kind.value}")
        await super().delete_child(kind, namespace, name, uid)
        self._after_write()

    async def create_event(self, namespace: str, body: JsonObject) -> bool:
        self._before_write(f"event {body['reason']}")
        self.event_attempts += 1
        name = body["metadata"]["name"]
        new = name not in self.events
        self.events.setdefault(name, body)
        self._after_write()
        return new

    async def read(self, replicas: Sequence[Replica]) -> tuple[Replica, ...]:
        """The identities, as `identities.Identities`."""
        return tuple(
            replace(
                each,
                identity=self.servers[each.name].identity(
                    self.pod_objects[each.name]["metadata"]["labels"][vocabulary.LABEL_SERVING] == "true",
                    self.mounted[each.name],
                ),
            )
            if self.servers[each.name].answers and self.servers[each.name].heard
            else each
            for each in replicas
        )

    async def samples(
        self, namespace: str, replicas: Sequence[Replica], window_seconds: int, now: float
    ) -> Mapping[str, PodSamples]:
        """The counters, as `evidence.Counters`."""
        if self.evidence_is_lost:
            raise EvidenceError("Prometheus cannot be asked")
        return {each.name: self.counters[each.name] for each in replicas if each.name in self.counters}

    def _before_write(self, what: str) -> None:
        self._writes += 1
        if self._writes == self.kill_at and not self.kill_after_write:
            raise Killed(what)

    def _after_write(self) -> None:
        if self._writes == self.kill_at:
            raise Killed("after a write")

    def _expected(self, revision: str) -> Mapping[str, Any]:
        config_map = self.objects[ChildKind.CONFIG_MAP, names.identities_name("vision")]
        found: Mapping[str, Any] = json.loads(config_map["data"].get(names.identity_key(revision), "{}"))
        return found

    def _create_pod(self, name: str, deployment: JsonObject) -> None:
        template = deployment["spec"]["template"]["metadata"]
        # The replacement has its predecessor's name here, so that a test finds it; a uid never comes again.
        uid = f"uid-{name}-{len(self.evicted)}"
        self.servers[name] = Server(uid=uid)
        self.pod_objects[name] = {
            "metadata": {
                "name": name,
                "namespace": "models",
                "uid": uid,
                "creationTimestamp": to_text(self.now),
                "labels": dict(template["labels"]),
                "annotations": {},
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": []},
        }

    def _update(self, name: str) -> None:
        pod, server = self.pod_objects[name], self.servers[name]
        boots = server.boots
        server.obey(pod["metadata"]["annotations"])
        serving = pod["metadata"]["labels"][vocabulary.LABEL_SERVING] == "true"
        said = (pod["metadata"]["uid"], server.boots, as_served(pod["metadata"]["annotations"]), serving)
        if self._told.get(name) != said:
            # The kubelet brings a pod's files up to date when the pod changes; else it takes its time.
            self._told[name] = said
            self.mounted[name] = self._expected(pod["metadata"]["labels"][vocabulary.LABEL_REVISION])
        identity = server.identity(serving, self.mounted[name])
        ready = server.answers and identity.state == vocabulary.STATE_READY
        status = pod["status"]
        before: JsonObject = next(iter(status.get("conditions") or ()), {})
        since = before["lastTransitionTime"] if before.get("status") == str(ready) else to_text(self.now)
        status["conditions"] = [{"type": "Ready", "status": str(ready), "lastTransitionTime": since}]
        if server.boots != boots or "containerStatuses" not in status:
            self.counters.pop(name, None)
            running = {"running": {"startedAt": to_text(self.now)}}
            status["containerStatuses"] = [
                {"name": vocabulary.CONTAINER, "restartCount": server.boots - 1, "state": running}
            ]

    def _update_workloads(self) -> None:
        for (kind, _), child in self.objects.items():
            if kind is ChildKind.DEPLOYMENT:
                revision = child["metadata"]["labels"][vocabulary.LABEL_REVISION]
                pods = [
                    pod
                    for pod in self.pod_objects.values()
                    if pod["metadata"]["labels"][vocabulary.LABEL_REVISION] == revision
                ]
                ready = sum(pod["status"]["conditions"][0]["status"] == "True" for pod in pods)
                child["status"] = {"replicas": len(pods), "readyReplicas": ready}


async def a_ready_pool(**spec: Any) -> MemoryWorld:
    """A world whose pool serves as expected, and has done so for a while."""
    world = MemoryWorld(**spec)
    await world.passes(6)
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "AsExpected")
    world.now += 60
    return world
