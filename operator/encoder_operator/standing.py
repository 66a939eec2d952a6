"""Standing decisions: what the operator decided earlier and still holds, by revision.

Place: read from the pool's status (and from the pool's children where a status was lost) before plan, and
written back by status. Must never: decide anything, or read a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Role(Enum):
    """What a revision is to its pool. Rejected comes with the issue that rejects."""

    CURRENT = "Current"
    TARGET = "Target"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The identity that a revision's replicas must have: learned or pinned."""

    fingerprint: str
    signature: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One live revision: its hash, its role, what is expected of it (None: not learned yet), since when.
    `pinned`: that came from the spec, and no replica need ever have measured it. `unchecked`: its replicas serve
    under policy Off, and were they told to wait for what is to be learned from them, all would stop serving."""

    hash: str
    role: Role
    expected: Expected | None
    distinct_identities: int
    reason: str
    since: str
    pinned: bool = False
    unchecked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All standing decisions of a pool. `templates` are the pod templates as first applied, by revision:
    a live revision's template is frozen, so that an operator upgrade rolls nothing."""

    revisions: tuple[Revision, ...]
    templates: Mapping[str, Mapping[str, Any]] = field(hash=False)
