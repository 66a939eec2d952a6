"""Rejection: when a revision itself is given up, and what is gone back to.

Place: reconcile asks it after rollout, before status; recall and plan act on it in the next pass. Must never:
reject what has no successor, or in any mode but Repair; what is left serves on then.

A revision is rejected when it has been at fault (RevisionFault) for baseSeconds, or when maxRestarts replacements of
its replicas repeated their fault. Where what is at fault is itself what was gone back to, it stays; where that never
comes up at all, it is given up, or what was rejected would serve on with no way back to it. Another spec
clears the way; the same one is tried again when the pool's annotation encoderpool.io/retry newly names its hash.
"""

from __future__ import annotations

from dataclasses import replace

from encoder_operator import history, manifests, vocabulary
from encoder_operator.actions import is_cordoned_here
from encoder_operator.eviction import End, Exhausted, Next
from encoder_operator.observation import Observation
from encoder_operator.spec import EncoderPool, Mode
from encoder_operator.standing import NEVER, Replaced, Revision, Role, Standing
from encoder_operator.timestamps import to_seconds, to_text
from encoder_operator.wording import counted


def settle(pool: EncoderPool, standing: Standing, observation: Observation, end: End | None) -> Standing:
    """The standing decisions with replacements counted, and without what is given up."""
    revisions = tuple(_counted(pool, each, observation, end) for each in standing.revisions)
    standing = replace(standing, revisions=revisions)
    if pool.spec.quarantine.mode is not Mode.REPAIR:
        return standing
    now = to_text(observation.at)
    for each in revisions:
        if _is_bad(pool, standing, each, observation.at, end):
            return _without(standing, each, vocabulary.REVISION_FAULT, now)
        if _never_comes_up(standing, each, observation):
            return _without(standing, each, vocabulary.DEADLINE_EXCEEDED, now)
    return standing


def is_given_up(standing: Standing, revision: str) -> bool:
    """Whether this revision was rejected, be it that it serves on for a while."""
    rejected = [each for each in (*standing.revisions, *standing.past.rejected) if each.role is Role.REJECTED]
    return revision in {each.hash for each in rejected}


def why_it_stays(pool: EncoderPool, standing: Standing, observation: Observation) -> str | None:
    """In words, why what serves is not given up though it is at fault; None where it is not, or will be."""
    within, now = pool.spec.quarantine.max_seconds, observation.at
    if not standing.revisions or (len(standing.revisions) > 1 and _current(standing) is not None):
        return None
    last = standing.revisions[-1]
    fault = _fault(pool, last, observation)
    if fault is None:
        return None
    before = history.given_up_before(standing, last, within, now)
    if before is not None:
        cause = "the cause is probably not the revision, so nothing earlier is gone back to"
        return f"{fault}, and {before.hash} was given up shortly before: {cause}"
    if history.successor(standing.past.kept, last.hash) is None:
        return f"{fault}, and no earlier one is known to go back to: change the spec"
    return None


def _fault(pool: EncoderPool, revision: Revision, observation: Observation) -> str | None:
    limits = pool.spec.quarantine
    if revision.replaced.attempts >= limits.max_restarts and _is_out(revision, observation):
        return f"{counted(revision.replaced.attempts, 'replacement')} repeated the fault of revision {revision.hash}"
    if limits.mode is Mode.REPAIR and _is_at_fault(pool, revision, observation.at):
        return f"revision {revision.hash} is at fault"
    return None


def _current(standing: Standing) -> Revision | None:
    return next((each for each in standing.revisions if each.role is Role.CURRENT), None)


def _counted(pool: EncoderPool, revision: Revision, observation: Observation, end: End | None) -> Revision:
    known = revision.replaced
    if isinstance(end, Next) and end.revision == revision.hash:
        # One that was named and then kept from going is no replacement.
        stayed = known.uid in {each.uid for each in observation.replicas}
        attempts = known.attempts + (0 if stayed else 1)
        replaced = Replaced(attempts=attempts, uid=end.uid, at=to_text(observation.at))
        return replace(revision, replaced=replaced)
    if known.at is None or not _has_served(revision, observation, pool.spec.quarantine.max_seconds):
        return revision
    return replace(revision, replaced=NEVER)


def _has_served(revision: Revision, observation: Observation, seconds: float) -> bool:
    """Whether all its replicas, those in place of others too, have served for so long: a model that loads for as
    long has shown nothing yet."""
    wanted = next((each.desired for each in observation.workloads if each.revision == revision.hash), 0)
    own = [each for each in observation.replicas if each.revision == revision.hash]
    since = [each.ready_since for each in own if each.serving]
    served = all(at is not None and observation.at - at >= seconds for at in since)
    return served and bool(since) and len(own) >= wanted and not _is_out(revision, observation)


def _is_out(revision: Revision, observation: Observation) -> bool:
    return any(is_cordoned_here(each) for each in observation.replicas if each.revision == revision.hash)


def _is_bad(pool: EncoderPool, standing: Standing, revision: Revision, now: float, end: End | None) -> bool:
    exhausted = isinstance(end, Exhausted) and end.revision == revision.hash
    if not exhausted and not _is_at_fault(pool, revision, now):
        return False
    match revision.role:
        case Role.TARGET:
            return _current(standing) is not None
        case Role.CURRENT if len(standing.revisions) == 1:
            return history.way_back(standing, revision, pool.spec.quarantine.max_seconds, now) is not None
        case _:
            return False


def _is_at_fault(pool: EncoderPool, revision: Revision, now: float) -> bool:
    at_fault = revision.reason == vocabulary.REVISION_FAULT
    return at_fault and now - to_seconds(revision.since) >= pool.spec.quarantine.base_seconds


def _never_comes_up(standing: Standing, revision: Revision, observation: Observation) -> bool:
    """Whether this was gone back to, and not one of its replicas is Ready long after they should be."""
    if revision.role is not Role.TARGET or not any(each.role is Role.REJECTED for each in standing.revisions):
        return False
    workload = next((each for each in observation.workloads if each.revision == revision.hash), None)
    stuck = workload is not None and workload.message is not None and workload.ready == 0 and workload.desired > 0
    return stuck and observation.at - to_seconds(revision.since) >= manifests.PROGRESS_DEADLINE_SECONDS


def _without(standing: Standing, bad: Revision, reason: str, now: str) -> Standing:
    given_up = replace(bad, role=Role.REJECTED, reason=reason, since=now)
    others = tuple(each for each in standing.revisions if each.hash != bad.hash)
    kept = history.without(standing.past.kept, [bad.hash])
    if not others:
        # Whoever is good among its replicas serves on until the successor does.
        return replace(standing, revisions=(given_up,), past=replace(standing.past, kept=kept))
    past = replace(standing.past, kept=kept, rejected=(given_up, *standing.past.rejected))
    return replace(standing, revisions=others, past=past)
