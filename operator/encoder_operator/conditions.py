"""Conditions: what holds for a pool, each with a reason and what was measured.

Place: called by status. Must never: move a transition time while its status stays, or use a reason that
tests/contract/vocabulary.json does not fix.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from encoder_operator import names, vocabulary
from encoder_operator.actions import Cordon
from encoder_operator.advice import on_a_suspect_reference
from encoder_operator.budget import cordoned_for_traffic, most_cordoned, serves
from encoder_operator.cordon import CordonPlan
from encoder_operator.observation import Observation
from encoder_operator.rejection import is_given_up, why_it_stays
from encoder_operator.spec import EncoderPool, Management
from encoder_operator.standing import Role, Standing
from encoder_operator.timestamps import to_text
from encoder_operator.verdict import Judgement, Matter, Result, Verdict

Statement = tuple[str, str, str, str]
"""A condition's type, status, reason and message."""

WITHHELD = "mode Observe, not done: "
PAUSED = "management is Paused, nothing is applied or acted on: "

_LONGEST_MESSAGE = 1024
# A server tries a Redis again every ten seconds, and a new one has not reached it yet.
_LASTING_SECONDS = 60


def conditions(
    pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement, decided: CordonPlan
) -> list[dict[str, Any]]:
    """All conditions, the summary first."""
    serving = sum(serves(each) for each in observation.replicas)
    stated = [
        _ready(pool, observation, judgement, serving),
        _available(pool, observation, judgement, serving),
        _progressing(pool, standing, observation, judgement),
        _identity_consistent(judgement),
        _integrity_healthy(pool, observation, judgement),
        _quarantine_within_budget(pool, observation, decided),
    ]
    advice = on_a_suspect_reference(pool, standing, observation)
    stated = [
        (kind, status, reason, message + (advice if reason == vocabulary.REFERENCE_SUSPECT else ""))
        for kind, status, reason, message in stated
    ]
    if pool.spec.management is Management.PAUSED:
        stated = [(kind, status, reason, PAUSED + message) for kind, status, reason, message in stated]
    return with_transitions(pool.status, pool.generation, observation.at, stated)


def with_transitions(
    before: Mapping[str, Any], generation: int, now: float, stated: Sequence[Statement]
) -> list[dict[str, Any]]:
    """These statements as conditions; a transition time is kept while the status stays what it was."""
    known = {each.get("type"): each for each in before.get("conditions", ())}
    made = []
    for kind, status, reason, message in stated:
        last = known.get(kind, {})
        stays = last.get("status") == status and last.get("lastTransitionTime")
        made.append(
            {
                "type": kind,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": last["lastTransitionTime"] if stays else to_text(now),
                "reason": reason,
                "message": message[:_LONGEST_MESSAGE],
            }
        )
    return made


def _ready(pool: EncoderPool, observation: Observation, judgement: Judgement, serving: int) -> Statement:
    found = judgement.pool
    count = f"{serving} of {pool.spec.replicas} replicas serve"
    complete = serving >= pool.spec.replicas
    if found.result is Result.BAD:
        return "Ready", "False", found.reason, f"{found.message}; {count}"
    if complete and (found.result is Result.GOOD or not observation.replicas):
        return "Ready", "True", vocabulary.AS_EXPECTED, count
    if complete:
        return "Ready", "True", found.reason, f"{count}; {found.message}"
    stuck = _stuck(observation)
    if stuck is not None:
        return "Ready", "False", vocabulary.DEADLINE_EXCEEDED, f"{count}; {stuck}{_cause(found, observation)}"
    if found.result is Result.GOOD:
        return "Ready", "False", vocabulary.NO_EVIDENCE, f"{count}; the others are not Ready yet"
    return "Ready", "False", found.reason, f"{count}; {found.message}"


def _available(pool: EncoderPool, observation: Observation, judgement: Judgement, serving: int) -> Statement:
    count = f"{serving} of {pool.spec.replicas} replicas serve{_without_redis(observation)}"
    if serving > 0 or pool.spec.replicas == 0:
        return "Available", "True", vocabulary.AS_EXPECTED, count
    if judgement.pool.result is Result.GOOD:
        return "Available", "False", vocabulary.NO_EVIDENCE, count
    return "Available", "False", judgement.pool.reason, f"{count}; {judgement.pool.message}"


def _without_redis(observation: Observation) -> str:
    """What to say where replicas that serve have not reached the pool's Redis for long: each encodes for itself."""
    since = [each.identity.sharing_lost_since for each in observation.replicas if serves(each) and each.identity]
    count = sum(each is not None and observation.at - each >= _LASTING_SECONDS for each in since)
    return (
        f"; {count} of them cannot use the Redis of spec.cache.redis: see encoder_cache_errors_total" if count else ""
    )


