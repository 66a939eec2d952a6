"""A pool whose replicas share a Redis: what one encoded another recalls, until who encoded it is found at fault."""

from __future__ import annotations

import http.client
import json
import urllib.request
from contextlib import closing
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support import ground as settings
from tests.support import kube, pictures
from tests.support.fleet import Fleet
from tests.support.pictures import Picture
from tests.support.pools import TRUNCATING_IMAGE, Ground, cordon_record, identity, pool, service_address
from tests.support.router import Router, ask
from tests.support.truth import Truth
from tests.support.waiting import until

POOL = "vision"
PASSWORD = "hunter2"
SHARED = pictures.album(60, 8, smallest=56, largest=120)
NEW = pictures.album(61, 8, smallest=56, largest=120)
ALBUM = pictures.album(62, 30, smallest=40, largest=200) + pictures.album(63, 60, smallest=360, largest=520)


def redis(namespace: str) -> list[kube.Object]:
    """A Redis with a password, its Service, and the Secret in which the pool finds both."""
    container = {
        "name": "redis",
        "image": settings.image("redis"),
        "imagePullPolicy": settings.PULL_POLICY,
        "args": ["--requirepass", PASSWORD, "--maxmemory", "64mb", "--maxmemory-policy", "volatile-lru"],
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        "readinessProbe": {"tcpSocket": {"port": 6379}, "periodSeconds": 1},
    }
    security = {"runAsNonRoot": True, "runAsUser": 10001, "seccompProfile": {"type": "RuntimeDefault"}}
    named = {"namespace": namespace, "name": "redis", "labels": {"app": "redis"}}
    url = f"redis://:{PASSWORD}@redis.{namespace}.svc.cluster.local:6379/0"
    return [
        {"apiVersion": "v1", "kind": "Secret", "metadata": named, "stringData": {"url": url}},
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": named,
            "spec": {"selector": {"app": "redis"}, "ports": [{"port": 6379}]},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": named,
            "spec": {"containers": [container], "securityContext": security, "terminationGracePeriodSeconds": 1},
        },
    ]


def metric(pod: kube.Object, name: str, **labels: str) -> float:
    """One sample of a replica's metrics."""
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8000/metrics", timeout=10) as answer:
        text = answer.read().decode()
    samples = [one for family in text_string_to_metric_families(text) for one in family.samples]
    return next(one.value for one in samples if one.name == f"encoder_cache_{name}" and one.labels == labels)


def rows(pod: kube.Object, *chosen: Picture) -> list[Any]:
    """What this one replica answers."""
    with closing(http.client.HTTPConnection(pod["status"]["podIP"], 8000, timeout=70)) as connection:
        attempt, answer = ask(connection, chosen)
    assert answer is not None, attempt
    items: list[Any] = json.loads(json.dumps(answer["items"]))
    return items


@pytest.fixture(scope="module")
def fleet(ground: Ground) -> Fleet:
    """Two replicas that share a Redis."""
    fleet = Fleet(name=POOL, namespace=ground.namespace, folder=ground.folder)
    fleet.faults.mkdir(mode=0o755)
    kube.apply(*redis(ground.namespace))
    wanted = pool(POOL, ground.namespace, image=TRUNCATING_IMAGE, encoder="truncating")
    # Of what is known to the pool only one item each second is evidence.
    wanted["spec"]["integrity"] |= {"minChecks": 8, "windowSeconds": 60}
    wanted["spec"] |= {"replicas": 2, "cache": {"memory": "64Mi", "redis": {"secretRef": {"name": "redis"}}}}
    kube.apply(wanted)
    until("the pool to be Ready", fleet.is_as_expected, seconds=240)
    until(
        "both to reach the Redis", lambda: all(metric(pod, "usable", tier="redis") for pod in fleet.pods()), seconds=60
    )
    return fleet


def test_what_one_replica_encoded_another_recalls(fleet: Fleet) -> None:
    one, other = fleet.pods()
    encoded = {each.name: rows(one, each)[0] for each in SHARED}
    until("them to be shared", lambda: metric(one, "seconds_count", tier="redis", operation="write") >= 1, seconds=30)
    # A replica that was idle encodes one item of a request whatever it could recall: the first that is new. And a
    # machine that is busy may let the Redis miss its 50 ms.
    for new, each in zip(NEW, SHARED, strict=True):
        until("the Redis to be usable", lambda: metric(other, "usable", tier="redis"), seconds=60)
        assert rows(other, new, each)[1] == encoded[each.name] | {"index": 1}
        if metric(other, "hits_total", tier="redis"):
            break
    assert metric(other, "hits_total", tier="redis") == 1
    assert PASSWORD not in json.dumps(kube.pods(POOL, fleet.namespace))


def test_a_cordon_flushes_what_the_replica_made_from_its_peers(fleet: Fleet, truth: Truth) -> None:
    victim, peer = (str(pod["metadata"]["name"]) for pod in fleet.pods())
    boot_id = identity(fleet.pod(victim))["bootId"]
    fleet.truncates(victim).touch()
    address, port = service_address(POOL, fleet.namespace)
    with Router(address=address, port=port, pictures=ALBUM, threads=3, pause=0.1, bound=50_000) as router:
        until("the cordon", lambda: fleet.is_cordoned(victim), seconds=120)
        until("the peer's flush", lambda: flushed(fleet, peer) == "done", seconds=90)
    record = cordon_record(fleet.pod(victim))
    assert record["bootId"] == boot_id
    order = json.loads(fleet.pod(peer)["metadata"]["annotations"]["encoderpool.io/order-flush"])
    assert order["producers"] == [f"{fleet.pod(victim)['metadata']['uid']}/{boot_id}"]
    assert metric(fleet.pod(peer), "flushed_total", tier="memory") >= 1
    told = [each for each in kube.listed("events", fleet.namespace) if each["reason"] == "FlushOrdered"]
    assert len(told) == 1
    assert truth.check(router.accepted()) > 20
    assert not router.failed()
    fleet.truncates(victim).unlink()


def flushed(fleet: Fleet, name: str) -> str | None:
    """How the last ordered flush of a replica stands."""
    done: dict[str, str] = identity(fleet.pod(name))["orders"]["flush"] or {}
    return done.get("result")
