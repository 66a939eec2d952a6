"""Announcements: what of a pass is worth telling a pool's user.

Place: reconcile asks for them once all is done; `events` posts them. Must never: give one thing two keys, or tell
from an action what stands in a record: the operator may have died after it wrote that.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

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
from encoder_operator.conditions import WITHHELD
from encoder_operator.cordon import CordonPlan
from encoder_operator.hand import PERSON
from encoder_operator.observation import CordonRecord, Observation, Replica, Size
from encoder_operator.standing import Role, Standing
from encoder_operator.timestamps import to_seconds, to_text
from encoder_operator.verdict import Judgement, Matter, Result, Scope
from encoder_operator.wording import counted, size_words

CORDONED = "Cordoned"
RELEASED = "Released"
RESTART_ORDERED = "RestartOrdered"
PROBE_ORDERED = "ProbeOrdered"
FLUSH_ORDERED = "FlushOrdered"
ATTEMPT_FAILED = "AttemptFailed"
LEARNED = "Learned"
EVICTED = "Evicted"
REJECTED = "Rejected"
NOT_DONE = "NotDone"

# The API server forgets an event after an hour: what is older is not told anew.
_TOLD_WITHIN_SECONDS = 1800.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Announcement:
    """One event: `subject` and `key` say what it is about, whatever its message measures."""

    reason: str
    subject: str
    key: str
    message: str
    warning: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """When what lasts began, as the status tells it: the pool's verdict, and whether its budget is spent."""

    verdict: str
    blocked: str


def since_of(status: Mapping[str, Any]) -> Since:
    """The times of this status."""
    conditions = status.get("conditions", ())
    budget = (each["lastTransitionTime"] for each in conditions if each["type"] == "QuarantineWithinBudget")
    return Since(verdict=status.get("verdict", {}).get("at", ""), blocked=next(budget, ""))


def announcements(
    before: Standing,
    after: Standing,
    observation: Observation,
    judgement: Judgement,
    actions: Sequence[Action],
    decided: CordonPlan,
    since: Since,
) -> tuple[Announcement, ...]:
    """All that may be told of this pass: `actions` are those that were decided and took hold."""
    acted = {action.replica.name: action.record for action in actions if isinstance(action, Recorded)}
    return (
        *_of_verdicts(observation, judgement, since.verdict),
        *_of_records(observation, acted),
        *(each for action in actions for each in _of_action(action)),
        *(_observed(each) for action in decided.withheld for each in _of_withheld(action, since.verdict)),
        *_of_budget(decided, since.blocked),
        *_of_lessons(before, after),
        *_of_rejections(after, observation.at),
    )


def _of_verdicts(observation: Observation, judgement: Judgement, since: str) -> Iterator[Announcement]:
    boots = {each.name: each.identity.boot_id for each in observation.replicas if each.identity is not None}
    for each in judgement.replicas:
        held = each.result is Result.BAD and each.scope is Scope.REPLICA and each.matter is Matter.IDENTITY
        if held and each.subject in boots:
            yield _warning(each.reason, each.subject, boots[each.subject], each.message)
    for each in judgement.revisions:
        if each.result is Result.BAD and each.scope is not Scope.REPLICA:
            yield _warning(each.reason, f"revision {each.subject}", since, each.message)


def _of_records(observation: Observation, acted: dict[str, CordonRecord]) -> Iterator[Announcement]:
    """Cordons and releases are told from the records: the operator may have died after it wrote one."""
    for replica in observation.replicas:
        record = acted.get(replica.name, replica.cordon)
        if record is not None and (record.by == vocabulary.FIELD_MANAGER or record.by.startswith(PERSON)):
            yield from _of_record(replica, record, observation.at)


def _of_record(replica: Replica, record: CordonRecord, now: float) -> Iterator[Announcement]:
    key = f"{replica.uid} {to_text(record.since)}"
    if now - record.since < _TOLD_WITHIN_SECONDS:
        yield _warning(CORDONED, replica.name, key, f"{record.reason}: {record.message}")
    if record.released_at is not None and now - record.released_at < _TOLD_WITHIN_SECONDS:
        attempts = f" after {counted(record.attempt, 'attempt')}" if record.by == vocabulary.FIELD_MANAGER else ""
        yield _normal(RELEASED, replica.name, key, f"serves again{attempts}: {record.message}")


