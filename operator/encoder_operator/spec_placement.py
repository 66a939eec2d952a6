"""The spec's placement: what a replica runs on, and how many may be taken away at once; values and reading.

Place: part of spec. Must never: touch the network, know of Kubernetes' clients, or guess a value that the
schema did not default.
"""

from __future__ import annotations

from dataclasses import dataclass

from encoder_operator.fields import Fields


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionSpec:
    """spec.disruption: how many healthy replicas an eviction may leave out, a number or a share ("20%")."""

    max_unavailable: int | str


def parse_disruption(disruption: Fields) -> DisruptionSpec:
    """What spec.disruption says."""
    return DisruptionSpec(max_unavailable=disruption.count_or_share("maxUnavailable"))
