"""Accelerators are scarce: a pool says that it lacks one, and a rollout frees the one that there is."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.support import kube
from tests.support.pools import SERVER_IMAGE, Ground, pool, reason_is
from tests.support.waiting import until

POOL = "accelerated"
RESOURCE = "nvidia.com/gpu"


@pytest.fixture(scope="module", autouse=True)
def none_to_begin_with() -> Iterator[None]:
    """Nodes that offer no accelerator, before and after."""
    offer(None)
    yield
    offer(None)


def test_without_an_accelerator_the_pool_says_so_and_with_one_it_serves(ground: Ground) -> None:
    kube.apply(accelerated(ground, max_in_flight=64))
    wanting = f"Insufficient {RESOURCE}"
    until("the lack", lambda: reason_is(POOL, ground.namespace, "NoSpareAccelerator", wanting), seconds=60)
    offer(1)
    until("the pool to be Ready", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=180)


def test_a_single_replica_gives_its_only_accelerator_to_its_successor(ground: Ground) -> None:
    (before,) = kube.pods(POOL, ground.namespace)
    kube.apply(accelerated(ground, max_in_flight=32))
    until("the lack", lambda: reason_is(POOL, ground.namespace, "NoSpareAccelerator"), seconds=60)
    until(
        "the old replica to go", lambda: not kube.get("pod", before["metadata"]["name"], ground.namespace), seconds=120
    )
    until("the new one to serve", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=180)
    (after,) = kube.pods(POOL, ground.namespace)
    assert revision(after) != revision(before)
    until("the old revision to be pruned", lambda: len(deployments(ground)) == 1, seconds=60)


def accelerated(ground: Ground, *, max_in_flight: int) -> kube.Object:
    """One replica that asks for one accelerator, of which there is nothing but the name."""
    wanted = pool(POOL, ground.namespace, image=SERVER_IMAGE, encoder="Auto")
    wanted["spec"] |= {
        "replicas": 1,
        "accelerator": {"resourceName": RESOURCE},
        "server": {"device": "CPU", "maxInFlight": max_in_flight},
    }
    return wanted


def offer(count: int | None) -> None:
    """Let the first node offer so many accelerators, as a device plugin would tell of them."""
    (node, *_) = json.loads(kube.kubectl("get", "nodes", "-o", "json"))["items"]
    offered = {RESOURCE: None if count is None else str(count)}
    patch = json.dumps({"status": {"capacity": offered, "allocatable": offered}})
    name = node["metadata"]["name"]
    kube.kubectl("patch", "node", name, "--subresource=status", "--type=merge", "--patch", patch)


def revision(pod: kube.Object) -> str:
    """The revision that a replica is of."""
    return str(pod["metadata"]["labels"]["encoderpool.io/revision"])


def deployments(ground: Ground) -> list[kube.Object]:
    """The pool's Deployments."""
    return kube.listed("deployments", ground.namespace, f"encoderpool.io/pool={POOL}")
