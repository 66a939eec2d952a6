"""Opinion: what a peer's own probe says of the sizes at which another replica fails.

Place: attribution hears it before it blames a replica for its traffic; `asking` says who is asked next. Must never:
take silence for an answer, or let a replica be blamed for a size that fails on its peer too.

A peer whose checks are good may never have met the size. So it is ordered to probe it, while it serves; what it was
asked stands in its own annotation, what it answers in its identity.

    it passes                  the fault is the replica's own
    it fails at a size         the fault is the revision's
    it does not answer         the next one is asked, three of them at most; then its good checks must do,
                               or who cannot be compared would never be cordoned
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from encoder_operator.observation import Identity, ItemReport, ProbeResult, Replica, Size
from encoder_operator.orders import about
from encoder_operator.spec import EncoderPool
from encoder_operator.verdict import Awaited, Result, Verdict
from encoder_operator.wording import count_words, size_words

# As many as an order may name.
_MOST_SIZES = 8
_MOST_ASKED = 3
# An order not taken up by then was lost on its way: evaluations may be short, and a busy node takes seconds.
_HEARD_BY_EVALUATIONS, _HEARD_BY_SECONDS = 2, 30.0
# A server gives a probe up after twice a request's time.
_DEADLINES = 2


class Outcome(Enum):
    """What is known of a suspect by its peers."""

    NEEDLESS = "no size is known to ask about"
    PASSED = "a peer passes"
    FAILED = "a peer fails too"
    AWAITED = "a peer is asked, or to be asked"
    IN_VAIN = "nobody answers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Opinion:
    """What peers said, in words to be told behind what was measured; `awaited` exactly where it is to come."""

    outcome: Outcome
    message: str
    awaited: Awaited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """Those of one revision that may be asked, or may have answered: `peers` serve, `own` are their verdicts,
    `suspects` are those that mismatch and `good` those that are as expected (names)."""

    pool: EncoderPool
    peers: tuple[Replica, ...]
    own: Mapping[str, Verdict] = field(hash=False)
    suspects: frozenset[str]
    good: frozenset[str]
    at: float


class _Answer(Enum):
    OPEN = "may still come"
    UNREAD = "may be there, and cannot be read"
    PASSED = "passed"
    FAILED = "failed"
    NONE = "will not come"


def failed_sizes(identity: Identity | None) -> tuple[Size, ...]:
    """The sizes that a probe is to repeat: those of the newest violations."""
    violations = () if identity is None else identity.recent_violations
    return tuple(dict.fromkeys(each.size for each in violations if each.size.is_known))[:_MOST_SIZES]


def subject_of(replica: Replica) -> str | None:
    """What questions about this replica's boot are known by; None where it cannot be told or asked about."""
    identity = replica.identity
    if identity is None or not failed_sizes(identity):
        return None
    return about(identity.boot_id, replica.cordon.times if replica.cordon else 0)


def may_be_asked(replica: Replica) -> bool:
    """Whether no person wants this replica left alone."""
    return replica.skip is None and replica.hand_cordon is None


def opinion(bench: Bench, suspect: Replica, vouching: Sequence[Replica]) -> Opinion:
    """What the peers of this suspect say; `vouching` are those whose checks are good, who may be asked."""
    subject = subject_of(suspect)
    if subject is None:
        return Opinion(outcome=Outcome.NEEDLESS, message="")
    peers = sorted((each for each in bench.peers if each.name != suspect.name), key=lambda each: each.name)
    asked = [each for each in peers if each.question is not None and each.question.about == subject]
    asked = [each for each in asked if not _is_outdated(bench, suspect, each)]
    answers = {each.name: _answer(bench, each) for each in asked}
    for peer in asked:
        if answers[peer.name] is _Answer.FAILED:
            return Opinion(outcome=Outcome.FAILED, message=_contradiction(suspect, peer))
    for name, answer in answers.items():
        if answer is _Answer.PASSED:
            return Opinion(outcome=Outcome.PASSED, message=f"{name} passed a probe of the sizes that failed")
    for name, answer in answers.items():
        if answer is _Answer.OPEN:
            awaited = Awaited(reason=bench.own[suspect.name].reason, peers=(), begun=True, open=True)
            return _awaited(awaited, f"{name} is asked to probe the sizes that failed, and has not answered yet")
    return _unanswered(bench, suspect, vouching, answers)


