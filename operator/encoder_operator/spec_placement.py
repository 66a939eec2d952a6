"""The spec's placement: what a replica runs on, how many may be taken away at once, and how one revision takes
another's place; values and reading.

Place: part of spec. Must never: touch the network, know of Kubernetes' clients, or guess a value that the
schema did not default.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from enum import Enum

from encoder_operator.fields import Fields

_RESOURCE = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_NVIDIA = "nvidia.com/"


class Strategy(Enum):
    """How a new revision takes the old one's place."""

    AUTO = "Auto"
    SURGE = "Surge"
    IN_PLACE = "InPlace"


class Device(Enum):
    """What the model runs on."""

    AUTO = "Auto"
    CPU = "CPU"
    CUDA = "CUDA"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerator:
    """spec.accelerator: so many of an extended resource for each replica."""

    resource_name: str
    count: int
    runtime_class_name: str | None

    def is_wanting(self, message: str) -> bool:
        """Whether the scheduler says that this resource is what a pod waits for."""
        return re.search(rf"Insufficient {re.escape(self.resource_name)}(?![-\w]|\.\w)", message) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionSpec:
    """spec.disruption: how many healthy replicas an eviction may leave out, a number or a share ("20%")."""

    max_unavailable: int | str


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutSpec:
    """spec.rollout."""

    strategy: Strategy


def parse_accelerator(spec: Fields, resources: Collection[str]) -> Accelerator | None:
    """What spec.accelerator says; None where there is none. `resources` are those that spec.resources names."""
    if not spec.has("accelerator"):
        return None
    accelerator = spec.object("accelerator")
    name = accelerator.text("resourceName", _RESOURCE, "an extended resource, for example nvidia.com/gpu")
    if name in resources:
        raise accelerator.error("resourceName", "must be named here alone: leave it out of resources")
    return Accelerator(
        resource_name=name,
        count=accelerator.integer("count", 1, 64),
        runtime_class_name=accelerator.text("runtimeClassName") if accelerator.has("runtimeClassName") else None,
    )


def parse_disruption(disruption: Fields) -> DisruptionSpec:
    """What spec.disruption says."""
    return DisruptionSpec(max_unavailable=disruption.count_or_share("maxUnavailable"))


def parse_rollout(rollout: Fields) -> RolloutSpec:
    """What spec.rollout says."""
    return RolloutSpec(strategy=rollout.choice("strategy", Strategy))


def runs_on_cuda(device: Device, accelerator: Accelerator | None) -> bool:
    """Whether the server is told to use CUDA: as the spec says, or as the accelerator's vendor tells."""
    if device is Device.AUTO:
        return accelerator is not None and accelerator.resource_name.startswith(_NVIDIA)
    return device is Device.CUDA
