"""The pool as others handle it: kubectl scale, an autoscaler, a node's drain."""

from __future__ import annotations

import json
from functools import partial

from tests.support import kube
from tests.support.fleet import Fleet
from tests.support.waiting import until

EVICTED, REFUSED = "Success", "would violate the pod's disruption budget"


def test_kubectl_scale_sets_the_number_of_replicas(fleet: Fleet) -> None:
    for count in (2, 3):
        kube.kubectl("-n", fleet.namespace, "scale", "encp", fleet.name, f"--replicas={count}")
        until(f"{count} replicas", partial(has_replicas, fleet, count), seconds=60)
        until("the pool to be as expected", partial(serves, fleet, count), seconds=120)


def test_the_selector_of_the_scale_names_the_pools_pods_alone(fleet: Fleet) -> None:
    found = kube.listed("pods", fleet.namespace, scale(fleet)["status"]["selector"])
    assert {pod["metadata"]["name"] for pod in found} == {pod["metadata"]["name"] for pod in fleet.pods()}
    assert len(found) == 3


def test_an_autoscaler_can_read_and_set_the_scale(fleet: Fleet) -> None:
    kube.apply(autoscaler(fleet))
    try:
        able = until("the autoscaler to have read the scale", lambda: able_to_scale(fleet), seconds=90)
    finally:
        kube.kubectl("-n", fleet.namespace, "delete", "horizontalpodautoscaler", fleet.name)
    assert able["status"] == "True", able
    assert fleet.is_as_expected()


def test_a_drain_takes_a_cordoned_replica_and_not_a_serving_one_beside_it(fleet: Fleet) -> None:
    names = [str(pod["metadata"]["name"]) for pod in fleet.pods()]
    kube.kubectl("-n", fleet.namespace, "label", "pod", names[0], "encoderpool.io/serving=false", "--overwrite")
    until("the replica not to be Ready", lambda: not kube.is_ready(fleet.pod(names[0])), seconds=60)
    until("the budget to be spent", lambda: disruptions_allowed(fleet) == 0, seconds=30)
    assert REFUSED in evict(fleet, names[1])
    assert EVICTED in evict(fleet, names[0])
    until("the replica to be gone", lambda: not kube.get("pod", names[0], fleet.namespace), seconds=90)
    until("the pool to be as expected", partial(serves, fleet, 3), seconds=120)


def scale(fleet: Fleet) -> kube.Object:
    """The scale subresource."""
    path = f"/apis/encoderpool.io/v1alpha1/namespaces/{fleet.namespace}/encoderpools/{fleet.name}/scale"
    found: kube.Object = json.loads(kube.kubectl("get", "--raw", path))
    return found


def has_replicas(fleet: Fleet, count: int) -> bool:
    """Whether the scale counts so many."""
    return bool(scale(fleet)["status"]["replicas"] == count)


def serves(fleet: Fleet, count: int) -> bool:
    """Whether the pool is as expected, with so many replicas that serve."""
    found = kube.get("encoderpool", fleet.name, fleet.namespace) or {}
    return fleet.is_as_expected() and bool(found["status"]["servingReplicas"] == count == len(fleet.pods()))


def autoscaler(fleet: Fleet) -> kube.Object:
    """An autoscaler of the pool that has no choice."""
    target = {"type": "Utilization", "averageUtilization": 50}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": fleet.name, "namespace": fleet.namespace},
        "spec": {
            "scaleTargetRef": {"apiVersion": "encoderpool.io/v1alpha1", "kind": "EncoderPool", "name": fleet.name},
            "minReplicas": 3,
            "maxReplicas": 3,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def able_to_scale(fleet: Fleet) -> kube.Object | None:
    """The autoscaler's condition of this name, once it has one."""
    found = kube.get("horizontalpodautoscaler", fleet.name, fleet.namespace) or {}
    conditions = found.get("status", {}).get("conditions") or []
    return next((each for each in conditions if each["type"] == "AbleToScale"), None)


def disruptions_allowed(fleet: Fleet) -> int:
    """How many evictions of serving replicas would be let through now."""
    found = kube.get("poddisruptionbudget", fleet.name, fleet.namespace) or {}
    return int(found.get("status", {}).get("disruptionsAllowed", -1))


def evict(fleet: Fleet, name: str) -> str:
    """Ask for a pod's eviction, as a drain does; what the API server answers."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": fleet.namespace}}
    path = f"/api/v1/namespaces/{fleet.namespace}/pods/{name}/eviction"
    return kube.kubectl("create", "--raw", path, "-f", "-", given=json.dumps(eviction), check=False)
