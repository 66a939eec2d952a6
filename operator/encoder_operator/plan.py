"""Plan: the objects that a pool wants now.

Place: spec → **plan** → apply. Must never: ask the cluster or a clock, or return two objects with one
identity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Standing


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The objects that `pool` wants, in the order in which they are applied. `target` is the revision that
    the spec asks for; `revisions` are all live ones, the target last."""

    namespace: str
    pool: str
    pool_uid: str
    target: str
    revisions: tuple[str, ...]
    objects: tuple[dict[str, Any], ...]


def plan(pool: EncoderPool, standing: Standing) -> Plan:
    """The objects for the target revision and for each revision that still stands."""
    raise NotImplementedError
