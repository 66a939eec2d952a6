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
    """What a revision is to its pool. A rejected one serves on until its successor does."""

    CURRENT = "Current"
    TARGET = "Target"
    REJECTED = "Rejected"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """The identity that a revision's replicas must have: learned or pinned."""

    fingerprint: str
    signature: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replaced:
    """How many replacements in a row did not cure a revision, the pod (its uid) that the last one was for, and
    when that was decided; the pod may still be there."""

    attempts: int
    uid: str | None
    at: str | None


NEVER = Replaced(attempts=0, uid=None, at=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One revision: its hash, its role, what is expected of it (None: not learned yet), since when.
    `pinned`: that came from the spec, and no replica need ever have measured it. `unchecked`: its replicas serve
    under policy Off, and were they told to wait for what is to be learned from them, all would stop serving.
    `scale`: to how many replicas it is scaled while one takes another's place (None: as many as the spec asks)."""

    hash: str
    role: Role
    expected: Expected | None
    distinct_identities: int
    reason: str
    since: str
    pinned: bool = False
    unchecked: bool = False
    scale: int | None = None
    replaced: Replaced = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """A revision that served, and could again: what was expected of it, and its pod template."""

    hash: str
    expected: Expected | None
    template: Mapping[str, Any] = field(hash=False)
    since: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Past:
    """What no longer serves: the rejected revisions, the newest first, those that may be gone back to (what serves
    is the newest of them), and the value of the pool's annotation retry that was last heeded."""

    rejected: tuple[Revision, ...]
    kept: tuple[Kept, ...]
    retried: str | None


NO_PAST = Past(rejected=(), kept=(), retried=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """All standing decisions of a pool; `revisions` are the live ones. `templates` are the pod templates as first
    applied, by revision: a live revision's template is frozen, so that an operator upgrade rolls nothing."""

    revisions: tuple[Revision, ...]
    templates: Mapping[str, Mapping[str, Any]] = field(hash=False)
    past: Past = NO_PAST
