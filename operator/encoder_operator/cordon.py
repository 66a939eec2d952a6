"""Cordon: what to do about the verdicts now, and when to look again.

Place: judge → **cordon** → act. Must never: touch a replica that is held, or a cordon that is not the operator's
own; release by time alone; or remember anything that is not on the pod: the operator may die after any step.

A cordon takes one replica out of its pool's Service without deleting it (Kubernetes uses the word for nodes;
nodes are never touched). The ladder, each rung read from the pod's record and the replica's identity:

    cordon → restart in place → (another boot is up and is as expected) → probe of the sizes that failed
      passed → release                    failed → wait base * attempt, then restart again
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from encoder_operator import vocabulary
from encoder_operator.likeness import difference
from encoder_operator.observation import (
    CordonRecord,
    CordonState,
    Identity,
    Observation,
    Order,
    ProbeResult,
    Replica,
    Size,
)
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Expected, Standing
from encoder_operator.verdict import Judgement, Result, Scope, Verdict

_CORDONABLE = (vocabulary.TOKEN_MISMATCH, vocabulary.LAYOUT_ERROR)
_MOST_SIZES = 8
# A label reaches its replica within a second, and within the kubelet's slowest round where a notice was lost.
_HEARD_BY_SECONDS = 120.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cordon:
    """Take the replica out of the Service, with the record that says why."""

    replica: Replica
    record: CordonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderRestart:
    """Order the running boot to restart in place; the record says for which boot the attempt is."""

    replica: Replica
    record: CordonRecord
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderProbe:
    """Order the new boot to probe itself, with media of the sizes that failed."""

    replica: Replica
    record: CordonRecord
    order: Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Postpone:
    """The attempt failed: write down when the next one may begin."""

    replica: Replica
    record: CordonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Put the replica back into the Service; the record stays, for `times` and `released_at`."""

    replica: Replica
    record: CordonRecord


Action = Cordon | OrderRestart | OrderProbe | Postpone | Release


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonPlan:
    """What to do now, at most one action for each replica, and the time (Unix seconds) of the next attempt."""

    actions: tuple[Action, ...]
    next_look_at: float | None


def cordon(pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement) -> CordonPlan:
    """The next rung for each cordoned replica, and a cordon for each that was newly found at fault."""
    verdicts = {each.subject: each for each in judgement.replicas}
    expected = {each.hash: each.expected for each in standing.revisions}
    actions: list[Action] = []
    for replica in observation.replicas:
        if is_cordoned_here(replica):
            ladder = _Ladder(pool=pool, expected=expected.get(replica.revision), now=observation.at)
            actions += _next_rung(ladder, replica)
        elif _is_to_be_cordoned(replica, verdicts.get(replica.name)):
            actions += _new_cordon(replica, verdicts[replica.name], observation.at)
    return CordonPlan(actions=tuple(actions), next_look_at=_next_look(observation))


def is_cordoned_here(replica: Replica) -> bool:
    """Whether the operator's own record says that this replica is cordoned."""
    record = replica.cordon
    return record is not None and record.by == vocabulary.FIELD_MANAGER and record.state is CordonState.CORDONED


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ladder:
    pool: EncoderPool
    expected: Expected | None
    now: float


def _is_to_be_cordoned(replica: Replica, verdict: Verdict | None) -> bool:
    return (
        verdict is not None
        and verdict.result is Result.BAD
        and verdict.scope is Scope.REPLICA
        and verdict.reason in _CORDONABLE
        and replica.serving
        and (replica.cordon is None or replica.cordon.by == vocabulary.FIELD_MANAGER)
        and replica.identity is not None
        and replica.identity.state == vocabulary.STATE_READY
    )


def _new_cordon(replica: Replica, verdict: Verdict, now: float) -> Iterator[Action]:
    identity = replica.identity
    if identity is None:
        return
    record = CordonRecord(
        by=vocabulary.FIELD_MANAGER,
        state=CordonState.CORDONED,
        reason=verdict.reason,
        message=verdict.message,
        since=now,
        released_at=None,
        times=1 + (replica.cordon.times if replica.cordon else 0),
        attempt=1,
        attempt_boot_id=identity.boot_id,
        next_attempt_at=None,
        sizes=_failed_sizes(identity),
    )
    yield Cordon(replica=replica, record=record)


