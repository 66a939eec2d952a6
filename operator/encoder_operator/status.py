"""Status: what the pool's user is told.

Place: the last step; reconcile writes it when it differs from what is there. Must never: change for an
unchanged world, copy a child's generation, or say what was not observed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoder_operator import names, vocabulary
from encoder_operator.budget import serves
from encoder_operator.conditions import conditions, with_transitions
from encoder_operator.cordon import CordonPlan
from encoder_operator.observation import CordonState, Observation, Replica
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Revision, Role, Standing
from encoder_operator.timestamps import to_text
from encoder_operator.verdict import Judgement, Result

JsonObject = dict[str, Any]

_MOST_CORDONED = 20


def status(
    pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement, decided: CordonPlan
) -> JsonObject:
    """The pool's whole new status."""
    replicas = observation.replicas
    target = names.revision_hash(pool.spec)
    cordoned = sorted((each for each in replicas if not each.serving), key=_worst_first)
    made: JsonObject = {
        "observedGeneration": pool.generation,
        "replicas": len(replicas),
        "readyReplicas": sum(each.ready for each in replicas),
        "servingReplicas": sum(serves(each) for each in replicas),
        "updatedReplicas": sum(each.revision == target for each in replicas),
        "heldReplicas": sum(_is_held(each) for each in replicas),
        "cordonedReplicas": len(cordoned),
        "selector": f"{vocabulary.LABEL_POOL}={pool.name}",
        **_serving_revision(standing, target),
        "revisions": [_revision(each) for each in (*standing.revisions, *standing.past.rejected)],
        "cordoned": [_cordoned(each) for each in cordoned[:_MOST_CORDONED]],
        "cordonedTruncated": max(0, len(cordoned) - _MOST_CORDONED),
        "conditions": conditions(pool, standing, observation, judgement, decided),
    }
    if standing.past.retried is not None:
        made["retried"] = standing.past.retried
    verdict = _verdict(pool.status, observation, judgement)
    return made if verdict is None else {**made, "verdict": verdict}


def refused(status: Mapping[str, Any], generation: int, reason: str, message: str, now: float) -> JsonObject:
    """The status of a pool whose spec cannot be honoured: as it was, but for Ready and its generation."""
    ready = with_transitions(status, generation, now, [("Ready", "False", reason, message)])
    others = [dict(each) for each in status.get("conditions", ()) if each.get("type") != "Ready"]
    return {**status, "observedGeneration": generation, "conditions": ready + others}


def _is_held(replica: Replica) -> bool:
    return replica.identity is not None and replica.identity.state == vocabulary.STATE_HELD


def _worst_first(replica: Replica) -> tuple[int, float, str]:
    record = replica.cordon
    return (-record.times, record.since, replica.name) if record else (0, 0.0, replica.name)


def _serving_revision(standing: Standing, target: str) -> JsonObject:
    current = next((each for each in standing.revisions if each.role is not Role.TARGET), None)
    shown = current or next((each for each in standing.revisions if each.hash == target), None)
    if shown is None:
        return {"revision": target}
    found: JsonObject = {"revision": shown.hash}
    return found if shown.expected is None else {**found, "fingerprint": shown.expected.fingerprint}


def _revision(revision: Revision) -> JsonObject:
    made: JsonObject = {
        "hash": revision.hash,
        "role": revision.role.value,
        "distinctIdentities": revision.distinct_identities,
        "reason": revision.reason,
        "since": revision.since,
    }
    if revision.replaced.attempts:
        made["attempts"] = revision.replaced.attempts
    if revision.replaced.uid is not None and revision.replaced.at is not None:
        made |= {"replacing": revision.replaced.uid, "replacedAt": revision.replaced.at}
    if revision.scale is not None:
        made["replicas"] = revision.scale
    if revision.expected is not None:
        made["fingerprint"] = revision.expected.fingerprint
        made["identityPolicy"] = (IdentityPolicy.PINNED if revision.pinned else IdentityPolicy.LEARN).value
        if revision.expected.signature is not None:
            made["signature"] = revision.expected.signature
    return made


def _cordoned(replica: Replica) -> JsonObject:
    record = replica.cordon
    if record is None or record.state is CordonState.RELEASED:
        return {"name": replica.name, "message": f"label {vocabulary.LABEL_SERVING} was set by a person"}
    return {
        "name": replica.name,
        "reason": record.reason,
        "message": record.message,
        "times": record.times,
        "since": to_text(record.since),
    }


def _verdict(before: Mapping[str, Any], observation: Observation, judgement: Judgement) -> JsonObject | None:
    """The last verdict that was bad; its time is when the pool was first found so."""
    last: Mapping[str, Any] | None = before.get("verdict")
    found = judgement.pool
    if found.result is not Result.BAD:
        return None if last is None else dict(last)
    reasons = [each.get("reason") for each in before.get("conditions", ()) if each.get("type") == "Ready"]
    stands = last is not None and last.get("reason") == found.reason and found.reason in reasons
    return {
        "scope": found.scope.value,
        "result": found.result.value,
        "reason": found.reason,
        "message": found.message,
        "at": last["at"] if last is not None and stands else to_text(observation.at),
    }
