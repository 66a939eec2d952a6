"""Eviction: the ladder's end, where restarts did not cure a replica.

Place: cordon asks it about the replicas whose next rung is an eviction. Must never: let two evictions of one pool
run at once, or evict what the standing decisions do not name: the count is written down before the eviction, so
that an operator that dies between the two counts it once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoder_operator import manifests, vocabulary
from encoder_operator.actions import Evict, is_cordoned_here
from encoder_operator.history import way_back
from encoder_operator.observation import Observation, Replica
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Role, Standing

_COMING_UP = (vocabulary.STATE_STARTING, vocabulary.STATE_WARMING)
# What the last eviction gave free is found within this time; who finds no place by then waits for something else.
_OBSTRUCTED_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """This pod is the next to be evicted: to be written down first, and evicted in the next pass."""

    revision: str
    uid: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Exhausted:
    """Replacements repeated the fault as often as they may: the revision itself is bad."""

    revision: str


End = Next | Exhausted


def may_evict(pool: EncoderPool, standing: Standing, observation: Observation, replica: Replica) -> bool:
    """Whether this replica's ladder ends here. Where another's turn is not over, or replacements are used up and
    there is nothing to go back to, restarts and probes go on: a cause that is gone at last must be noticed."""
    revision = next((each for each in standing.revisions if each.hash == replica.revision), None)
    if revision is None or revision.role is Role.REJECTED:
        return False
    if revision.replaced.uid == replica.uid:
        return True
    if _is_under_way(standing, observation):
        return False
    left = revision.replaced.attempts < pool.spec.quarantine.max_restarts
    within = pool.spec.quarantine.max_seconds
    return left or way_back(standing, revision, within, observation.at) is not None


def evict_one(pool: EncoderPool, standing: Standing, ends: Sequence[Evict]) -> tuple[tuple[Evict, ...], End | None]:
    """Of the evictions that may be, the one to carry out now, or what is to be decided before the next."""
    revisions = {each.hash: each for each in standing.revisions}
    named = [each for each in ends if revisions[each.replica.revision].replaced.uid == each.replica.uid]
    if named or not ends:
        return tuple(named[:1]), None
    first = min(ends, key=lambda each: (-each.record.in_a_row, each.record.since, each.replica.name))
    revision = revisions[first.replica.revision]
    if revision.replaced.attempts >= pool.spec.quarantine.max_restarts:
        return (), Exhausted(revision=revision.hash)
    return (), Next(revision=revision.hash, uid=first.replica.uid)


def _is_under_way(standing: Standing, observation: Observation) -> bool:
    """Whether an earlier one has not gone yet, or what comes in its place is not up. Not for ever: what will never
    come up must not keep the others from being replaced."""
    out = {each.uid for each in observation.replicas if is_cordoned_here(each) and _is_about_to_go(each)}
    if any(each.replaced.uid in out for each in standing.revisions):
        return True
    wanted = {each.revision: each.desired for each in observation.workloads if each.message is None}
    present = {name: sum(each.revision == name for each in observation.replicas) for name in wanted}
    missing = any(present[each.hash] < wanted[each.hash] for each in standing.revisions if each.hash in wanted)
    return missing or any(_is_coming_up(each, observation.at) for each in observation.replicas)


def _is_about_to_go(replica: Replica) -> bool:
    return replica.identity is not None and replica.skip is None and replica.hand_cordon is None


def _is_coming_up(replica: Replica, now: float) -> bool:
    if is_cordoned_here(replica) or not replica.serving:
        return False
    obstructed = replica.obstacle is not None and replica.obstacle.lasting
    longest = _OBSTRUCTED_SECONDS if obstructed else manifests.PROGRESS_DEADLINE_SECONDS
    if now - max(replica.created_at, replica.container_started_at or 0.0) >= longest:
        return False
    return replica.identity is None or replica.identity.state in _COMING_UP