def _unanswered(bench: Bench, suspect: Replica, vouching: Sequence[Replica], asked: Mapping[str, _Answer]) -> Opinion:
    """Nobody has answered, nobody will: whom to ask next, or why there is nobody left to ask."""
    reason = bench.own[suspect.name].reason
    able = [
        each.name
        for each in sorted(vouching, key=lambda each: (_was_deaf(each), each.name))
        if may_be_asked(each) and each.name not in asked
    ]
    taken = _taken(bench, suspect)
    free = tuple(name for name in able if name not in taken)
    if free and len(asked) < _MOST_ASKED:
        awaited = Awaited(reason=reason, peers=free, begun=bool(asked), open=False)
        return _awaited(awaited, f"{free[0]} has yet to probe the sizes that failed")
    unread = [name for name, answer in asked.items() if answer is _Answer.UNREAD]
    if unread:
        awaited = Awaited(reason=reason, peers=(), begun=True, open=False)
        return _awaited(awaited, f"{unread[0]} was asked to probe the sizes that failed, and cannot be read")
    if asked:
        message = f"asked to probe the sizes that failed, {', '.join(asked)} did not answer"
        return Opinion(outcome=Outcome.IN_VAIN, message=message)
    if able:
        awaited = Awaited(reason=reason, peers=(), begun=False, open=False)
        return _awaited(awaited, "every peer has been asked about another replica, and that comes first")
    return Opinion(outcome=Outcome.IN_VAIN, message="no peer may be asked to probe the sizes that failed")


def _was_deaf(peer: Replica) -> bool:
    """Whether it never took up what this boot of it was asked last, about whomever: others are asked first."""
    question, identity = peer.question, peer.identity
    if question is None or identity is None or identity.boot_id != question.boot_id:
        return False
    return identity.probe is None or identity.probe.order_id != question.id


def _awaited(awaited: Awaited, message: str) -> Opinion:
    return Opinion(outcome=Outcome.AWAITED, message=message, awaited=awaited)


def _taken(bench: Bench, suspect: Replica) -> set[str]:
    """Peers that were asked about another suspect. What they answer blames that one or clears it, as long as it
    is one: a question in its place would be undone by the next."""
    others = {
        subject_of(each)
        for each in bench.peers
        if each.name in bench.suspects and each.name != suspect.name and each.skip is None
    }
    return {each.name for each in bench.peers if each.question is not None and each.question.about in others}


def _answer(bench: Bench, peer: Replica) -> _Answer:
    question, identity = peer.question, peer.identity
    if question is None:
        return _Answer.NONE
    limits, waited = bench.pool.spec, abs(bench.at - question.asked_at)
    patience = max(_HEARD_BY_SECONDS, _HEARD_BY_EVALUATIONS * float(limits.integrity.evaluation_seconds))
    longest = patience + _DEADLINES * limits.server.deadline_seconds
    if identity is None:
        # It serves, and was not read this time: what it has said may stand, yet others may be heard meanwhile.
        unread = _Answer.OPEN if waited < longest else _Answer.UNREAD
        return unread if peer.ready else _Answer.NONE
    if identity.boot_id != question.boot_id or not _is_to_be_believed(bench, peer):
        return _Answer.NONE
    probe = identity.probe
    if probe is None or probe.order_id != question.id:
        return _Answer.OPEN if waited < patience else _Answer.NONE
    if probe.result is ProbeResult.RUNNING:
        return _Answer.OPEN if waited < longest else _Answer.NONE
    if _failure(peer) is not None:
        return _Answer.FAILED
    # What a server left out, or did not live to tell, has not passed.
    passed = {item.size for item in probe.items if item.result == "ok"}
    whole = probe.result is ProbeResult.PASSED and passed.issuperset(question.sizes)
    return _Answer.PASSED if whole and peer.name in bench.good else _Answer.NONE


def _is_outdated(bench: Bench, suspect: Replica, peer: Replica) -> bool:
    """Whether the peer passed long ago what fails on the suspect no more: what does now may fail on both."""
    question = peer.question
    if question is None or _answer(bench, peer) is not _Answer.PASSED:
        return False
    old = abs(bench.at - question.asked_at) >= bench.pool.spec.quarantine.max_seconds
    return old and not set(failed_sizes(suspect.identity)) & set(question.sizes)


def _is_to_be_believed(bench: Bench, peer: Replica) -> bool:
    """Not what fails its golden probe, or is another than it should be. What mismatches too still shows what fails."""
    return peer.name in bench.suspects or bench.own[peer.name].result is not Result.BAD


def _failure(peer: Replica) -> ItemReport | None:
    """The first of the sizes that it was asked about at which it failed."""
    question, probe = peer.question, peer.identity.probe if peer.identity else None
    if question is None or probe is None:
        return None
    return next((item for item in probe.items if item.result != "ok" and item.size in question.sizes), None)


def _contradiction(suspect: Replica, peer: Replica) -> str:
    there = _failure(peer)
    if there is None:
        return ""
    violations = suspect.identity.recent_violations if suspect.identity else ()
    here = next((f" ({count_words(each)})" for each in violations if each.size == there.size), "")
    told = f"{size_words(there.size)} fails on {suspect.name}{here}"
    return f"{told} and, when probed, on {peer.name} too ({count_words(there)})"
