"""The spec's quarantine: how far the operator may go by itself; values and reading.

Place: part of spec. Must never: touch the network, know of Kubernetes' clients, or guess a value that the
schema did not default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoder_operator.fields import Fields


class Mode(Enum):
    """How far the operator goes with a replica at fault."""

    OBSERVE = "Observe"
    CORDON = "Cordon"
    REPAIR = "Repair"


class Management(Enum):
    """Whether the operator writes anything but the pool's status."""

    ACTIVE = "Active"
    PAUSED = "Paused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A number of replicas: `count`, or `per_cent` of all, of which just one is set."""

    count: int | None
    per_cent: int | None

    def of(self, replicas: int) -> int:
        """How many of so many replicas that is, rounded up."""
        if self.per_cent is None:
            return self.count or 0
        return -(-replicas * self.per_cent // 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineSpec:
    """spec.quarantine. `max_cordoned` and `min_serving` bound cordons for statistical drift alone; the seconds
    are those between attempts to release, base times attempts and cordons in a row, at most the max."""

    mode: Mode
    max_cordoned: Share
    min_serving: int
    base_seconds: int
    max_seconds: int
    max_restarts: int


def parse_quarantine(quarantine: Fields) -> QuarantineSpec:
    """The quarantine that spec.quarantine says."""
    base = quarantine.integer("baseSeconds", 1, 86400)
    longest = quarantine.integer("maxSeconds", 1, 86400)
    if base > longest:
        raise quarantine.error("baseSeconds", "must not be more than maxSeconds")
    return QuarantineSpec(
        mode=quarantine.choice("mode", Mode),
        max_cordoned=_share(quarantine.count_or_share("maxCordoned")),
        min_serving=quarantine.integer("minServing", 0, 2**31 - 1),
        base_seconds=base,
        max_seconds=longest,
        max_restarts=quarantine.integer("maxRestarts", 1, 1000),
    )


def _share(value: int | str) -> Share:
    if isinstance(value, int):
        return Share(count=value, per_cent=None)
    return Share(count=None, per_cent=int(value.removesuffix("%")))
