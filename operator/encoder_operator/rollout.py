"""Rollout: what this pass taught the standing decisions.

Place: after judge, before status; the next plan acts on it. Must never: relearn the identity of a revision that has
served in full, or let an old revision go before its successor is Ready in full.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from encoder_operator import vocabulary
from encoder_operator.learning import confirmed, is_undecided, lesson, overruling
from encoder_operator.observation import Observation
from encoder_operator.replacement import Handover, held_accelerators, scales
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Revision, Role, Standing
from encoder_operator.timestamps import to_text
from encoder_operator.verdict import Judgement, Result, Verdict


def advance(pool: EncoderPool, standing: Standing, observation: Observation, judgement: Judgement) -> Standing:
    """The standing decisions after this pass: lessons learned, and the target promoted once it may serve alone."""
    verdicts = {each.subject: each for each in judgement.revisions}
    revisions = [_learned(pool, standing, each, observation) for each in standing.revisions]
    past = standing.past
    target = next((each for each in revisions if each.role is Role.TARGET), None)
    if target is not None and _is_complete(pool, target, observation, verdicts.get(target.hash)):
        over = tuple(each for each in revisions if each.role is Role.REJECTED)
        past = replace(past, rejected=over + past.rejected)
        revisions = [replace(target, role=Role.CURRENT, scale=None)]
    elif target is not None and len(revisions) > 1:
        undecided = _is_undecided(pool, target, observation, verdicts.get(target.hash))
        if undecided or not _is_bad(verdicts.get(target.hash)):
            revisions = _scaled(pool, standing, observation, revisions, undecided=undecided)
    before = {each.hash: each for each in standing.revisions}
    told = [_told(before[each.hash], each, verdicts.get(each.hash), to_text(observation.at)) for each in revisions]
    return Standing(revisions=tuple(told), templates=standing.templates, past=past)


def _learned(pool: EncoderPool, standing: Standing, revision: Revision, observation: Observation) -> Revision:
    replicas = [each for each in observation.replicas if each.revision == revision.hash]
    identity = pool.spec.model.identity
    found = {each.identity.fingerprint for each in replicas if each.identity is not None} - {None}
    revision = replace(revision, distinct_identities=len(found))
    known, allowed = revision.expected, identity.max_signature_distance
    if identity.policy is not IdentityPolicy.LEARN:
        return revision
    if known is not None and not revision.pinned:
        final = _has_served(standing, revision)
        learned = None if final else overruling(replicas, known, allowed, pool.spec.replicas)
    elif known is not None and (kept := confirmed(replicas, known, allowed)) is not None:
        learned = kept
    else:
        learned = lesson(replicas, allowed).expected
    return revision if learned is None else replace(revision, expected=learned, pinned=False)


def _has_served(standing: Standing, revision: Revision) -> bool:
    """Whether it served in full as what it is known to be: it does, or it is gone back to, or a status was lost."""
    if revision.role is not Role.TARGET:
        return True
    return any(each.hash == revision.hash and each.expected == revision.expected for each in standing.past.kept)


def _is_complete(pool: EncoderPool, target: Revision, observation: Observation, verdict: Verdict | None) -> bool:
    if _is_bad(verdict) or (verdict is not None and verdict.awaits is not None):
        # What a peer is about to say of one replica may be the revision's fault.
        return False
    workload = next((each for each in observation.workloads if each.revision == target.hash), None)
    return workload is not None and workload.desired == pool.spec.replicas and workload.ready >= workload.desired


def _is_undecided(pool: EncoderPool, target: Revision, observation: Observation, verdict: Verdict | None) -> bool:
    """Whether what was learned is suspect, and replicas that are yet to come may overrule it."""
    if target.expected is None or verdict is None or verdict.reason != vocabulary.REFERENCE_SUSPECT:
        return False
    replicas = [each for each in observation.replicas if each.revision == target.hash and each.unschedulable is None]
    allowed = pool.spec.model.identity.max_signature_distance
    return is_undecided(replicas, target.expected, allowed, pool.spec.replicas)


def _is_bad(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.result is Result.BAD


def _scaled(
    pool: EncoderPool,
    standing: Standing,
    observation: Observation,
    revisions: Sequence[Revision],
    *,
    undecided: bool,
) -> list[Revision]:
    old, new = sorted(revisions, key=lambda each: each.role is Role.TARGET)
    held = held_accelerators(pool, standing.templates.get(old.hash, {}))
    handover = Handover(pool=pool, old=old, new=new, held=held, observation=observation, undecided=undecided)
    found = scales(handover)
    return [replace(old, scale=found.old), replace(new, scale=found.new)]


def _told(before: Revision, after: Revision, verdict: Verdict | None, now: str) -> Revision:
    reason = after.reason if verdict is None or after.role is Role.REJECTED else verdict.reason
    unchanged = (before.role, before.reason, before.scale) == (after.role, reason, after.scale) and before.since
    return replace(after, reason=reason, since=before.since if unchanged else now)
