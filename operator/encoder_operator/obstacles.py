"""Obstacles: why Kubernetes does not run a replica's container, in the words of its pod.

Place: called by replicas; pure. Must never: guess a cause that the pod does not tell, or say more of an obstacle
than that it stands.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoder_operator.observation import Obstacle

JsonObject = Mapping[str, Any]

# What a container waits for on its way up; whatever else it waits for has gone wrong.
_ON_THE_WAY = ("ContainerCreating", "PodInitializing")
_LONGEST = 300


def obstacle_of(pod_status: JsonObject, container: JsonObject) -> Obstacle | None:
    """What keeps this pod's container from running; None where it runs, or nothing is told."""
    return _unscheduled(pod_status) or _waiting(container) or _ended(container)


def _unscheduled(pod_status: JsonObject) -> Obstacle | None:
    for each in pod_status.get("conditions") or ():
        if each["type"] == "PodScheduled" and each["status"] == "False":
            told = _told("no node takes it", each.get("message") or each.get("reason"))
            return Obstacle(message=told, lasting=True)
    return None


def _waiting(container: JsonObject) -> Obstacle | None:
    waiting = (container.get("state") or {}).get("waiting")
    if waiting is None:
        return None
    reason = str(waiting.get("reason") or "unknown")
    if reason in _ON_THE_WAY:
        return Obstacle(message=f"container is waiting: {reason}", lasting=False)
    last = (container.get("lastState") or {}).get("terminated")
    detail = waiting.get("message") if last is None else _ending(last)
    return Obstacle(message=_told(f"container is waiting: {reason}", detail), lasting=True)


def _ended(container: JsonObject) -> Obstacle | None:
    terminated = (container.get("state") or {}).get("terminated")
    return (
        None if terminated is None else Obstacle(message=_told("container ended", _ending(terminated)), lasting=False)
    )


def _ending(terminated: JsonObject) -> str:
    ending = f"{terminated.get('reason') or 'ended'} with exit code {terminated.get('exitCode')}"
    return _told(ending, terminated.get("message"))


def _told(what: str, detail: object) -> str:
    words = " ".join(str(detail or "").split())
    return f"{what}: {words}"[:_LONGEST] if words else what
