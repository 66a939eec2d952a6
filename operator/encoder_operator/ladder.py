"""Ladder: the next rung for a replica that the operator has cordoned.

Place: cordon asks it for each such replica. Must never: release by time alone, touch a replica whose cordon is not
the operator's own, or remember anything that is not on the pod: the operator may die after any step.

Each rung is read from the pod's record and the replica's identity:

    restart in place → (another boot is up and is as expected) → probe of the sizes that failed
      passed → release                    failed → wait, then restart again
      failed maxRestarts times → evict: whether and when is for `eviction` to say

A cordon that follows another one tells that a restart cured nothing, whatever the probe said: each counts as a failed
attempt, and is waited for as one. So does, in the end, whatever does not answer or goes no further.

Where nothing may be restarted (mode Cordon, or the pod says skip), the running boot is probed as it is, and probed
again after each wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from encoder_operator import manifests, vocabulary
from encoder_operator.actions import Action, Evict, OrderProbe, OrderRestart, Postpone, release
from encoder_operator.backoff import wait_seconds
from encoder_operator.likeness import difference
from encoder_operator.observation import CordonRecord, Identity, Order, ProbeReport, ProbeResult, Replica
from encoder_operator.spec import EncoderPool, IdentityPolicy, Mode
from encoder_operator.standing import Expected

# A label reaches its replica within a second, and within the kubelet's slowest round where a notice was lost.
_HEARD_BY_SECONDS = 120.0
# The kubelet waits up to 300 s between two tries; what does not run after three of those will not by itself.
_OBSTRUCTED_SECONDS = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Ladder:
    """What the rungs of one revision's replicas depend on, besides the replica; `evicts` says whether they end."""

    pool: EncoderPool
    expected: Expected | None
    evicts: bool
    now: float

    def restarts(self, replica: Replica) -> bool:
        """Whether this replica may be restarted."""
        repairs = self.pool.spec.quarantine.mode is not Mode.CORDON
        return repairs and replica.skip is None


def next_rung(ladder: Ladder, replica: Replica) -> Iterator[Action]:
    """At most one action for a replica that the operator's own record says is cordoned."""
    record, identity = replica.cordon, replica.identity
    if record is None:
        return
    found = () if identity is None else tuple(_rung(ladder, replica, record, identity))
    yield from found
    if not found and ladder.evicts and ladder.restarts(replica) and _has_stalled(ladder, replica, record):
        yield Evict(replica=replica, record=record, postponed=_postpone(ladder, replica, record).record)