def _progressing(pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement) -> Statement:
    stuck = _stuck(observation)
    if stuck is not None:
        message = f"{stuck}{_cause(judgement.pool, observation)}"
        return "Progressing", "False", vocabulary.DEADLINE_EXCEEDED, message
    given_up = _given_up(pool, standing, observation)
    if given_up is not None:
        return "Progressing", "False", vocabulary.REVISION_FAULT, given_up
    target = next((each for each in standing.revisions if each.role is Role.TARGET), None)
    if target is None:
        return "Progressing", "False", vocabulary.AS_EXPECTED, "the revision that the spec asks for serves"
    ready = next((each.ready for each in observation.workloads if each.revision == target.hash), 0)
    message = f"{ready} of {pool.spec.replicas} replicas of revision {target.hash} are Ready"
    found = next((each for each in judgement.revisions if each.subject == target.hash), None)
    if found is None:
        return "Progressing", "True", target.reason, message
    message += _cause(found, observation)
    stays = found.reason == vocabulary.DEADLINE_EXCEEDED
    return "Progressing", "False" if stays else "True", found.reason, message


def _cause(found: Verdict, observation: Observation) -> str:
    """What was found, to be told behind a count; nothing where that adds nothing."""
    return "" if found.result is Result.GOOD or not observation.replicas else f"; {found.message}"


def _given_up(pool: EncoderPool, standing: Standing, observation: Observation) -> str | None:
    asked, told = names.revision_hash(pool.spec), why_it_stays(pool, standing, observation)
    if not is_given_up(standing, asked):
        return told
    serves_on = ", ".join(each.hash for each in standing.revisions if each.hash != asked) or asked
    ways = f"change the spec, or kubectl annotate encoderpool {pool.name} {vocabulary.ANNOTATION_RETRY}={asked}"
    rejected = f"revision {asked} was rejected and {serves_on} serves instead: {ways}"
    return rejected if told is None else f"{told}; {rejected}"


def _identity_consistent(judgement: Judgement) -> Statement:
    verdicts = [each for each in _all_of(judgement) if each.matter is Matter.IDENTITY]
    bad = _first(verdicts, Result.BAD)
    if bad is not None:
        return "IdentityConsistent", "False", bad.reason, _told(bad)
    if _first(verdicts, Result.GOOD) is not None:
        message = "every replica that was heard is what its revision is expected to be"
        return "IdentityConsistent", "True", vocabulary.AS_EXPECTED, message
    unknown = _first(verdicts, Result.UNKNOWN) or judgement.pool
    return "IdentityConsistent", "Unknown", unknown.reason, _told(unknown)


def _integrity_healthy(pool: EncoderPool, observation: Observation, judgement: Judgement) -> Statement:
    verdicts = [each for each in _all_of(judgement) if each.matter is Matter.TRAFFIC]
    bad = _first(verdicts, Result.BAD)
    if bad is not None:
        return "IntegrityHealthy", "False", bad.reason, _told(bad)
    waiting = _first(verdicts, Result.UNKNOWN)
    if waiting is not None:
        return "IntegrityHealthy", "Unknown", waiting.reason, _told(waiting)
    if observation.evidence_problem is not None:
        return "IntegrityHealthy", "Unknown", vocabulary.NO_EVIDENCE, observation.evidence_problem
    if judgement.traffic is Result.GOOD:
        message = "no replica fails more checks than allowed"
        return "IntegrityHealthy", "True", vocabulary.AS_EXPECTED, message
    message = f"no replica has {pool.spec.integrity.min_checks} checks in its window"
    return "IntegrityHealthy", "Unknown", vocabulary.NO_EVIDENCE, message


def _quarantine_within_budget(pool: EncoderPool, observation: Observation, decided: CordonPlan) -> Statement:
    name = "QuarantineWithinBudget"
    if decided.blocked is not None:
        return name, "False", decided.blocked.reason, decided.blocked.message
    count = f"{cordoned_for_traffic(observation)} of at most {most_cordoned(pool)} replicas are cordoned"
    for each in decided.withheld:
        if isinstance(each, Cordon):
            return name, "True", each.record.reason, f"{WITHHELD}cordon {each.replica.name}; {count}"
    return name, "True", vocabulary.AS_EXPECTED, count


def _all_of(judgement: Judgement) -> list[Verdict]:
    """Revisions first: what is theirs is no replica's."""
    return [*judgement.revisions, *judgement.replicas]


def _first(verdicts: Sequence[Verdict], result: Result) -> Verdict | None:
    return next((each for each in verdicts if each.result is result), None)


def _told(verdict: Verdict) -> str:
    return verdict.message if verdict.subject in verdict.message else f"{verdict.subject}: {verdict.message}"


def _stuck(observation: Observation) -> str | None:
    return next((each.message for each in observation.workloads if each.message is not None), None)
