"""Quota: how many CPUs this container may use, and so how many engines it starts where nobody says.

Place: asked once by `cli`. Must never: be asked on a request's way.
"""

from __future__ import annotations

import os
from pathlib import Path

_MOST_ENGINES = 8


def engines_for(cpus: float) -> int:
    """Return one engine for each whole CPU, and no more than eight: each holds the weights once more."""
    return max(1, min(_MOST_ENGINES, int(cpus)))


def cpus(cgroups: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the cgroup's quota in CPUs (version 2 or 1 of cgroups), or what the scheduler allows if that is less."""
    allowed = float(len(os.sched_getaffinity(0)))
    quota = _version_2(cgroups) or _version_1(cgroups)
    return allowed if quota is None else min(allowed, quota)


def _version_2(cgroups: Path) -> float | None:
    try:
        quota, period = (cgroups / "cpu.max").read_text(encoding="ascii").split()
        return int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _version_1(cgroups: Path) -> float | None:
    try:
        quota, period = (
            int((cgroups / "cpu" / name).read_text(encoding="ascii"))
            for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us")
        )
    except (OSError, ValueError):
        return None
    return quota / period if quota > 0 else None
