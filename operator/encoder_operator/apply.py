"""Apply: make the API server agree with a plan.

Place: plan → **apply** → observe. Must never: decide what is wanted, write what already holds, take over or
delete an object that is not the pool's, or touch a Secret.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from encoder_operator.cluster import ChildKind, Cluster, JsonObject
from encoder_operator.comparison import holds
from encoder_operator.errors import ForeignObjectError
from encoder_operator.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What was written, as `Kind/name`; both empty where the API server agreed already."""

    applied: tuple[str, ...]
    pruned: tuple[str, ...]


async def apply(cluster: Cluster, plan: Plan, deployments: Sequence[JsonObject]) -> Changes:
    """Apply each object of the plan that differs from what is there, then prune what is no longer wanted.
    `deployments` are those of the pool as they were listed for this plan.

    Whose each name is comes first: a pool that cannot have all its objects gets none of them."""
    live = await _live(cluster, plan, deployments)
    for manifest in plan.objects:
        key = _key(manifest)
        if key in live and not is_owned(live[key], plan.pool_uid):
            raise ForeignObjectError(key[0].value, plan.namespace, key[1])
    applied = []
    for manifest in plan.objects:
        key = _key(manifest)
        before = live.get(key)
        if before is not None and holds(before, manifest):
            continue
        after = await cluster.apply_child(manifest)
        if before is None or _version(before) != _version(after):
            applied.append(_title(key))
    return Changes(applied=tuple(applied), pruned=await _prune(cluster, plan, live))


_Key = tuple[ChildKind, str]


async def _live(cluster: Cluster, plan: Plan, deployments: Sequence[JsonObject]) -> dict[_Key, JsonObject]:
    """What has the pool's labels, and what else has a wanted name: its labels may be gone, or never were."""
    live = {(ChildKind.DEPLOYMENT, each["metadata"]["name"]): each for each in deployments}
    for kind in ChildKind:
        if kind is ChildKind.DEPLOYMENT:
            continue
        for child in await cluster.list_children(kind, plan.namespace, plan.pool):
            live[kind, child["metadata"]["name"]] = child
    for manifest in plan.objects:
        kind, name = key = _key(manifest)
        if key not in live:
            namesake = await cluster.get_child(kind, plan.namespace, name)
            if namesake is not None:
                live[key] = namesake
    return live


async def _prune(cluster: Cluster, plan: Plan, live: Mapping[_Key, JsonObject]) -> tuple[str, ...]:
    wanted = {_key(manifest) for manifest in plan.objects}
    pruned = []
    for key, child in live.items():
        kind, name = key
        metadata = child["metadata"]
        if key in wanted or not is_owned(child, plan.pool_uid) or metadata.get("deletionTimestamp"):
            continue
        await cluster.delete_child(kind, plan.namespace, name, metadata["uid"])
        pruned.append(_title(key))
    return tuple(pruned)


def _key(manifest: Mapping[str, Any]) -> _Key:
    return ChildKind(manifest["kind"]), manifest["metadata"]["name"]


def _title(key: _Key) -> str:
    return f"{key[0].value}/{key[1]}"


def _version(child: Mapping[str, Any]) -> object:
    return child["metadata"].get("resourceVersion")


def is_owned(child: Mapping[str, Any], pool_uid: str) -> bool:
    """Whether this object is the child of exactly this pool, not of an earlier one of its name."""
    owners = child.get("metadata", {}).get("ownerReferences") or ()
    return any(owner.get("uid") == pool_uid and owner.get("controller") for owner in owners)
