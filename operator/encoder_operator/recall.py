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

from encoder_operator import history, manifests, names, vocabulary
from encoder_operator.replacement import initial_scales
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import NEVER, Expected, Kept, Past, Replaced, Revision, Role, Standing
from encoder_operator.timestamps import to_text

_MOST_REJECTED = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Children:
    """What a pool's children remember: its Deployments, and the data of its ConfigMaps of identities and of the
    revisions that it may go back to."""

    deployments: Sequence[Mapping[str, Any]] = field(hash=False)
    identities: Mapping[str, str] = field(hash=False)
    history: Mapping[str, str] = field(hash=False)


def recall(pool: EncoderPool, children: Children, now: float) -> Standing:
    """The revisions that stand: the one that serves, and the one that the spec asks for or, where that was
    rejected, the one that is gone back to."""
    asked, at = names.revision_hash(pool.spec), to_text(now)
    deployed = {
        revision: template
        for each in children.deployments
        if (revision := _revision_of(each)) and (template := manifests.applied_template(each)) is not None
    }
    told = [_from_status(each) for each in pool.status.get("revisions", ())]
    known = told or _adopted(children, asked, at)
    rejected = _rejected(pool, known)
    kept = history.without(history.read(children.history), [each.hash for each in rejected])
    templates = {**{each.hash: each.template for each in kept}, **deployed}
    # A revision whose template is gone cannot be planned: its pods are as good as pruned.
    current = next((each for each in known if each.role is Role.CURRENT and each.hash in {asked, *templates}), None)
    if current is None:
        # A rejected revision serves on until its successor does.
        current = next((each for each in rejected if each.hash in deployed), None)
    goal = _goal(asked, known, rejected, kept, current, at)
    if current is not None and goal is not None and goal.hash == current.hash and current.role is Role.REJECTED:
        # Nothing is left to go back to: it is tried again in its own place.
        current = None
    live = [] if current is None else [current]
    if goal is not None and (current is None or current.hash != goal.hash):
        live.append(replace(goal, role=Role.TARGET))
    live = initial_scales(pool, live, _deployed_replicas(children))
    live = [_under_policy(pool, _completed(each, children), asked) for each in live]
    if live and live[0].role is Role.CURRENT and live[0].hash in templates:
        kept = history.served(kept, live[0], templates[live[0].hash], at)
    past = Past(
        rejected=tuple(each for each in rejected if each.hash not in {one.hash for one in live})[:_MOST_REJECTED],
        kept=kept,
        retried=pool.retry,
    )
    return Standing(revisions=tuple(live), templates=templates, past=past)


def _rejected(pool: EncoderPool, known: Sequence[Revision]) -> list[Revision]:
    """Those that were rejected and that no newly set annotation asks to try again."""
    again = pool.retry if pool.retry != pool.status.get("retried") else None
    return [each for each in known if each.role is Role.REJECTED and each.hash != again]


def _goal(
    asked: str,
    known: Sequence[Revision],
    rejected: Sequence[Revision],
    kept: Sequence[Kept],
    current: Revision | None,
    at: str,
) -> Revision | None:
    """What is to serve in the end: what the spec asks for, or the last that was good. Where what the spec asks for
    was rejected and nothing is left to go back to, it is tried again rather than nothing."""
    if asked in {each.hash for each in rejected}:
        if current is not None and current.role is Role.CURRENT:
            return current
        back = history.successor(kept, asked)
        if back is not None:
            begun = next((each for each in known if each.hash == back.hash), _begun(back.hash, at))
            return replace(begun, expected=begun.expected or back.expected)
    found = next((each for each in known if each.hash == asked), _begun(asked, at))
    return replace(found, replaced=NEVER) if found.role is Role.REJECTED else found


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
        scale=entry.get("replicas"),
        replaced=Replaced(attempts=entry.get("attempts", 0), uid=entry.get("replacing"), at=entry.get("replacedAt")),
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
        scale=None,
    )


def _deployed_replicas(children: Children) -> dict[str, int]:
    return {_revision_of(each) or "": int(each["spec"].get("replicas", 1)) for each in children.deployments}


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
            if revision.hash == target:
                return replace(revision, expected=expected, pinned=True)
            # What served with nothing to be compared with goes on so: the pin is another's.
            return replace(revision, unchecked=revision.expected is None)
        case _:
            return revision


def _revision_of(deployment: Mapping[str, Any]) -> str | None:
    labels: Mapping[str, str] = deployment.get("metadata", {}).get("labels") or {}
    return labels.get(vocabulary.LABEL_REVISION)
