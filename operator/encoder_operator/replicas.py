"""Replicas: what pods and Deployments say, as values.

Place: called by observe; pure. Must never: ask anybody, or count a pod that is on its way out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.observation import Replica, Workload
from encoder_operator.obstacles import obstacle_of
from encoder_operator.orders import parse_flush, parse_order, parse_question, parse_record
from encoder_operator.timestamps import to_seconds

JsonObject = Mapping[str, Any]

_FINISHED = ("Succeeded", "Failed")
_OVERDUE_SECONDS = 600.0


def replicas_of(pods: Iterable[JsonObject]) -> tuple[Replica, ...]:
    """The pods that are neither terminating nor finished, by name; identity and counts are not known yet."""
    here = (pod for pod in pods if not _is_leaving(pod))
    return tuple(sorted(map(_replica, here), key=lambda each: each.name))


def leaving_of(pods: Iterable[JsonObject], now: float) -> frozenset[str]:
    """The revisions of which a pod is ending: until it has, what it was given is not free. One that is long overdue
    is on a node that is gone, and ends when a person says so: nobody waits for that."""
    ending = [pod for pod in pods if _is_leaving(pod) and (pod.get("status") or {}).get("phase") not in _FINISHED]
    return frozenset(_revision(pod) for pod in ending if not _is_overdue(pod, now))


def workload_of(deployment: JsonObject) -> Workload:
    """A revision's Deployment as a value."""
    status = deployment.get("status") or {}
    labels: Mapping[str, str] = deployment["metadata"].get("labels") or {}
    return Workload(
        revision=labels.get(vocabulary.LABEL_REVISION, ""),
        desired=int(deployment["spec"].get("replicas", 1)),
        created=int(status.get("replicas") or 0),
        ready=int(status.get("readyReplicas") or 0),
        message=_why_stuck(status),
    )


def _is_leaving(pod: JsonObject) -> bool:
    leaving = pod["metadata"].get("deletionTimestamp") is not None
    return leaving or (pod.get("status") or {}).get("phase") in _FINISHED


def _is_overdue(pod: JsonObject, now: float) -> bool:
    """The API server's deletionTimestamp is when the pod's grace ends."""
    due = pod["metadata"].get("deletionTimestamp")
    return due is not None and now - to_seconds(due) >= _OVERDUE_SECONDS


def _replica(pod: JsonObject) -> Replica:
    metadata, status = pod["metadata"], pod.get("status") or {}
    labels: Mapping[str, str] = metadata.get("labels") or {}
    annotations: Mapping[str, str] = metadata.get("annotations") or {}
    container, ready = _container(status), _ready(status)
    return Replica(
        name=metadata["name"],
        uid=metadata["uid"],
        revision=_revision(pod),
        address=status.get("podIP"),
        serving=labels.get(vocabulary.LABEL_SERVING) == vocabulary.SERVING,
        ready_since=None if ready is None else to_seconds(ready["lastTransitionTime"]),
        created_at=to_seconds(metadata["creationTimestamp"]),
        container_started_at=_started_at(container),
        restarts=int(container.get("restartCount") or 0),
        obstacle=obstacle_of(status, container),
        unschedulable=_why_unschedulable(status),
        cordon=parse_record(annotations.get(vocabulary.ANNOTATION_CORDON)),
        probe_order=parse_order(annotations.get(vocabulary.ANNOTATION_ORDER_PROBE)),
        question=parse_question(annotations.get(vocabulary.ANNOTATION_ORDER_PROBE)),
        restart_order=parse_order(annotations.get(vocabulary.ANNOTATION_ORDER_RESTART)),
        flush_order=parse_flush(annotations.get(vocabulary.ANNOTATION_ORDER_FLUSH)),
        expected_digest=annotations.get(vocabulary.ANNOTATION_EXPECTED_DIGEST),
        hand_cordon=annotations.get(vocabulary.ANNOTATION_HAND_CORDON),
        hand_release=annotations.get(vocabulary.ANNOTATION_HAND_RELEASE),
        skip=annotations.get(vocabulary.ANNOTATION_SKIP),
        identity=None,
        counts=None,
    )


def _ready(status: JsonObject) -> JsonObject | None:
    """The pod's condition Ready, where it is true."""
    conditions = status.get("conditions") or ()
    return next((each for each in conditions if each["type"] == "Ready" and each["status"] == "True"), None)


def _revision(pod: JsonObject) -> str:
    labels: Mapping[str, str] = pod["metadata"].get("labels") or {}
    return labels.get(vocabulary.LABEL_REVISION, "")


def _why_unschedulable(status: JsonObject) -> str | None:
    """What the scheduler says of a pod for which it finds no node."""
    for each in status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False" and each.get("reason") == "Unschedulable":
            return str(each.get("message") or each["reason"])
    return None


def _container(status: JsonObject) -> JsonObject:
    containers: list[JsonObject] = status.get("containerStatuses") or []
    return next((each for each in containers if each["name"] == vocabulary.CONTAINER), {})


def _started_at(container: JsonObject) -> float | None:
    text = ((container.get("state") or {}).get("running") or {}).get("startedAt")
    return None if text is None else to_seconds(text)


def _why_stuck(status: JsonObject) -> str | None:
    """What the Deployment's own conditions say of progress that will not come by itself."""
    for each in status.get("conditions") or ():
        if each["type"] == "ReplicaFailure" and each["status"] == "True":
            return str(each.get("message", each["type"]))
        if each["type"] == "Progressing" and each["status"] == "False":
            return str(each.get("message", each["type"]))
    return None
