"""Rejection: when a revision itself is given up, and what is gone back to.

Place: reconcile asks it after rollout, before status; recall and plan act on it in the next pass. Must never:
reject what has no successor, or in any mode but Repair; what is left serves on then.

A revision is rejected when it is the target and has been at fault (RevisionFault) for baseSeconds, or when
maxRestarts replacements of its replicas repeated their fault. Another spec clears the way; the same one is tried
again when the pool's annotation encoderpool.io/retry newly names its hash.
"""

from __future__ import annotations

from dataclasses import replace

from encoder_operator import history, vocabulary
from encoder_operator.actions import is_cordoned_here
from encoder_operator.eviction import End, Exhausted, Next
from encoder_operator.observation import Observation
from encoder_operator.spec import EncoderPool, Mode
from encoder_operator.standing import NEVER, Replaced, Revision, Role, Standing
from encoder_operator.timestamps import to_seconds, to_text


def settle(pool: EncoderPool, standing: Standing, observation: Observation, end: End | None) -> Standing:
    """The standing decisions with replacements counted, and without what is given up."""
    counted = tuple(_counted(pool, each, observation, end) for each in standing.revisions)
    standing = replace(standing, revisions=counted)
    if pool.spec.quarantine.mode is not Mode.REPAIR:
        return standing
    bad = next((each for each in counted if _is_bad(pool, standing, each, observation.at, end)), None)
    return standing if bad is None else _without(standing, bad, to_text(observation.at))


def is_given_up(standing: Standing, revision: str) -> bool:
    """Whether this revision was rejected, be it that it serves on for a while."""
    rejected = [each for each in (*standing.revisions, *standing.past.rejected) if each.role is Role.REJECTED]
    return revision in {each.hash for each in rejected}


def has_no_way_back(pool: EncoderPool, standing: Standing, observation: Observation) -> Revision | None:
    """The revision whose replacements are used up while a replica is out, and that has no successor."""
    for each in standing.revisions:
        used_up = each.replaced.attempts >= pool.spec.quarantine.max_restarts
        if used_up and _is_out(each, observation) and history.successor(standing.past.kept, each.hash) is None:
            return each
    return None


def _counted(pool: EncoderPool, revision: Revision, observation: Observation, end: End | None) -> Revision:
    known = revision.replaced
    if isinstance(end, Next) and end.revision == revision.hash:
        replaced = Replaced(attempts=known.attempts + 1, uid=end.uid, at=to_text(observation.at))
        return replace(revision, replaced=replaced)
    if known.at is None or _is_out(revision, observation):
        return revision
    cured = observation.at - to_seconds(known.at) >= pool.spec.quarantine.max_seconds
    return replace(revision, replaced=NEVER) if cured else revision


def _is_out(revision: Revision, observation: Observation) -> bool:
    return any(is_cordoned_here(each) for each in observation.replicas if each.revision == revision.hash)


def _is_bad(pool: EncoderPool, standing: Standing, revision: Revision, now: float, end: End | None) -> bool:
    current = next((each for each in standing.revisions if each.role is Role.CURRENT), None)
    exhausted = isinstance(end, Exhausted) and end.revision == revision.hash
    match revision.role:
        case Role.TARGET if current is not None:
            at_fault = revision.reason == vocabulary.REVISION_FAULT
            return exhausted or (at_fault and now - to_seconds(revision.since) >= pool.spec.quarantine.base_seconds)
        case Role.CURRENT if len(standing.revisions) == 1:
            return exhausted and history.successor(standing.past.kept, revision.hash) is not None
        case _:
            return False


def _without(standing: Standing, bad: Revision, now: str) -> Standing:
    given_up = replace(bad, role=Role.REJECTED, reason=vocabulary.REVISION_FAULT, since=now)
    others = tuple(each for each in standing.revisions if each.hash != bad.hash)
    kept = history.without(standing.past.kept, [bad.hash])
    if not others:
        # Whoever is good among its replicas serves on until the successor does.
        return replace(standing, revisions=(given_up,), past=replace(standing.past, kept=kept))
    past = replace(standing.past, kept=kept, rejected=(given_up, *standing.past.rejected))
    return replace(standing, revisions=others, past=past)