def _of_withheld(action: Action, since: str) -> Iterator[Announcement]:
    """What mode Observe forbids, under the reason that it would have had."""
    name, key = action.replica.name, action.replica.uid
    match action:
        case Cordon():
            yield _warning(CORDONED, name, f"{key} {since}", f"{action.record.reason}: {action.record.message}")
        case Release():
            yield _normal(RELEASED, name, f"{key} {to_text(action.record.since)}", "its probe passed")
        case _:
            yield from _of_action(action)


def _of_budget(decided: CordonPlan, since: str) -> Iterator[Announcement]:
    if decided.blocked is not None:
        yield _warning(decided.blocked.reason, "quarantine", since, decided.blocked.message)


def _of_action(action: Action) -> Iterator[Announcement]:
    if isinstance(action, AskPeer):
        told = f"with sizes that fail on {action.suspect}: {_words(action.question.sizes)}"
        yield _normal(PROBE_ORDERED, action.replica.name, f"{action.replica.uid} {action.question.about}", told)
    elif isinstance(action, OrderFlush):
        # One order goes to many replicas, and is told once.
        told = f"nobody takes for a hit what {counted(len(action.order.producers), 'boot')} at fault made"
        yield _normal(FLUSH_ORDERED, "cache", action.order.id, told)
    elif not isinstance(action, Dismiss):
        yield from _of_rung(action)


def _of_rung(action: Recorded) -> Iterator[Announcement]:
    name, record = action.replica.name, action.record
    key = f"{action.replica.uid} {to_text(record.since)} {record.attempt}"
    match action:
        case OrderRestart():
            yield _normal(RESTART_ORDERED, name, key, f"attempt {record.attempt} to repair it in place")
        case OrderProbe():
            sizes = f"with sizes that failed: {_words(record.sizes)}"
            yield _normal(PROBE_ORDERED, name, f"{key} {action.order.boot_id}", sizes)
        case Postpone():
            until = "" if record.next_attempt_at is None else to_text(record.next_attempt_at)
            yield _warning(ATTEMPT_FAILED, name, key, f"attempt {record.attempt} failed, the next is at {until}")
        case Evict():
            restarts = counted(record.attempt, "restart")
            yield _warning(EVICTED, name, key, f"{restarts} did not cure it: {record.message}")
        case Cordon() | Release():
            return


def _words(sizes: Sequence[Size]) -> str:
    return ", ".join(map(size_words, sizes))


def _of_lessons(before: Standing, after: Standing) -> Iterator[Announcement]:
    known = {each.hash: each.expected for each in before.revisions}
    for each in after.revisions:
        old, new = known.get(each.hash), each.expected
        if new is None or new == old:
            continue
        message = f"fingerprint {new.fingerprint}"
        if old is not None:
            message += ", as most replicas measured, and not what the first one taught"
        yield _normal(LEARNED, f"revision {each.hash}", f"{new.fingerprint} {new.signature}", message)


def _of_rejections(after: Standing, now: float) -> Iterator[Announcement]:
    """Told from the standing decisions: the operator may have died after it wrote one."""
    for each in (*after.revisions, *after.past.rejected):
        if each.role is Role.REJECTED and now - to_seconds(each.since) < _TOLD_WITHIN_SECONDS:
            replaced = each.replaced.attempts
            message = f"{each.reason}, after {counted(replaced, 'replacement')}" if replaced else each.reason
            yield _warning(REJECTED, f"revision {each.hash}", each.since, message)


def _observed(told: Announcement) -> Announcement:
    return replace(
        told, reason=NOT_DONE, key=f"{told.reason} {told.key}", message=f"{WITHHELD}{told.reason}: {told.message}"
    )


def _warning(reason: str, subject: str, key: str, message: str) -> Announcement:
    return Announcement(reason=reason, subject=subject, key=key, message=message, warning=True)


def _normal(reason: str, subject: str, key: str, message: str) -> Announcement:
    return Announcement(reason=reason, subject=subject, key=key, message=message, warning=False)
