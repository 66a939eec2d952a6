"""Judge: ordered rules, one verdict for each replica, each revision and the pool.

Place: observe → **judge** → cordon → status. Must never: act, read a clock (the observation has its time), or
take what is not known for good or bad.

A replica is first judged by itself (RULES, the first that speaks wins); then its revision is asked whose fault
that is (`attribution`), and the verdicts of those concerned take its answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from encoder_operator import vocabulary
from encoder_operator.attribution import Case, attribute
from encoder_operator.likeness import difference
from encoder_operator.observation import CordonState, Observation, ProbeResult, Replica
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Expected, Standing
from encoder_operator.traffic import mismatch, traffic_result
from encoder_operator.verdict import Judgement, Matter, Result, Scope, Verdict
from encoder_operator.wording import item_words, not_ours_words, state_words, why_not_repaired

# Which of several equally bad verdicts speaks for the pool: first what touches all replicas.
PRECEDENCE = (
    vocabulary.REVISION_FAULT,
    vocabulary.REFERENCE_SUSPECT,
    vocabulary.CALLER_FAULT,
    vocabulary.PROBE_FAILED,
    vocabulary.FINGERPRINT_DRIFT,
    vocabulary.SIGNATURE_DRIFT,
    vocabulary.TOKEN_MISMATCH,
    vocabulary.LAYOUT_ERROR,
    vocabulary.DEADLINE_EXCEEDED,
    vocabulary.NO_SPARE_ACCELERATOR,
    vocabulary.LEARNING,
    vocabulary.NO_EVIDENCE,
    vocabulary.AS_EXPECTED,
)
_RANK = {Result.BAD: 0, Result.UNKNOWN: 1, Result.GOOD: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Question:
    """All that a rule about one replica may know."""

    pool: EncoderPool
    replica: Replica
    expected: Expected | None
    learns: bool


def judge(pool: EncoderPool, standing: Standing, observation: Observation) -> Judgement:
    """The verdicts on all that was observed."""
    expected = {revision.hash: revision.expected for revision in standing.revisions}
    replicas = [_replaced(each) for each in observation.replicas if each.revision not in expected]
    revisions: list[Verdict] = []
    for revision in sorted(expected):
        case = Case(
            pool=pool,
            revision=revision,
            expected=expected[revision],
            replicas=tuple(each for each in observation.replicas if each.revision == revision),
            at=observation.at,
        )
        own = {each.name: _judge_replica(case, each) for each in case.replicas}
        found = attribute(case, own)
        judged = [found.replicas.get(name, verdict) for name, verdict in own.items()]
        replicas += judged
        revisions.append(found.revision or _worst_of(revision, [_named(each) for each in judged]))
    return Judgement(
        replicas=tuple(replicas),
        revisions=tuple(revisions),
        pool=_worst_of(pool.name, revisions),
        traffic=traffic_result([each for each in observation.replicas if each.serving], pool.spec.integrity),
    )


def _replaced(replica: Replica) -> Verdict:
    """Its revision stands no longer: it is about to go, and says nothing of the pool."""
    return Verdict(
        subject=replica.name,
        matter=Matter.IDENTITY,
        scope=Scope.REPLICA,
        result=Result.UNKNOWN,
        reason=vocabulary.NO_EVIDENCE,
        message="its revision no longer stands",
    )


def _judge_replica(case: Case, replica: Replica) -> Verdict:
    question = _Question(
        pool=case.pool, replica=replica, expected=case.expected, learns=case.learns and case.expected is None
    )
    return next(verdict for rule in RULES if (verdict := rule(question)) is not None)


def _worst_of(subject: str, verdicts: list[Verdict]) -> Verdict:
    """The worst of these, as a verdict on `subject`; which one is independent of their order."""
    if not verdicts:
        return Verdict(
            subject=subject,
            matter=Matter.IDENTITY,
            scope=Scope.REVISION,
            result=Result.UNKNOWN,
            reason=vocabulary.NO_EVIDENCE,
            message="there is no replica to judge",
        )
    worst = min(verdicts, key=lambda each: (_RANK[each.result], _precedence(each.reason), each.subject))
    return replace(worst, subject=subject)


def _named(verdict: Verdict) -> Verdict:
    return replace(verdict, message=f"{verdict.subject}: {verdict.message}")


def _precedence(reason: str) -> int:
    return PRECEDENCE.index(reason) if reason in PRECEDENCE else len(PRECEDENCE)


def _verdict(question: _Question, result: Result, reason: str, message: str) -> Verdict:
    name = question.replica.name
    return Verdict(
        subject=name, matter=Matter.IDENTITY, scope=Scope.REPLICA, result=result, reason=reason, message=message
    )


def _cordoned_here(question: _Question) -> Verdict | None:
    """A cordon's own verdict stands until its release: out of traffic nothing new is learned."""
    record = question.replica.cordon
    if question.replica.serving or record is None or record.state is not CordonState.CORDONED:
        return None
    if record.by != vocabulary.FIELD_MANAGER:
        return None
    message = f"{record.message}{why_not_repaired(question.replica)}"
    return replace(_verdict(question, Result.BAD, record.reason, message), matter=Matter.TRAFFIC)


