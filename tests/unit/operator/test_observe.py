"""Observe: pods as values, and identities that are believed only when said twice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from encoder_operator import vocabulary
from encoder_operator.identities import HttpIdentities
from encoder_operator.observation import Obstacle, ProbeResult, Replica
from encoder_operator.orders import render_record
from encoder_operator.replicas import leaving_of, replicas_of, workload_of
from encoder_operator.timestamps import to_seconds
from tests.support.replicas import a_record, a_replica

IDENTITY = json.loads((Path(__file__).parents[2] / "contract" / "identity.json").read_text())
UID = IDENTITY["admitted"]["podUid"]
BEGUN = "2026-11-30T11:59:00Z"


def a_pod(name: str = "a", **metadata: Any) -> dict[str, Any]:
    labels = {vocabulary.LABEL_REVISION: "5d41402abc", vocabulary.LABEL_SERVING: "true"}
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": BEGUN, "labels": labels, **metadata},
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-11-30T12:00:00Z"}],
            "containerStatuses": [
                {
                    "name": "encoder",
                    "restartCount": 2,
                    "state": {"running": {"startedAt": "2026-11-30T12:00:00Z"}},
                }
            ],
        },
    }


def test_a_pod_as_a_replica() -> None:
    (found,) = replicas_of([a_pod(annotations={vocabulary.ANNOTATION_EXPECTED_DIGEST: "d"})])
    assert (found.revision, found.serving, found.ready, found.restarts) == ("5d41402abc", True, True, 2)
    assert (found.address, found.container_started_at, found.expected_digest) == ("10.0.0.1", 1796040000.0, "d")


def test_terminating_and_finished_pods_are_nobodys_replicas() -> None:
    leaving = a_pod("b", deletionTimestamp="2026-11-30T12:00:00Z")
    evicted = a_pod("c")
    evicted["status"]["phase"] = "Failed"
    assert [each.name for each in replicas_of([leaving, evicted, a_pod("a")])] == ["a"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"by": 1}', '{"state": "Odd"}', "null"])
def test_what_a_person_wrote_into_an_annotation_is_no_record(text: str) -> None:
    keys = (vocabulary.ANNOTATION_CORDON, vocabulary.ANNOTATION_ORDER_PROBE, vocabulary.ANNOTATION_ORDER_RESTART)
    (found,) = replicas_of([a_pod(annotations=dict.fromkeys(keys, text))])
    assert (found.cordon, found.probe_order, found.restart_order) == (None, None, None)


@pytest.mark.parametrize(
    "edited",
    [
        {"times": 1e999},
        {"times": 2**31},
        {"attempt": -3},
        {"reason": ""},
        {"reason": "Because"},
        {"since": "9999-12-31T23:59:59-23:59"},
        {"nextAttemptAt": "soon"},
        {"sizes": [{"modality": "image", "width": 1e999, "height": 1}]},
    ],
)
def test_a_record_that_no_status_could_tell_is_none(edited: dict[str, Any]) -> None:
    text = json.dumps(json.loads(render_record(a_record())) | edited)
    (found,) = replicas_of([a_pod(annotations={vocabulary.ANNOTATION_CORDON: text})])
    assert found.cordon is None


def test_an_annotation_too_deep_to_be_read_is_no_record() -> None:
    (found,) = replicas_of([a_pod(annotations={vocabulary.ANNOTATION_CORDON: "[" * 100_000})])
    assert found.cordon is None


def test_a_pod_without_status_is_a_replica_of_which_nothing_is_known() -> None:
    pod = a_pod()
    del pod["status"]
    (found,) = replicas_of([pod])
    assert (found.address, found.ready, found.container_started_at) == (None, False, None)


UNBOUND = 'persistentvolumeclaim "weights" not found'
KILLED = {"terminated": {"reason": "OOMKilled", "exitCode": 137}}


@pytest.mark.parametrize(
    ("sentence", "status", "told", "lasting"),
    [
        (
            "no node takes it",
            {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "X", "message": UNBOUND}]},
            f"no node takes it: {UNBOUND}",
            True,
        ),
        (
            "its image cannot be pulled",
            {"state": {"waiting": {"reason": "ImagePullBackOff", "message": "not found"}}},
            "container is waiting: ImagePullBackOff: not found",
            True,
        ),
        (
            "it ends again and again",
            {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}}, "lastState": KILLED},
            "container is waiting: CrashLoopBackOff: OOMKilled with exit code 137",
            True,
        ),
        (
            "it is on its way",
            {"state": {"waiting": {"reason": "ContainerCreating"}}},
            "container is waiting: ContainerCreating",
            False,
        ),
        ("it has just ended", {"state": KILLED}, "container ended: OOMKilled with exit code 137", False),
    ],
)
def test_what_keeps_a_container_from_running_is_told(
    sentence: str, status: dict[str, Any], told: str, lasting: bool
) -> None:
    pod = a_pod()
    container = {"name": "encoder", **{key: status[key] for key in status if key != "conditions"}}
    pod["status"] = {"conditions": status.get("conditions", []), "containerStatuses": [container]}
    (found,) = replicas_of([pod])
    assert found.obstacle == Obstacle(message=told, lasting=lasting), sentence


def test_a_container_that_runs_has_no_obstacle() -> None:
    (found,) = replicas_of([a_pod()])
    assert found.obstacle is None


def test_a_pod_that_finds_no_node_says_what_the_scheduler_says() -> None:
    pod = a_pod()
    message = "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
    told = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    pod["status"]["conditions"] = [told]
    assert replicas_of([pod])[0].unschedulable == message
    pod["status"]["conditions"] = [told | {"reason": "SchedulingGated"}]
    assert replicas_of([pod])[0].unschedulable is None


def test_a_pod_that_is_ending_is_told_by_its_revision() -> None:
    ending = a_pod("b", deletionTimestamp="2026-11-30T12:00:00Z")
    ending["metadata"]["labels"][vocabulary.LABEL_REVISION] = "old"
    due = to_seconds("2026-11-30T12:00:00Z")
    assert leaving_of([ending, a_pod("a")], due + 60) == {"old"}
    assert leaving_of([ending, a_pod("a")], due + 600) == set(), "its node is gone, and nothing waits for it"


def test_a_deployment_that_cannot_make_pods_says_why() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "exceeded quota"}
    found = workload_of(
        {
            "metadata": {"labels": {vocabulary.LABEL_REVISION: "r"}},
            "spec": {"replicas": 3},
            "status": {"conditions": [condition]},
        }
    )
    assert (found.revision, found.desired, found.created, found.ready, found.message) == (
        "r",
        3,
        0,
        0,
        "exceeded quota",
    )


Answers = Callable[[list[dict[str, Any] | bytes | int]], None]


@pytest.fixture
async def ask(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Callable[..., Any]]:
    """Ask a server that gives these answers, one after the other."""
    given: list[Any] = []

    async def handle(request: web.Request) -> web.Response:
        answer = given.pop(0)
        if isinstance(answer, int):
            return web.Response(status=answer)
        return web.Response(body=answer if isinstance(answer, bytes) else json.dumps(answer).encode())

    app = web.Application()
    app.router.add_get("/v1/identity", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(vocabulary, "PORT", runner.addresses[0][1])

    async with aiohttp.ClientSession() as session:

        async def asked(*answers: Any, replica: Replica | None = None) -> Replica:
            given.extend(answers)
            replica = replica or a_replica(uid=UID, address="127.0.0.1", identity=None)
            (found,) = await HttpIdentities(session).read([replica])
            return found

        yield asked
    await runner.cleanup()


ADMITTED = IDENTITY["admitted"]


@pytest.mark.parametrize("name", ["starting", "admitted", "probeFailed", "cordonedAfterOrderedProbe"])
async def test_every_identity_of_the_contract_is_understood(ask: Callable[..., Any], name: str) -> None:
    found = (await ask(IDENTITY[name], IDENTITY[name])).identity
    assert (found.state, found.boot_id, found.fingerprint) == (
        IDENTITY[name]["state"],
        IDENTITY[name]["bootId"],
        IDENTITY[name]["fingerprint"],
    )


async def test_an_ordered_probe_is_told_with_what_failed(ask: Callable[..., Any]) -> None:
    said = IDENTITY["cordonedAfterOrderedProbe"]
    found = (await ask(said, said)).identity
    assert (found.probe_done.id, found.probe_done.result) == ("probe-2-1", ProbeResult.FAILED)
    assert (found.probe.order_id, found.probe.items[1].promised, found.probe.items[1].produced) == (
        "probe-2-1",
        391,
        256,
    )
    assert found.recent_violations[0].size.width == 640
    assert found.sharing_lost_since == to_seconds("2026-11-30T12:01:00Z")


@pytest.mark.parametrize(
    ("sentence", "answers"),
    [
        ("another boot at the second reading", [ADMITTED, ADMITTED | {"bootId": "other"}]),
        ("another fingerprint at the second reading", [ADMITTED, ADMITTED | {"fingerprint": "00" * 32}]),
        ("another state at the second reading", [ADMITTED, ADMITTED | {"state": "DRAINING"}]),
        ("no second answer", [ADMITTED, 500]),
        ("another pod at this address", [ADMITTED | {"podUid": "other"}]),
        ("an error", [500]),
        ("a redirect", [302]),
        ("no JSON", [b"<html>"]),
        ("no object", [b"[]"]),
        ("a field too few", [{key: value for key, value in ADMITTED.items() if key != "state"}]),
        ("a field of another type", [ADMITTED | {"recentViolations": 7}]),
        ("a number that is none", [json.dumps(IDENTITY["probeFailed"]).replace("64,", "1e999,").encode()]),
        ("an answer without end", [b" " * (300 * 1024)]),
    ],
)
async def test_what_is_not_confirmed_is_no_identity(ask: Callable[..., Any], sentence: str, answers: list[Any]) -> None:
    assert (await ask(*answers)).identity is None, sentence


async def test_a_replica_without_an_address_is_not_asked(ask: Callable[..., Any]) -> None:
    assert (await ask(replica=a_replica(address=None, identity=None))).identity is None


async def test_a_server_that_is_down_has_no_identity() -> None:
    async with aiohttp.ClientSession() as session:
        (found,) = await HttpIdentities(session).read([a_replica(address="127.0.0.1", identity=None)])
    assert found.identity is None
