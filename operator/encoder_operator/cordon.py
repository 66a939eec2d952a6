"""Cordon: what to do about the verdicts now, and when to look again.

Place: judge → **cordon** → act. Must never: touch a replica that is held, or a cordon that is not the operator's
own; remember anything that is not on the pod; or let budget or mode stand between a replica and its release.

A cordon takes one replica out of its pool's Service without deleting it (Kubernetes uses the word for nodes;
nodes are never touched). First comes what a person says (`hand`), then the next rung of each cordoned replica
(`ladder`), then the one new cordon that the `budget` allows, and the one question that must be answered before
another may follow (`asking`), last the cache of what a replica at fault has put there (`flushing`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from encoder_operator import vocabulary
from encoder_operator.actions import Action, AskPeer, Cordon, Evict, is_cordoned_here
from encoder_operator.asking import ask, next_look_at
from encoder_operator.backoff import next_in_a_row
from encoder_operator.budget import Blocked, allow
from encoder_operator.eviction import End, evict_one, may_evict
from encoder_operator.flushing import flushes
from encoder_operator.hand import by_hand
from encoder_operator.ladder import Ladder, next_rung
from encoder_operator.observation import CordonRecord, CordonState, Identity, Observation, Replica
from encoder_operator.opinion import failed_sizes
from encoder_operator.spec import EncoderPool, Management, Mode
from encoder_operator.standing import Standing
from encoder_operator.verdict import Judgement, Result, Scope, Verdict

_CORDONABLE = (vocabulary.TOKEN_MISMATCH, vocabulary.LAYOUT_ERROR)


@dataclass(frozen=True, slots=True, kw_only=True)
class CordonPlan:
    """What to do now, at most one action for each replica, and the time (Unix seconds) of the next attempt or of
    the next look for an answer.

    `withheld` is what would be done if mode Observe did not forbid it; `blocked` is what keeps a replica at
    fault from being cordoned or evicted; `end` is what the end of a ladder asks of the standing decisions."""

    actions: tuple[Action, ...]
    withheld: tuple[Action, ...]
    blocked: Blocked | None
    end: End | None
    next_look_at: float | None


def cordon(pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement) -> CordonPlan:
    """What a person wants done, the next rung for each cordoned replica, and one more cordon where there is need."""
    if pool.spec.management is Management.PAUSED:
        return CordonPlan(actions=(), withheld=(), blocked=None, end=None, next_look_at=None)
    said = {each.name: by_hand(each, observation.at) for each in observation.replicas}
    others = [each for each in observation.replicas if said[each.name] is None and each.hand_cordon is None]
    at_fault, blocked = _at_fault(pool, observation, judgement, others)
    rungs = tuple(_rungs(pool, standing, observation, others))
    ends = [each for each in rungs if isinstance(each, Evict)]
    evictions, end = evict_one(pool, standing, ends)
    questions = _questions(observation, judgement, others)
    own: tuple[Action, ...] = (*(each for each in rungs if each not in ends), *at_fault, *questions, *evictions)
    own += flushes(pool, observation, at_fault, [each for each in others if each not in [one.replica for one in own]])
    acts = pool.spec.quarantine.mode is not Mode.OBSERVE
    actions = tuple(each for each in said.values() if each is not None) + (own if acts else ())
    looks = (_next_attempt(observation), next_look_at(observation, judgement, actions))
    return CordonPlan(
        actions=actions,
        withheld=() if acts else own,
        blocked=blocked or _eviction_blocked(observation),
        end=end if acts else None,
        next_look_at=min((each for each in looks if each is not None), default=None),
    )


def _rungs(
    pool: EncoderPool, standing: Standing, observation: Observation, replicas: list[Replica]
) -> Iterator[Action]:
    revisions = {each.hash: each for each in standing.revisions}
    for replica in replicas:
        if is_cordoned_here(replica):
            revision = revisions.get(replica.revision)
            ladder = Ladder(
                pool=pool,
                expected=revision.expected if revision else None,
                evicts=may_evict(pool, standing, observation, replica),
                now=observation.at,
            )
            yield from next_rung(ladder, replica)


def _eviction_blocked(observation: Observation) -> Blocked | None:
    for each in observation.replicas:
        if each.cordon is not None and is_cordoned_here(each) and each.cordon.eviction_blocked is not None:
            message = f"{each.name} cannot be evicted, tried again later: {each.cordon.eviction_blocked}"
            return Blocked(reason=vocabulary.EVICTION_BLOCKED, message=message)
    return None


def _at_fault(
    pool: EncoderPool, observation: Observation, judgement: Judgement, replicas: list[Replica]
) -> tuple[tuple[Cordon, ...], Blocked | None]:
    verdicts = {each.subject: each for each in judgement.replicas}
    found = [each for each in replicas if _is_to_be_cordoned(each, verdicts.get(each.name))]
    allowed = allow(pool, observation, found)
    chosen = allowed.granted
    if chosen is None or chosen.identity is None:
        return (), allowed.blocked
    record = _record(pool, chosen, chosen.identity, verdicts[chosen.name], observation.at)
    return (Cordon(replica=chosen, record=record),), allowed.blocked


def _questions(observation: Observation, judgement: Judgement, replicas: list[Replica]) -> tuple[AskPeer, ...]:
    verdicts = {each.subject: each for each in judgement.replicas}
    return ask(observation, [each for each in replicas if _may_be_cordoned(each)], verdicts, replicas)


def _is_to_be_cordoned(replica: Replica, verdict: Verdict | None) -> bool:
    return (
        verdict is not None
        and verdict.result is Result.BAD
        and verdict.scope is Scope.REPLICA
        and verdict.reason in _CORDONABLE
        and verdict.awaits is None
        and _may_be_cordoned(replica)
    )


def _may_be_cordoned(replica: Replica) -> bool:
    return (
        replica.serving
        and replica.skip is None
        and not is_cordoned_elsewhere(replica)
        and replica.identity is not None
        and replica.identity.state == vocabulary.STATE_READY
    )


def is_cordoned_elsewhere(replica: Replica) -> bool:
    """Whether a record that is not the operator's own says that it is cordoned."""
    record = replica.cordon
    return record is not None and record.by != vocabulary.FIELD_MANAGER and record.state is CordonState.CORDONED


def _record(pool: EncoderPool, replica: Replica, identity: Identity, verdict: Verdict, now: float) -> CordonRecord:
    return CordonRecord(
        by=vocabulary.FIELD_MANAGER,
        state=CordonState.CORDONED,
        reason=verdict.reason,
        message=verdict.message,
        since=now,
        released_at=None,
        times=1 + (replica.cordon.times if replica.cordon else 0),
        in_a_row=next_in_a_row(pool.spec.quarantine, replica.cordon, now),
        attempt=1,
        boot_id=identity.boot_id,
        attempt_boot_id=identity.boot_id,
        next_attempt_at=None,
        eviction_blocked=None,
        sizes=failed_sizes(identity),
    )


def _next_attempt(observation: Observation) -> float | None:
    times = [
        each.cordon.next_attempt_at
        for each in observation.replicas
        if each.cordon is not None and is_cordoned_here(each) and each.cordon.next_attempt_at is not None
    ]
    return min((at for at in times if at > observation.at), default=None)
