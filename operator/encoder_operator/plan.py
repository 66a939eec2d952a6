"""Plan: the objects that a pool wants now.

Place: spec → **plan** → apply. Must never: ask the cluster or a clock, or return two objects with one
identity.

A revision is live while it is the one that the spec asks for and was not rejected, or stands in the standing
decisions: how long an old one stays beside its successor is decided there, and an object that is not planned is
pruned.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from encoder_operator import history, manifests, names
from encoder_operator.pod_template import pod_template
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Expected, Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The objects that a pool wants, in the order in which they are applied.

    `target` is the revision that the spec asks for; `revisions` are all live ones, the target last.
    `identities` is, by revision, the text of the file that tells its replicas what they must be."""

    namespace: str
    pool: str
    pool_uid: str
    target: str
    revisions: tuple[str, ...]
    identities: Mapping[str, str] = field(hash=False)
    objects: tuple[dict[str, Any], ...] = field(hash=False)


def plan(pool: EncoderPool, standing: Standing) -> Plan:
    """The objects for the target revision and for each revision that still stands.

    An earlier revision whose template is lost is left out: the spec no longer says what it was."""
    target = names.revision_hash(pool.spec)
    earlier = [each.hash for each in standing.revisions if each.hash != target and each.hash in standing.templates]
    templates = {revision: copy.deepcopy(dict(standing.templates[revision])) for revision in earlier}
    known = standing.templates.get(target)
    if target not in {each.hash for each in standing.past.rejected}:
        templates[target] = pod_template(pool, target) if known is None else copy.deepcopy(dict(known))
    expected = {
        revision: manifests.expected_identity(
            pool, revision, _policy(pool, standing, revision), _expected(pool, standing, revision, target)
        )
        for revision in templates
    }
    return Plan(
        namespace=pool.namespace,
        pool=pool.name,
        pool_uid=pool.uid,
        target=target,
        revisions=tuple(templates),
        identities=expected,
        objects=(
            manifests.service_account(pool),
            manifests.identities(pool, expected),
            *_history(pool, standing),
            manifests.service(pool),
            manifests.disruption_budget(pool),
            *(
                manifests.deployment(pool, revision, template, _scale(pool, standing, revision))
                for revision, template in templates.items()
            ),
        ),
    )


def _policy(pool: EncoderPool, standing: Standing, revision: str) -> IdentityPolicy:
    """The policy that a revision's replicas are told: after Off, Learn waits until there is something to tell, and a
    pin that speaks of another revision holds nobody who served unchecked."""
    policy = pool.spec.model.identity.policy
    known = next((each for each in standing.revisions if each.hash == revision), None)
    unchecked = known is not None and known.unchecked and known.expected is None
    return IdentityPolicy.OFF if unchecked else policy


def _history(pool: EncoderPool, standing: Standing) -> tuple[dict[str, Any], ...]:
    kept = standing.past.kept
    return (manifests.history(pool, history.render(kept)),) if kept else ()


def _scale(pool: EncoderPool, standing: Standing, revision: str) -> int:
    scale = next((each.scale for each in standing.revisions if each.hash == revision), None)
    return pool.spec.replicas if scale is None else scale


def _expected(pool: EncoderPool, standing: Standing, revision: str, target: str) -> Expected | None:
    """What is expected of a revision. A pin speaks of the target: an earlier revision keeps what it was
    admitted with, or changing image and pin together would hold the replicas that still serve."""
    held = next((each.expected for each in standing.revisions if each.hash == revision), None)
    identity = pool.spec.model.identity
    if identity.policy is not IdentityPolicy.PINNED or identity.pinned is None:
        return held
    pinned = Expected(fingerprint=identity.pinned.fingerprint, signature=identity.pinned.signature)
    return pinned if revision == target or held is None else held
