"""The operator without Prometheus: it scrapes for itself, may be killed at any time, and outlives the API server."""

from __future__ import annotations

import json
import time
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import ground, kube, pictures
from tests.support.fleet import Fleet
from tests.support.pools import (
    EVALUATION_SECONDS,
    OPERATOR_NAMESPACE,
    cordon_record,
    install_chart,
    reason_is,
    service_address,
)
from tests.support.router import Router
from tests.support.truth import Truth
from tests.support.waiting import until

ALBUM = pictures.album(21, 20, smallest=40, largest=200) + pictures.album(22, 20, smallest=360, largest=520)
CHILDREN = "deployments,services,configmaps,serviceaccounts,pods,encoderpools"
SELDOM = 900
WINDOW_SECONDS = 60
OPERATOR = "app.kubernetes.io/name=encoderpool-operator"


@pytest.fixture(scope="module", autouse=True)
def scrapes_itself(fleet: Fleet) -> Iterator[None]:
    """The chart without an address, a window that a slow machine fills too, and so much time between attempts that a
    cordon rests."""
    install_chart(prometheus_address="")
    set_evaluation(fleet, seconds=EVALUATION_SECONDS, window=WINDOW_SECONDS)
    set_pace(fleet, base_seconds=600, max_seconds=600)
    yield
    set_evaluation(fleet, seconds=EVALUATION_SECONDS, window=30)
    set_pace(fleet, base_seconds=5, max_seconds=15)
    install_chart(prometheus_address=ground.PROMETHEUS_INSIDE)


def test_killed_right_after_a_cordon_it_goes_on_where_it_was(fleet: Fleet, truth: Truth) -> None:
    name = replica(fleet, 1)
    with traffic(fleet) as router:
        until("enough traffic to compare with", lambda: len(router.accepted()) > 100, seconds=120)
        fleet.truncates(name).touch()
        until("a client to meet it", lambda: [one for _, one in router.attempts() if one.status == 502], seconds=60)
        until("the replica to be cordoned", lambda: fleet.is_cordoned(name), seconds=180)
        kill_operator()
    assert not router.failed()
    assert truth.check(router.accepted()) > 100
    restarts = fleet.restarts()[name]

    until("the attempt to have failed", lambda: record(fleet, name)["nextAttemptAt"], seconds=120)
    assert (record(fleet, name)["times"], record(fleet, name)["attempt"]) == (1, 1)
    assert fleet.restarts()[name] - restarts <= 1
    assert reason_is(fleet.name, fleet.namespace, "TokenMismatch", name)
    assert [event["count"] for event in told(fleet, "Cordoned", name)] == [1]


def test_a_new_operator_writes_nothing_where_nothing_changed(fleet: Fleet) -> None:
    before = at_rest(fleet)
    kill_operator()
    until("some passes of the new operator", lambda: passes() > 3, seconds=90)
    assert state(fleet) == before


def test_a_label_set_back_by_hand_is_respected(fleet: Fleet) -> None:
    name = replica(fleet, 1)
    fleet.truncates(name).unlink()
    kube.kubectl("-n", fleet.namespace, "label", "pod", name, "encoderpool.io/serving=true", "--overwrite")
    until("the pool to be as expected", fleet.is_as_expected, seconds=60)
    assert record(fleet, name)["state"] == "Released"


def test_a_control_plane_that_is_killed_amid_a_cordon_is_outlived(fleet: Fleet, truth: Truth) -> None:
    name, process = replica(fleet, 2), operator_process()
    restarts = fleet.restarts()[name]
    with traffic(fleet) as router:
        until("enough traffic to compare with", lambda: len(router.accepted()) > 100, seconds=120)
        fleet.truncates(name).touch()
        until("the replica to be cordoned", lambda: fleet.is_cordoned(name), seconds=180)
        kube.run(*ground.RESTART_CONTROL_PLANE)
        until("the API server to be back", api_server_is_ready, seconds=120)
        until("the attempt to have failed", lambda: record(fleet, name)["nextAttemptAt"], seconds=120)
    assert not router.failed(), "who is served needs no API server"
    assert truth.check(router.accepted()) > 100
    assert (record(fleet, name)["times"], record(fleet, name)["attempt"]) == (1, 1)
    assert fleet.restarts()[name] - restarts <= 1
    assert [event["count"] for event in told(fleet, "Cordoned", name)] == [1]
    assert operator_process() == process, "it went on by itself"


