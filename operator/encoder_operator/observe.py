"""Observe: gather a pool's world into one frozen Observation.

Place: apply → **observe** → judge. Must never: change anything, or judge.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from encoder_operator.cluster import Cluster
from encoder_operator.evidence import Counters, evidence
from encoder_operator.identities import Identities
from encoder_operator.observation import Observation
from encoder_operator.replicas import leaving_of, replicas_of, workload_of
from encoder_operator.spec import EncoderPool


@dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Whom observe asks."""

    cluster: Cluster
    identities: Identities
    counters: Counters


async def observe(pool: EncoderPool, sources: Sources, now: float) -> Observation:
    """What there is at `now`: workloads, replicas, their identities and their counts."""
    pods, deployments = await asyncio.gather(
        sources.cluster.list_pods(pool.namespace, pool.name),
        sources.cluster.list_deployments(pool.namespace, pool.name),
    )
    replicas = replicas_of(pods)
    heard, (counted, problem) = await asyncio.gather(
        sources.identities.read(replicas),
        evidence(sources.counters, pool.namespace, replicas, pool.spec.integrity.window_seconds, now),
    )
    return Observation(
        at=now,
        workloads=tuple(sorted(map(workload_of, deployments), key=lambda each: each.revision)),
        replicas=tuple(replace(each, counts=counted.get(each.name)) for each in heard),
        leaving=leaving_of(pods, now),
        evidence_problem=problem,
    )
