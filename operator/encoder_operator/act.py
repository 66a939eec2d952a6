"""Act: carry out what cordon decided, and let replicas read what is newly expected of them.

Place: reconcile calls it between cordon and status. Must never: decide, or write to a pod more than one patch for
one action: label, record and order change together, so that dying between two actions loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from encoder_operator import vocabulary
from encoder_operator.actions import (
    Action,
    AskPeer,
    Cordon,
    Dismiss,
    Evict,
    OrderFlush,
    OrderProbe,
    OrderRestart,
    Postpone,
    Recorded,
    Release,
)
from encoder_operator.cluster import Cluster
from encoder_operator.errors import ConflictError, EvictionBlockedError
from encoder_operator.observation import Order, Replica
from encoder_operator.orders import render_flush, render_probe, render_record, render_restart

_log = logging.getLogger(__name__)

_LONGEST_REFUSAL = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class PodPatch:
    """Labels and annotations to set on a pod (None removes)."""

    labels: Mapping[str, str | None] = field(hash=False)
    annotations: Mapping[str, str | None] = field(hash=False)


def patch_of(action: Action) -> PodPatch:
    """An action as the one patch that carries it out."""
    labels: dict[str, str | None] = {}
    annotations: dict[str, str | None] = {}
    if isinstance(action, Recorded):
        annotations[vocabulary.ANNOTATION_CORDON] = render_record(action.record)
    match action:
        case Cordon():
            labels[vocabulary.LABEL_SERVING] = vocabulary.NOT_SERVING
        case OrderRestart():
            annotations[vocabulary.ANNOTATION_ORDER_RESTART] = render_restart(action.order)
        case OrderProbe():
            annotations[vocabulary.ANNOTATION_ORDER_PROBE] = render_probe(action.order, action.record.sizes)
        case Release():
            labels[vocabulary.LABEL_SERVING] = vocabulary.SERVING
            annotations[vocabulary.ANNOTATION_ORDER_PROBE] = None
            annotations[vocabulary.ANNOTATION_ORDER_RESTART] = None
            annotations[vocabulary.ANNOTATION_HAND_RELEASE] = None
        case AskPeer(question=question):
            order = Order(id=question.id, boot_id=question.boot_id)
            annotations[vocabulary.ANNOTATION_ORDER_PROBE] = render_probe(order, question.sizes)
        case OrderFlush():
            annotations[vocabulary.ANNOTATION_ORDER_FLUSH] = render_flush(action.order)
        case Dismiss():
            annotations[vocabulary.ANNOTATION_HAND_RELEASE] = None
        case Postpone() | Evict():
            pass
    return PodPatch(labels=labels, annotations=annotations)


async def act(cluster: Cluster, namespace: str, actions: Sequence[Action]) -> tuple[Action, ...]:
    """Carry out the actions; returns those that took hold. A pod that was replaced meanwhile is seen next time."""
    done = []
    for action in actions:
        if isinstance(action, Evict):
            held = await _evict(cluster, namespace, action)
        else:
            held = await _patch(cluster, namespace, action.replica, patch_of(action))
        if held:
            done.append(action)
    return tuple(done)


async def refresh(cluster: Cluster, namespace: str, stale: Sequence[tuple[Replica, str]]) -> None:
    """Annotate each pod with the digest of its expectation: the kubelet then refreshes its files at once."""
    for replica, digest in stale:
        patch = PodPatch(labels={}, annotations={vocabulary.ANNOTATION_EXPECTED_DIGEST: digest})
        await _patch(cluster, namespace, replica, patch)


async def _evict(cluster: Cluster, namespace: str, action: Evict) -> bool:
    replica = action.replica
    try:
        await cluster.evict_pod(namespace, replica.name, replica.uid)
    except ConflictError as error:
        _tell_of_another(namespace, replica, error)
        return False
    except EvictionBlockedError as error:
        where = {"namespace": namespace, "pod": replica.name}
        _log.warning("pod %s/%s may not be evicted now: %s", *where.values(), error, extra=where)
        postponed = replace(action.postponed, eviction_blocked=str(error)[:_LONGEST_REFUSAL])
        annotations = {vocabulary.ANNOTATION_CORDON: render_record(postponed)}
        await _patch(cluster, namespace, replica, PodPatch(labels={}, annotations=annotations))
        return False
    return True


async def _patch(cluster: Cluster, namespace: str, replica: Replica, patch: PodPatch) -> bool:
    try:
        await cluster.patch_pod(namespace, replica.name, replica.uid, patch.labels, patch.annotations)
    except ConflictError as error:
        _tell_of_another(namespace, replica, error)
        return False
    return True


def _tell_of_another(namespace: str, replica: Replica, error: ConflictError) -> None:
    where = {"namespace": namespace, "pod": replica.name}
    _log.info("pod %s/%s is another one by now: %s", *where.values(), error, extra=where)