def test_after_that_it_hears_again_of_pools_and_pods_without_looking_for_itself(fleet: Fleet) -> None:
    name = replica(fleet, 2)
    fleet.truncates(name).unlink()
    set_evaluation(fleet, seconds=SELDOM, window=4 * SELDOM)
    until("the operator to have settled on it", lambda: is_observed(fleet), seconds=30)
    set_pace(fleet, base_seconds=500, max_seconds=600)
    until("the pool's change to be heard", lambda: is_observed(fleet), seconds=30)
    hand_release = "encoderpool.io/hand-release=it is good again"
    kube.kubectl("-n", fleet.namespace, "annotate", "pod", name, hand_release)
    until("the pod's change to be heard", lambda: record(fleet, name)["state"] == "Released", seconds=30)
    assert "encoderpool.io/hand-release" not in fleet.pod(name)["metadata"]["annotations"]
    set_evaluation(fleet, seconds=EVALUATION_SECONDS, window=WINDOW_SECONDS)
    until("the pool to be as expected", fleet.is_as_expected, seconds=60)


def replica(fleet: Fleet, index: int) -> str:
    """A replica's name."""
    return str(fleet.pods()[index]["metadata"]["name"])


def record(fleet: Fleet, name: str) -> dict[str, Any]:
    """The operator's record on the replica."""
    return cordon_record(fleet.pod(name))


def traffic(fleet: Fleet) -> Router:
    """A router that sends small and large pictures."""
    address, port = service_address(fleet.name, fleet.namespace)
    return Router(address=address, port=port, pictures=ALBUM, threads=4, pause=0.1, bound=50_000)


def set_pace(fleet: Fleet, *, base_seconds: int, max_seconds: int) -> None:
    """Set the time between attempts to release."""
    change = {"spec": {"quarantine": {"baseSeconds": base_seconds, "maxSeconds": max_seconds}}}
    kube.kubectl(
        *("-n", fleet.namespace, "patch", "encoderpool", fleet.name, "--type=merge", "--patch", json.dumps(change))
    )


def set_evaluation(fleet: Fleet, *, seconds: int, window: int) -> None:
    """Set the time from one look at the pool to the next that nothing has caused, and the window (seconds)."""
    change = {"spec": {"integrity": {"evaluationSeconds": seconds, "windowSeconds": window}}}
    kube.kubectl(
        *("-n", fleet.namespace, "patch", "encoderpool", fleet.name, "--type=merge", "--patch", json.dumps(change))
    )


def is_observed(fleet: Fleet) -> bool:
    """Whether the operator has seen the pool's spec as it is now."""
    found = kube.get("encoderpool", fleet.name, fleet.namespace) or {}
    return bool(found["status"]["observedGeneration"] == found["metadata"]["generation"])


def api_server_is_ready() -> bool:
    """Whether it says so."""
    return kube.kubectl("get", "--raw", "/readyz", check=False) == "ok"


def operator_process() -> tuple[str, int]:
    """Which pod the operator is, and how often its container was started again."""
    (pod,) = kube.listed("pods", OPERATOR_NAMESPACE, OPERATOR)
    return pod["metadata"]["uid"], pod["status"]["containerStatuses"][0]["restartCount"]


def kill_operator() -> None:
    """Kill its pod without a word, and wait for the next one."""
    kube.kubectl("-n", OPERATOR_NAMESPACE, "delete", "pod", "-l", OPERATOR, "--force", "--grace-period=0")
    kube.kubectl("-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment/encoderpool", "--timeout=90s")


def passes() -> int:
    """How many passes over pools the operator has made since it started."""
    (pod,) = kube.listed("pods", OPERATOR_NAMESPACE, OPERATOR)
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8080/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    return sum(int(float(line.split()[1])) for line in lines if line.startswith("encoderpool_reconcile_seconds_count"))


def told(fleet: Fleet, reason: str, name: str) -> list[kube.Object]:
    """The pool's events of this reason about this replica."""
    found = json.loads(
        kube.kubectl("-n", fleet.namespace, "get", "events", f"--field-selector=reason={reason}", "-o", "json")
    )
    return [event for event in found["items"] if event["message"].startswith(name)]


def state(fleet: Fleet) -> dict[str, str]:
    """The version of the pool, of all that belongs to it, and of each event about it."""
    found = json.loads(kube.kubectl("-n", fleet.namespace, "get", f"{CHILDREN},events", "-o", "json"))["items"]
    return {f"{each['kind']}/{each['metadata']['name']}": each["metadata"]["resourceVersion"] for each in found}


def at_rest(fleet: Fleet) -> dict[str, str]:
    """The state once nothing has changed for some evaluations."""
    seen, since = state(fleet), time.monotonic()

    def rests() -> bool:
        nonlocal seen, since
        now = state(fleet)
        if now != seen:
            seen, since = now, time.monotonic()
        return time.monotonic() - since > 10

    until("nothing to change any more", rests, seconds=120)
    return seen