def _failed_sizes(identity: Identity) -> tuple[Size, ...]:
    return tuple(dict.fromkeys(each.size for each in identity.recent_violations))[:_MOST_SIZES]


def _next_rung(ladder: _Ladder, replica: Replica) -> Iterator[Action]:
    record, identity = replica.cordon, replica.identity
    if record is None:
        return
    if replica.serving:
        # The label was set back by hand: the person's decision stands, and evidence is gathered anew.
        yield _release(replica, record, ladder.now)
    elif identity is None:
        return
    elif record.next_attempt_at is not None:
        if ladder.now >= record.next_attempt_at:
            again = replace(record, attempt=record.attempt + 1, attempt_boot_id=identity.boot_id, next_attempt_at=None)
            yield OrderRestart(replica=replica, record=again, order=_restart(again, identity))
    elif record.attempt_boot_id is None or identity.boot_id == record.attempt_boot_id:
        begun = replace(record, attempt_boot_id=identity.boot_id)
        # First it refuses its callers, as the label says; a restart before that would break their connections.
        # Where somebody took the label away it never will: the Service leaves it out, and it hears nothing.
        heard = identity.state != vocabulary.STATE_READY or ladder.now - record.since >= _HEARD_BY_SECONDS
        if heard and replica.restart_order != _restart(begun, identity):
            yield OrderRestart(replica=replica, record=begun, order=_restart(begun, identity))
    else:
        yield from _prove(ladder, replica, record, identity)


def _prove(ladder: _Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Iterator[Action]:
    """Another boot is up: out only by its own probe of what failed, and by a matching identity."""
    order = Order(id=f"probe-{record.times}-{record.attempt}", boot_id=identity.boot_id)
    done = identity.probe_done
    if identity.state == vocabulary.STATE_FAILED:
        # It will not load what is there now; the next boot reads anew what may have been repaired.
        yield _postpone(ladder, replica, record)
        return
    if identity.fingerprint is None or identity.probe is None or _waits_for_lesson(ladder):
        return
    if identity.state == vocabulary.STATE_DRAINING:
        return
    if _differs(ladder, identity):
        yield _postpone(ladder, replica, record)
        return
    answered = done is not None and done.id == order.id
    match done.result if done is not None and answered else identity.probe.result:
        case ProbeResult.RUNNING:
            return
        case ProbeResult.FAILED:
            yield _postpone(ladder, replica, record)
        case ProbeResult.PASSED if answered:
            yield _release(replica, record, ladder.now)
        case ProbeResult.PASSED:
            if replica.probe_order != order:
                yield OrderProbe(replica=replica, record=record, order=order)


def _waits_for_lesson(ladder: _Ladder) -> bool:
    return ladder.expected is None and ladder.pool.spec.model.identity.policy is IdentityPolicy.LEARN


def _differs(ladder: _Ladder, identity: Identity) -> bool:
    allowed = ladder.pool.spec.model.identity.max_signature_distance
    return ladder.expected is not None and difference(identity, ladder.expected, allowed) is not None


def _postpone(ladder: _Ladder, replica: Replica, record: CordonRecord) -> Postpone:
    limits = ladder.pool.spec.quarantine
    wait = min(limits.base_seconds * record.attempt, limits.max_seconds)
    return Postpone(replica=replica, record=replace(record, next_attempt_at=ladder.now + wait))


def _release(replica: Replica, record: CordonRecord, now: float) -> Release:
    released = replace(record, state=CordonState.RELEASED, released_at=now, next_attempt_at=None)
    return Release(replica=replica, record=released)


def _restart(record: CordonRecord, identity: Identity) -> Order:
    return Order(id=f"restart-{record.times}-{record.attempt}", boot_id=identity.boot_id)


def _next_look(observation: Observation) -> float | None:
    times: Sequence[float] = [
        each.cordon.next_attempt_at
        for each in observation.replicas
        if each.cordon is not None and is_cordoned_here(each) and each.cordon.next_attempt_at is not None
    ]
    return min((at for at in times if at > observation.at), default=None)
