"""By hand: what a person's annotations on a pod say, and how the operator answers.

Place: cordon asks it before anything else, in every mode. Must never: decide by evidence, lift a cordon whose
annotation stands, or let one release by hand lift two cordons.

    encoderpool.io/hand-cordon: "<why>"     cordoned until the annotation goes; nothing else is done to it meanwhile
    encoderpool.io/hand-release: "<why>"    the operator's own cordon is lifted at once; the annotation is taken away
    encoderpool.io/skip: "<why>"            never cordoned, restarted or evicted by the operator's own decision
"""

from __future__ import annotations

from dataclasses import replace

from encoder_operator import vocabulary
from encoder_operator.actions import Action, Cordon, Dismiss, is_cordoned_here, release
from encoder_operator.observation import CordonRecord, CordonState, Replica

PERSON = "person:"
_LONGEST_WHY = 200


def by_hand(replica: Replica, now: float) -> Action | None:
    """What a person wants done to this replica now; None where nothing is left to do."""
    record = replica.cordon
    if replica.hand_cordon is not None:
        return _cordon(replica, replica.hand_cordon, now) if replica.serving else None
    if record is not None and is_cordoned_by_hand(replica):
        return release(replica, record, now)
    if record is not None and is_cordoned_here(replica):
        if replica.hand_release is not None:
            told = f"{record.message}; released by hand: {replica.hand_release[:_LONGEST_WHY]}"
            return release(replica, replace(_uncounted(record), message=told), now)
        # The label was set back by hand: the person's decision stands, and evidence is gathered anew.
        return release(replica, _uncounted(record), now) if replica.serving else None
    return Dismiss(replica=replica) if replica.hand_release is not None else None


def is_cordoned_by_hand(replica: Replica) -> bool:
    """Whether the record says that the operator cordoned it for a person's annotation."""
    record = replica.cordon
    return record is not None and record.by.startswith(PERSON) and record.state is CordonState.CORDONED


def _uncounted(record: CordonRecord) -> CordonRecord:
    """What a person ended proves nothing of a repair: it must not make the next cordon look like a relapse."""
    return replace(record, in_a_row=record.in_a_row - 1)


def _cordon(replica: Replica, why: str, now: float) -> Cordon:
    before = replica.cordon
    record = CordonRecord(
        by=f"{PERSON}{why[:_LONGEST_WHY]}",
        state=CordonState.CORDONED,
        reason=vocabulary.HAND_CORDON,
        message=why[:_LONGEST_WHY] or f"annotation {vocabulary.ANNOTATION_HAND_CORDON} is set",
        since=now,
        released_at=None,
        times=before.times if before else 1,
        in_a_row=before.in_a_row if before else 0,
        attempt=1,
        attempt_boot_id=None,
        next_attempt_at=None,
        eviction_blocked=None,
        sizes=(),
    )
    return Cordon(replica=replica, record=record)