def _rung(ladder: Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Iterator[Action]:
    if record.next_attempt_at is not None:
        if _is_due(ladder, record.next_attempt_at):
            yield from _attempt_again(ladder, replica, record, identity)
    elif record.attempt_boot_id is None or identity.boot_id == record.attempt_boot_id:
        yield from _first_attempt(ladder, replica, record, identity)
    else:
        yield from _prove(ladder, replica, record, identity)


def _has_stalled(ladder: Ladder, replica: Replica, record: CordonRecord) -> bool:
    """Whether nothing has come of the last attempt for so long that nothing will: it never answers, never comes up,
    or never does what it was told. It would take a place in the budget for ever."""
    if _waits_for_lesson(ladder):
        return False
    due = record.next_attempt_at
    if due is not None and not _is_due(ladder, due):
        return False
    begun = max(record.since, record.ordered_at or 0.0, replica.container_started_at or 0.0)
    if due is not None and due <= ladder.now:
        begun = max(begun, due)
    obstructed = replica.identity is None and replica.obstacle is not None and replica.obstacle.lasting
    longest = _OBSTRUCTED_SECONDS if obstructed else manifests.PROGRESS_DEADLINE_SECONDS
    return ladder.now - begun >= longest


def _is_due(ladder: Ladder, at: float) -> bool:
    """Whether an attempt at `at` may begin. No wait is longer than maxSeconds: one that is was written while the
    clock was wrong, and would keep the replica out until the clock is there again."""
    return not 0.0 < at - ladder.now <= ladder.pool.spec.quarantine.max_seconds


def _first_attempt(ladder: Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Iterator[Action]:
    # First it refuses its callers, as the label says; a restart before that would break their connections.
    # Where somebody took the label away it never will: the Service leaves it out, and it hears nothing.
    if identity.state == vocabulary.STATE_READY and ladder.now - record.since < _HEARD_BY_SECONDS:
        return
    waits = wait_seconds(ladder.pool.spec.quarantine, replace(record, attempt=0), replica.uid)
    if record.in_a_row > 1 and 0.0 <= ladder.now - record.since < waits:
        return
    if not ladder.restarts(replica):
        yield from _prove(ladder, replica, record, identity)
        return
    begun = replace(record, attempt_boot_id=identity.boot_id, ordered_at=ladder.now)
    if replica.restart_order == _restart(begun, identity):
        return
    if _is_at_its_end(ladder, record, identity, in_vain=record.in_a_row - 1):
        yield _evict(ladder, replica, record, identity)
    else:
        yield OrderRestart(replica=replica, record=begun, order=_restart(begun, identity))


def _attempt_again(ladder: Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Iterator[Action]:
    again = replace(
        record,
        attempt=record.attempt + 1,
        attempt_boot_id=identity.boot_id,
        next_attempt_at=None,
        eviction_blocked=record.eviction_blocked if ladder.restarts(replica) else None,
    )
    in_vain = record.attempt + record.in_a_row - 1
    if ladder.restarts(replica) and _is_at_its_end(ladder, record, identity, in_vain=in_vain):
        yield _evict(ladder, replica, record, identity)
    elif ladder.restarts(replica):
        yield OrderRestart(
            replica=replica, record=replace(again, ordered_at=ladder.now), order=_restart(again, identity)
        )
    else:
        yield from _prove(ladder, replica, again, identity)


def _is_at_its_end(ladder: Ladder, record: CordonRecord, identity: Identity, *, in_vain: int) -> bool:
    """Whether it is to be evicted now, after so many restarts. Where that was refused to this very boot, it is first
    restarted and probed once more: a disruption budget must not keep a replica out that is good again."""
    refused = record.eviction_blocked is not None and record.attempt_boot_id == identity.boot_id
    return ladder.evicts and not refused and in_vain >= ladder.pool.spec.quarantine.max_restarts


def _evict(ladder: Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Evict:
    postponed = _postpone(ladder, replica, replace(record, attempt_boot_id=identity.boot_id)).record
    return Evict(replica=replica, record=record, postponed=postponed)


def _prove(ladder: Ladder, replica: Replica, record: CordonRecord, identity: Identity) -> Iterator[Action]:
    """Out only by its own probe of what failed, and by a matching identity."""
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
    if done is None or done.id != order.id:
        yield from _ask(ladder, replica, record, order, identity.probe)
    elif done.result is ProbeResult.PASSED:
        yield release(replica, record, ladder.now)
    elif done.result is ProbeResult.FAILED:
        yield _postpone(ladder, replica, record)


def _ask(ladder: Ladder, replica: Replica, record: CordonRecord, order: Order, last: ProbeReport) -> Iterator[Action]:
    """Order a probe, unless the one that a new boot begins with runs still, or has failed already."""
    if last.result is ProbeResult.FAILED and last.order_id is None and ladder.restarts(replica):
        yield _postpone(ladder, replica, record)
    elif last.result is not ProbeResult.RUNNING and replica.probe_order != order:
        yield OrderProbe(replica=replica, record=replace(record, ordered_at=ladder.now), order=order)


def _waits_for_lesson(ladder: Ladder) -> bool:
    return ladder.expected is None and ladder.pool.spec.model.identity.policy is IdentityPolicy.LEARN


def _differs(ladder: Ladder, identity: Identity) -> bool:
    allowed = ladder.pool.spec.model.identity.max_signature_distance
    return ladder.expected is not None and difference(identity, ladder.expected, allowed) is not None


def _postpone(ladder: Ladder, replica: Replica, record: CordonRecord) -> Postpone:
    wait = wait_seconds(ladder.pool.spec.quarantine, record, replica.uid)
    return Postpone(replica=replica, record=replace(record, next_attempt_at=ladder.now + wait))


def _restart(record: CordonRecord, identity: Identity) -> Order:
    return Order(id=f"restart-{record.times}-{record.attempt}", boot_id=identity.boot_id)
