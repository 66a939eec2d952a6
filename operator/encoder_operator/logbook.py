"""Logbook: what a pass decided, as lines of the log and as the operator's own metrics.

Place: reconcile writes it once actions took hold. Must never: decide, or tell an action that did not take hold.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

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
from encoder_operator.metrics import Metrics
from encoder_operator.observation import Observation
from encoder_operator.spec import EncoderPool
from encoder_operator.verdict import Judgement

_log = logging.getLogger(__name__)

_DONE: dict[type[Recorded], str] = {
    Cordon: "cordoned",
    Release: "released",
    OrderRestart: "ordered a restart of",
    OrderProbe: "ordered a probe of",
    Postpone: "an attempt to repair failed, another will follow, for",
    Evict: "evicted",
}


def write(
    pool: EncoderPool, observation: Observation, judgement: Judgement, done: Sequence[Action], metrics: Metrics
) -> None:
    """Log and count what was judged and done."""
    metrics.cordoned.labels(pool.namespace, pool.name).set(sum(not each.serving for each in observation.replicas))
    if observation.evidence_problem is not None:
        metrics.evidence_problems.inc()
    where = {"namespace": pool.namespace, "pool": pool.name}
    found = judgement.pool
    _log.debug("%s: %s", found.reason, found.message, extra={**where, "reason": found.reason})
    for action in done:
        _count(action, metrics)
        _tell(action, {**where, "pod": action.replica.name})


def _count(action: Action, metrics: Metrics) -> None:
    match action:
        case Cordon():
            metrics.cordons.labels(action.record.reason).inc()
        case Release():
            metrics.releases.labels(action.record.reason).inc()
        case Evict():
            metrics.evictions.inc()
        case _:
            pass


def _tell(action: Action, details: dict[str, object]) -> None:
    name = action.replica.name
    match action:
        case Dismiss():
            pass
        case OrderFlush(order=order):
            extra = {**details, "order_id": order.id, "producers": list(order.producers)}
            _log.info("ordered %s to flush its cache of what %s made", name, ", ".join(order.producers), extra=extra)
        case AskPeer(question=question, suspect=suspect, reason=reason):
            extra = {**details, "reason": reason, "order_id": question.id}
            _log.info("asked %s for a second opinion on %s", name, suspect, extra=extra)
        case _:
            extra = {**details, "reason": action.record.reason, "attempt": action.record.attempt}
            _log.info("%s %s: %s", _DONE[type(action)], name, action.record.message, extra=extra)
