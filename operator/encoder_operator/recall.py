"""Recall: the standing decisions, from the pool's status and its children, settled with what the spec asks now.

Place: the first step of a reconcile, before plan. Must never: relearn what a child still tells, or read a clock.

The status speaks first. Where it was lost, the Deployments tell which revisions there are, and the ConfigMap
what is expected of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from encoder_operator import manifests, names, vocabulary
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Expected, Revision, Role, Standing
from encoder_operator.timestamps import to_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """What a pool's children remember: its Deployments, and the data of its ConfigMap of identities."""

    deployments: Sequence[Mapping[str, Any]] = field(hash=False)
    identities: Mapping[str, str] = field(hash=False)


def recall(pool: EncoderPool, children: Children, now: float) -> Standing:
    """The revisions that stand: the one that serves, and the one that the spec asks for."""
    target = names.revision_hash(pool.spec)
    templates = {
        revision: template
        for each in children.deployments
        if (revision := _revision_of(each)) and (template := manifests.applied_template(each)) is not None
    }
    told = [_from_status(each) for each in pool.status.get("revisions", ())]
    known = told or _adopted(children, target, to_text(now))
    # A revision whose template is gone cannot be planned: its pods are as good as pruned.
    current = next((each for each in known if each.role is Role.CURRENT and each.hash in {target, *templates}), None)
    revisions = [] if current is None else [current]
    if current is None or current.hash != target:
        begun = next((each for each in known if each.hash == target), _begun(target, to_text(now)))
        revisions.append(replace(begun, role=Role.TARGET))
    return Standing(
        revisions=tuple(_under_policy(pool, _completed(each, children), target) for each in revisions),
        templates=templates,
    )


def _from_status(entry: Mapping[str, Any]) -> Revision:
    fingerprint = entry.get("fingerprint")
    return Revision(
        hash=entry["hash"],
        role=Role(entry["role"]),
        expected=None if fingerprint is None else Expected(fingerprint=fingerprint, signature=entry.get("signature")),
        distinct_identities=entry.get("distinctIdentities", 0),
        reason=entry.get("reason", vocabulary.NO_EVIDENCE),
        since=entry.get("since", ""),
        pinned=entry.get("identityPolicy") == IdentityPolicy.PINNED.value,
    )


def _adopted(children: Children, target: str, since: str) -> list[Revision]:
    """Without a status: the other Deployment with the most Ready replicas is the one that serves."""
    ready = {
        revision: int((each.get("status") or {}).get("readyReplicas") or 0)
        for each in children.deployments
        if (revision := _revision_of(each))
    }
    others = sorted((revision for revision in ready if revision != target), key=lambda each: (-ready[each], each))
    return [replace(_begun(each, since), role=Role.CURRENT) for each in others[:1]]


def _begun(revision: str, since: str) -> Revision:
    return Revision(
        hash=revision,
        role=Role.TARGET,
        expected=None,
        distinct_identities=0,
        reason=vocabulary.NO_EVIDENCE,
        since=since,
    )


def _completed(revision: Revision, children: Children) -> Revision:
    """With the expectation that the ConfigMap still holds, where the status has none."""
    if revision.expected is not None:
        return revision
    try:
        held = json.loads(children.identities.get(names.identity_key(revision.hash), "{}"))
    except ValueError:
        return revision
    match held:
        case {"policy": IdentityPolicy.OFF.value}:
            return replace(revision, unchecked=True)
        case {"fingerprint": str(fingerprint)}:
            signature = held.get("signature")
            expected = Expected(fingerprint=fingerprint, signature=signature if isinstance(signature, str) else None)
            return replace(revision, expected=expected, pinned=held.get("policy") == IdentityPolicy.PINNED.value)
        case _:
            return revision


def _under_policy(pool: EncoderPool, revision: Revision, target: str) -> Revision:
    """A pin speaks of the revision that the spec asks for; an earlier one keeps what it was admitted with."""
    identity = pool.spec.model.identity
    match identity.policy, identity.pinned:
        case IdentityPolicy.OFF, _:
            return replace(revision, expected=None, pinned=False)
        case IdentityPolicy.PINNED, pinned if pinned is not None:
            expected = Expected(fingerprint=pinned.fingerprint, signature=pinned.signature)
            if revision.hash == target or revision.expected is None:
                return replace(revision, expected=expected, pinned=True)
            return revision
        case _:
            return revision


def _revision_of(deployment: Mapping[str, Any]) -> str | None:
    labels: Mapping[str, str] = deployment.get("metadata", {}).get("labels") or {}
    return labels.get(vocabulary.LABEL_REVISION)
