"""Statistics: from what was measured to ratios with their spread, and to exponents of growth. Pure."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """One side in one round: items answered in so many seconds, CPU seconds of its processes, errors, and latency
    in milliseconds (None: a loop, which has none)."""

    items: int
    seconds: float
    cpu_seconds: float
    errors: int = 0
    p50_ms: float | None = None
    p99_ms: float | None = None

    @property
    def rate(self) -> float:
        """Items a second."""
        return self.items / self.seconds

    @property
    def cpu_ms(self) -> float:
        """CPU milliseconds an item: what remains true on a busy machine."""
        return 1000 * self.cpu_seconds / self.items if self.items else math.inf


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A ratio over the rounds."""

    median: float
    low: float
    high: float
    quartiles: tuple[float, float]


def spread(values: Sequence[float]) -> Spread:
    """Return the median with the least, the greatest and the quartiles."""
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else [values[0]] * 3
    return Spread(median=statistics.median(values), low=min(values), high=max(values), quartiles=(lower, upper))


def rate_ratios(ours: Sequence[Measured], other: Sequence[Measured]) -> Spread:
    """Return by how much more this server answers than the other side, round by round."""
    return spread([mine.rate / its.rate for mine, its in zip(ours, other, strict=True)])


def cpu_ratios(ours: Sequence[Measured], other: Sequence[Measured]) -> Spread:
    """Return the same by CPU time for each item, so that more is better here too."""
    return spread([its.cpu_ms / mine.cpu_ms for mine, its in zip(ours, other, strict=True)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Growth:
    """cost ~ constant + slope * n, and the exponent of the cost above its constant part between large n."""

    exponent: float
    fixed: float
    each: float


def growth(points: Sequence[tuple[float, float]]) -> Growth:
    """Fit (n, cost), at least three: the exponent is the log-log slope over the upper half, where the constant part
    counts least; the line is fitted by least squares on relative errors, so that small n count too."""
    ordered = sorted(points)
    upper = ordered[len(ordered) // 2 - (len(ordered) % 2 == 0) :]
    exponent = _slope([(math.log(n), math.log(cost)) for n, cost in upper])
    weights = [1 / cost**2 for _, cost in ordered]
    total = sum(weights)
    mean_n = sum(w * n for w, (n, _) in zip(weights, ordered, strict=True)) / total
    mean_cost = sum(w * cost for w, (_, cost) in zip(weights, ordered, strict=True)) / total
    across = sum(w * (n - mean_n) ** 2 for w, (n, _) in zip(weights, ordered, strict=True))
    each = sum(w * (n - mean_n) * (cost - mean_cost) for w, (n, cost) in zip(weights, ordered, strict=True)) / across
    return Growth(exponent=exponent, fixed=mean_cost - each * mean_n, each=each)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    mean_x = statistics.fmean(x for x, _ in points)
    mean_y = statistics.fmean(y for _, y in points)
    across = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / across


@dataclass(frozen=True, slots=True, kw_only=True)
class Flatness:
    """Memory over time: medians of the second and the last third, in MB, and the slope between, in MB a minute."""

    middle: float
    last: float
    per_minute: float

    @property
    def flat(self) -> bool:
        """Whether the last third holds no more than 5 per cent, or 8 MB, above the second."""
        return self.last <= max(1.05 * self.middle, self.middle + 8)


def flatness(samples: Sequence[tuple[float, float]]) -> Flatness:
    """Judge (seconds, MB), at least three samples; the first third, in which pools fill, is left out."""
    third = len(samples) // 3
    settled = samples[third:]
    return Flatness(
        middle=statistics.median(size for _, size in samples[third : 2 * third]),
        last=statistics.median(size for _, size in samples[2 * third :]),
        per_minute=60 * _slope(settled) if settled[-1][0] > settled[0][0] else 0.0,
    )
