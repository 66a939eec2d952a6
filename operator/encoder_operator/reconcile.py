"""Reconcile: the story of one pass over one pool.

    recall → plan → apply → observe → judge → cordon → act → status

Place: called by `pools` for one pool at a time, as often as something wakes it. Must never: remember anything
between two passes; everything is read anew, so that it may stop after any line and start over.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from encoder_operator import logbook, names
from encoder_operator.act import act, refresh
from encoder_operator.announcements import announcements, since_of
from encoder_operator.apply import apply, is_owned
from encoder_operator.cluster import Cluster
from encoder_operator.cordon import cordon
from encoder_operator.errors import ClusterError, OperatorError
from encoder_operator.events import Recorder
from encoder_operator.judge import judge
from encoder_operator.metrics import Metrics
from encoder_operator.observe import Sources, observe
from encoder_operator.plan import plan
from encoder_operator.recall import Children, recall
from encoder_operator.rejection import settle
from encoder_operator.rollout import advance
from encoder_operator.spec import EncoderPool, Management, parse
from encoder_operator.standing import Standing
from encoder_operator.status import refused, status
from encoder_operator.telling import to_be_told

_log = logging.getLogger(__name__)

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """All that a reconcile works with; `clock` gives Unix seconds."""

    sources: Sources
    recorder: Recorder
    metrics: Metrics
    clock: Callable[[], float]

    @property
    def cluster(self) -> Cluster:
        """The port to Kubernetes."""
        return self.sources.cluster


async def reconcile(namespace: str, name: str, world: World) -> float | None:
    """One pass over one pool; returns in how many seconds to look again, None where the pool is gone."""
    body = await world.cluster.get_pool(namespace, name)
    if body is None or body["metadata"].get("deletionTimestamp") is not None:
        return None
    try:
        return await _reconcile(parse(body), world)
    except OperatorError as error:
        await _tell(body, error, world)
        raise


async def _reconcile(pool: EncoderPool, world: World) -> float:
    now = world.clock()
    children, deployments = await _children(pool, world.cluster)
    standing = recall(pool, children, now)
    wanted = plan(pool, standing)
    active = pool.spec.management is Management.ACTIVE
    if active:
        await apply(world.cluster, wanted, deployments)
    observation = await observe(pool, world.sources, now)
    judgement = judge(pool, standing, observation)
    decided = cordon(pool, standing, observation, judgement)
    done = await act(world.cluster, pool.namespace, decided.actions)
    if active:
        stale = to_be_told(pool, standing, observation, wanted.identities)
        await refresh(world.cluster, pool.namespace, stale)
    advanced = standing
    if active:
        advanced = advance(pool, standing, observation, judgement)
        advanced = settle(pool, advanced, observation, decided.end)
    told = status(pool, advanced, observation, judgement, decided)
    if told != pool.status:
        await world.cluster.patch_pool_status(pool.namespace, pool.name, told)
    logbook.write(pool, observation, judgement, done, world.metrics)
    news = announcements(standing, advanced, observation, judgement, done, decided, since_of(told))
    await world.recorder.post(pool, news, now)
    return _next_look(pool, standing, advanced, decided.next_look_at, now)


async def _children(pool: EncoderPool, cluster: Cluster) -> tuple[Children, list[JsonObject]]:
    """What may be adopted, and all Deployments that have the pool's labels: a deleted pool of this name may have left
    children that are on their way out."""
    identities = await cluster.get_config_map(pool.namespace, names.identities_name(pool.name)) or {}
    kept = await cluster.get_config_map(pool.namespace, names.history_name(pool.name)) or {}
    deployments = await cluster.list_deployments(pool.namespace, pool.name)
    children = Children(
        deployments=[each for each in deployments if is_owned(each, pool.uid)],
        identities=(identities.get("data") or {}) if is_owned(identities, pool.uid) else {},
        history=(kept.get("data") or {}) if is_owned(kept, pool.uid) else {},
    )
    return children, deployments


async def _tell(body: JsonObject, error: OperatorError, world: World) -> None:
    """Where an error is the pool's own, its user is told; what fails here must not hide the error itself."""
    if error.reason is None:
        return
    metadata, before = body["metadata"], body.get("status") or {}
    told = refused(before, metadata["generation"], error.reason, str(error), world.clock())
    if told == before:
        return
    try:
        await world.cluster.patch_pool_status(metadata["namespace"], metadata["name"], told)
    except ClusterError as failed:
        where = {"namespace": metadata["namespace"], "pool": metadata["name"]}
        _log.warning("status of %s/%s not written: %s", *where.values(), failed, extra=where)


def _next_look(
    pool: EncoderPool, standing: Standing, advanced: Standing, attempt_at: float | None, now: float
) -> float:
    """At once where something was decided (the next plan acts on it), else at the next evaluation."""
    if _decided(standing) != _decided(advanced):
        return 0.0
    evaluation = float(pool.spec.integrity.evaluation_seconds)
    return evaluation if attempt_at is None else min(evaluation, attempt_at - now)


def _decided(standing: Standing) -> set[tuple[object, ...]]:
    return {(each.hash, each.role, each.expected, each.replaced, each.scale) for each in standing.revisions}
