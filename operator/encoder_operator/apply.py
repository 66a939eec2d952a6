"""Apply: make the API server agree with a plan.

Place: plan → **apply** → observe. Must never: decide what is wanted, write what already holds, take over or
delete an object that is not the pool's, or touch a Secret.
"""

from __future__ import annotations

from dataclasses import dataclass

from encoder_operator.cluster import Cluster
from encoder_operator.plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What was written, as `Kind/name`; both empty where the API server agreed already."""

    applied: tuple[str, ...]
    pruned: tuple[str, ...]


async def apply(cluster: Cluster, plan: Plan) -> Changes:
    """Apply each object of the plan that differs from what is there, then prune what is no longer wanted."""
    raise NotImplementedError
