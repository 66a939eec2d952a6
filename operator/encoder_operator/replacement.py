"""Replacement: how many replicas each revision is scaled to while one takes another's place.

Place: rollout asks it after judge; the next plan scales by it. Must never: take an old replica for a new one that
could not use its accelerator, take two at once, or take one while an earlier step is still under way.

Surge brings the new revision up beside the old one. InPlace lets one old replica go for each new one. Auto surges,
and replaces only where new replicas find no accelerator.

Where new replicas measured two identities and it takes more of them to tell which is right, those that are held are
as good as up: no further one would ever come, and nobody would know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from encoder_operator.budget import serves
from encoder_operator.observation import Observation, Replica
from encoder_operator.spec import EncoderPool, Strategy
from encoder_operator.standing import Revision
from encoder_operator.timestamps import to_seconds

# The scheduler looks at a waiting pod again within ten seconds of a pod's end.
SETTLE_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Scales:
    """Replicas of the old revision and of the new one; None: as many as the spec asks for."""

    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Handover:
    """One revision taking another's place; `held` is how many accelerators a replica of the old one has. `undecided`:
    only more replicas of the new one can tell what its identity is."""

    pool: EncoderPool
    old: Revision
    new: Revision
    held: int
    observation: Observation
    undecided: bool = False

    @property
    def wanted(self) -> int:
        """How many replicas the spec asks for."""
        return self.pool.spec.replicas

    @property
    def left(self) -> int:
        """How many old replicas are to stay for now."""
        return self.wanted if self.old.scale is None else min(self.old.scale, self.wanted)


def scales(handover: Handover) -> Scales:
    """The scales from now on."""
    match handover.pool.spec.rollout.strategy:
        case Strategy.SURGE:
            return Scales(old=None, new=None)
        case Strategy.IN_PLACE:
            left = handover.left - 1 if _may_go_in_place(handover) else handover.left
            ready = sum(each.ready for each in _replicas(handover, handover.new))
            return Scales(old=left, new=min(handover.wanted, max(handover.wanted - left, ready)))
        case Strategy.AUTO:
            left = handover.left - 1 if _may_go_for_an_accelerator(handover) else handover.left
            return Scales(old=None if left >= handover.wanted else left, new=None)


def initial_scales(pool: EncoderPool, revisions: Sequence[Revision], deployed: Mapping[str, int]) -> list[Revision]:
    """The live revisions with a scale from the start: one alone has what the spec asks for, and in place nothing
    comes up beside the old one. `deployed` is to what each Deployment is scaled."""
    if len(revisions) == 1:
        return [replace(revisions[0], scale=None)]
    if pool.spec.rollout.strategy is not Strategy.IN_PLACE:
        return list(revisions)
    return [each if each.scale is not None else replace(each, scale=deployed.get(each.hash, 0)) for each in revisions]


def held_accelerators(pool: EncoderPool, template: Mapping[str, Any]) -> int:
    """How many of the pool's accelerators one replica of this pod template has."""
    accelerator = pool.spec.accelerator
    if accelerator is None:
        return 0
    containers = template.get("spec", {}).get("containers") or [{}]
    limits = (containers[0].get("resources") or {}).get("limits") or {}
    return int(Decimal(limits.get(accelerator.resource_name, "0")))


def _may_go_in_place(handover: Handover) -> bool:
    coming = [each for each in _replicas(handover, handover.new) if not _is_up(handover, each)]
    complete = len(_replicas(handover, handover.new)) >= handover.wanted - handover.left
    return handover.left > 0 and complete and not coming and _last_step_is_done(handover) and _may_be_spared(handover)


def _may_go_for_an_accelerator(handover: Handover) -> bool:
    accelerator = handover.pool.spec.accelerator
    if accelerator is None or handover.held == 0 or handover.left == 0:
        return False
    new = _replicas(handover, handover.new)
    waiting = [each for each in new if each.unschedulable and accelerator.is_wanting(each.unschedulable)]
    placed = [each for each in new if each.unschedulable is None]
    if not waiting or not all(_is_up(handover, each) for each in placed) or not _may_be_spared(handover):
        return False
    # What went so far is enough for one more: somebody else has it, and would have the next one too.
    freed = (handover.wanted - handover.left) * handover.held
    if freed >= (len(placed) + 1) * accelerator.count:
        return False
    return _last_step_is_done(handover) and _has_settled(handover)


def _is_up(handover: Handover, replica: Replica) -> bool:
    return replica.ready or (handover.undecided and replica.identity is not None and replica.identity.is_measured)


def _may_be_spared(handover: Handover) -> bool:
    """Whether enough serve without one more of the old ones, where new ones are held."""
    least = max(1, handover.pool.spec.quarantine.min_serving)
    return not handover.undecided or sum(map(serves, handover.observation.replicas)) > least


def _last_step_is_done(handover: Handover) -> bool:
    """A replica that is still ending keeps its accelerator."""
    leaving = handover.old.hash in handover.observation.leaving
    return not leaving and len(_replicas(handover, handover.old)) <= handover.left


def _has_settled(handover: Handover) -> bool:
    begun = [to_seconds(each.since) for each in (handover.old, handover.new) if each.since]
    return handover.observation.at - max(begun, default=0.0) >= SETTLE_SECONDS


def _replicas(handover: Handover, revision: Revision) -> list[Replica]:
    return [each for each in handover.observation.replicas if each.revision == revision.hash]
