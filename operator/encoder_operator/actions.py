"""Actions: what may be done to a replica, one at a time.

Place: decided by cordon, carried out by act, told by events. Must never: decide, or hold more than one patch says.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from encoder_operator import vocabulary
from encoder_operator.observation import CordonRecord, CordonState, FlushOrder, Order, Question, Replica


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
    """Order the running boot to probe itself, with media of the sizes that failed."""

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
    """Put the replica back into the Service; the record stays, for its counts and `released_at`."""

    replica: Replica
    record: CordonRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Dismiss:
    """Take away a release by hand that finds nothing to lift: it must not lift a later cordon."""

    replica: Replica


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPeer:
    """Order `replica`, which serves, to probe the sizes that fail on `suspect` (a pod's name, for `reason`)."""

    replica: Replica
    question: Question
    suspect: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderFlush:
    """Order the running boot to take nothing for a hit that producers at fault made."""

    replica: Replica
    order: FlushOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Evict:
    """Replace the pod: restarts in place did not cure it. `postponed` is its record should that be refused."""

    replica: Replica
    record: CordonRecord
    postponed: CordonRecord


Recorded = Cordon | OrderRestart | OrderProbe | Postpone | Release | Evict
"""What changes the record of its replica's own cordon."""

Action = Recorded | Dismiss | AskPeer | OrderFlush


def release(replica: Replica, record: CordonRecord, now: float) -> Release:
    """The replica's release at `now`, by whatever record it was cordoned."""
    released = replace(record, state=CordonState.RELEASED, released_at=now, next_attempt_at=None, eviction_blocked=None)
    return Release(replica=replica, record=released)


def is_cordoned_here(replica: Replica) -> bool:
    """Whether the operator's own record says that this replica is cordoned."""
    record = replica.cordon
    return record is not None and record.by == vocabulary.FIELD_MANAGER and record.state is CordonState.CORDONED