def _cordoned_elsewhere(question: _Question) -> Verdict | None:
    if question.replica.serving:
        return None
    message = not_ours_words(question.replica.cordon)
    return _verdict(question, Result.UNKNOWN, vocabulary.NO_EVIDENCE, message)


def _no_spare_accelerator(question: _Question) -> Verdict | None:
    accelerator, told = question.pool.spec.accelerator, question.replica.unschedulable
    if accelerator is None or told is None or not accelerator.is_wanting(told):
        return None
    return _verdict(question, Result.UNKNOWN, vocabulary.NO_SPARE_ACCELERATOR, told)


def _unheard(question: _Question) -> Verdict | None:
    replica = question.replica
    if replica.identity is not None:
        return None
    if replica.obstacle is not None:
        reason = vocabulary.DEADLINE_EXCEEDED if replica.obstacle.lasting else vocabulary.NO_EVIDENCE
        return _verdict(question, Result.UNKNOWN, reason, replica.obstacle.message)
    told = "its container does not run yet"
    if replica.container_started_at is not None:
        told = f"its identity could not be read yet: {vocabulary.PATH_IDENTITY} at {replica.address}"
    return _verdict(question, Result.UNKNOWN, vocabulary.NO_EVIDENCE, told)


def _probe_failed(question: _Question) -> Verdict | None:
    identity = question.replica.identity
    if identity is None or identity.probe is None or identity.probe.result is not ProbeResult.FAILED:
        return None
    if identity.probe.order_id is not None and identity.reason != vocabulary.PROBE_FAILED:
        # Sizes that the operator named failed, on a replica asked about another or that a person let serve all the
        # same: its golden probe passed, and traffic judges it.
        return None
    failed = next((each for each in identity.probe.items if each.result != "ok"), None)
    message = item_words(failed) if failed else identity.message
    return _verdict(question, Result.BAD, vocabulary.PROBE_FAILED, message)


def _differs(question: _Question) -> Verdict | None:
    identity, expected = question.replica.identity, question.expected
    if identity is None or expected is None:
        return None
    found = difference(identity, expected, question.pool.spec.model.identity.max_signature_distance)
    return None if found is None else _verdict(question, Result.BAD, *found)


def _not_measured(question: _Question) -> Verdict | None:
    identity = question.replica.identity
    if identity is None:
        return None
    if identity.fingerprint is not None and identity.is_measured:
        return None
    reason = vocabulary.LEARNING if question.learns else vocabulary.NO_EVIDENCE
    if identity.state == vocabulary.STATE_FAILED:
        reason = vocabulary.DEADLINE_EXCEEDED
    return _verdict(question, Result.UNKNOWN, reason, state_words(identity))


def _to_be_learned(question: _Question) -> Verdict | None:
    if not question.learns:
        return None
    return _verdict(question, Result.UNKNOWN, vocabulary.LEARNING, "nothing is known yet to compare it with")


def _not_admitted_yet(question: _Question) -> Verdict | None:
    """Held though we find it as expected: it has not read the newest expectation yet."""
    identity = question.replica.identity
    if identity is None or identity.state != vocabulary.STATE_HELD:
        return None
    message = f"held ({identity.reason}) until it has read what is expected of it"
    return _verdict(question, Result.UNKNOWN, vocabulary.LEARNING, message)


def _not_serving(question: _Question) -> Verdict | None:
    identity = question.replica.identity
    if identity is None or identity.state == vocabulary.STATE_READY:
        return None
    return _verdict(question, Result.UNKNOWN, vocabulary.NO_EVIDENCE, state_words(identity))


def _mismatches(question: _Question) -> Verdict | None:
    found = mismatch(question.replica, question.pool.spec.integrity)
    if found is None:
        return None
    return replace(_verdict(question, Result.BAD, found.reason, found.message), matter=Matter.TRAFFIC)


def _as_expected(question: _Question) -> Verdict | None:
    return _verdict(question, Result.GOOD, vocabulary.AS_EXPECTED, "probe passed, identity as expected")


Rule = Callable[[_Question], Verdict | None]

RULES: tuple[Rule, ...] = (
    _cordoned_here,
    _cordoned_elsewhere,
    _no_spare_accelerator,
    _unheard,
    _probe_failed,
    _differs,
    _not_measured,
    _to_be_learned,
    _not_admitted_yet,
    _not_serving,
    _mismatches,
    _as_expected,
)
