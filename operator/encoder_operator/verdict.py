"""Verdicts: what was judged of a replica, a revision and a pool.

Place: made by judge, read by cordon, status and events. Must never: judge.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Result(Enum):
    """Good, bad, or not known: unknown is never taken for either."""

    GOOD = "Good"
    UNKNOWN = "Unknown"
    BAD = "Bad"


class Scope(Enum):
    """Whose fault it is: this decides what may be acted on. Only a Replica is ever cordoned."""

    REPLICA = "Replica"
    REVISION = "Revision"
    CALLER = "Caller"
    REFERENCE = "Reference"


class Matter(Enum):
    """What was looked at: what a replica is, or what its checks of traffic say."""

    IDENTITY = "Identity"
    TRAFFIC = "Traffic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """A peer's opinion, which alone is missing to blame a replica: `peers` (pods' names) may be asked next, the
    first one first; `begun` where one was asked before, `open` while one may still answer. `reason` is what the
    replica would be blamed for."""

    reason: str
    peers: tuple[str, ...]
    begun: bool
    open: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One judgement: of a pod (`subject` is its name), a revision (its hash) or the pool (its name). Nobody is
    cordoned by one that `awaits` an opinion."""

    subject: str
    matter: Matter
    scope: Scope
    result: Result
    reason: str
    message: str
    awaits: Awaited | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """A verdict for each replica, for each revision, and for the pool. `traffic` is what the counters alone
    say of the pool: unknown until one replica has enough checks in its window."""

    replicas: tuple[Verdict, ...]
    revisions: tuple[Verdict, ...]
    pool: Verdict
    traffic: Result
