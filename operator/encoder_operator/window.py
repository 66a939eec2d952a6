"""Window: from raw counter samples to what a replica's checks say of a time that is its own.

Place: evidence fetches the samples, this counts, judge decides. Must never: extrapolate, or count what was
measured before the container started or before the replica was last released.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from encoder_operator.observation import Counts, Point

GOOD = ("ok",)
BAD = ("count", "width", "dtype", "layout")
_ENOUGH_SAMPLES = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A counter's value as scraped at `at`, Unix seconds."""

    at: float
    value: float


Series = tuple[Sample, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSamples:
    """One pod's counters, samples in order of time: fresh checks by (modality, result), and the media that
    failed."""

    checks: Mapping[tuple[str, str], Series] = field(hash=False)
    media: Series


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Where a replica's window may begin, Unix seconds: not before its container's start, its last release, or
    `opened` (now - windowSeconds)."""

    container_started_at: float
    released_at: float | None
    opened: float


def counts(samples: PodSamples, bounds: Bounds) -> Counts | None:
    """What these samples say of the window; None where they say too little to be good or bad."""
    judged = {key: series for key, series in samples.checks.items() if key[1] in GOOD + BAD}
    every = [*judged.values(), samples.media]
    if not judged or any(not math.isfinite(sample.value) for series in every for sample in series):
        return None
    container = max([bounds.container_started_at, *map(_last_reset, every)])
    floor = max(container, bounds.released_at or container)
    start = max(floor, bounds.opened)
    grown = {
        key: _growth([each for each in series if each.at >= floor], start, start == container)
        for key, series in judged.items()
    }
    fewest = min(map(len, grown.values()))
    if fewest < _ENOUGH_SAMPLES:
        return None
    return Counts(
        samples=fewest,
        seconds=max(series[-1].at for series in grown.values()) - start,
        good=_total(grown, GOOD),
        bad={result: _total(grown, (result,)) for result in BAD},
        distinct_media=_media([each for each in samples.media if each.at >= floor], floor == container),
        points=_points(grown),
    )


def _last_reset(series: Series) -> float:
    """When a counter was last seen to fall: the container is younger than its status says, or a clock is off."""
    falls = [after.at for before, after in pairwise(series) if after.value < before.value]
    return max(falls, default=-math.inf)


def _growth(series: Sequence[Sample], start: float, opens_at_birth: bool) -> list[Sample]:
    """The samples from `start` on, as increases over the last value before it.

    Where there is none the first sample is the baseline, unless the window opens with the container: counters
    start at 0 with the process, so all of the first sample fell within it.
    """
    before = [each.value for each in series if each.at < start]
    within = [each for each in series if each.at >= start]
    if not within:
        return []
    baseline = 0.0 if opens_at_birth else (before or [within[0].value])[-1]
    return [Sample(at=each.at, value=each.value - baseline) for each in within]


def _total(grown: Mapping[tuple[str, str], Sequence[Sample]], results: Sequence[str]) -> int:
    return sum(round(series[-1].value) for (_, result), series in grown.items() if result in results)


def _media(series: Sequence[Sample], from_birth: bool) -> int:
    if not series:
        return 0
    return round(series[-1].value - (0.0 if from_birth else series[0].value))


def _points(grown: Mapping[tuple[str, str], Sequence[Sample]]) -> tuple[Point, ...]:
    """The running sums at each time at which any of the counters was scraped."""
    sums: dict[str, dict[float, float]] = {"good": defaultdict(float), "bad": defaultdict(float)}
    for (_, result), series in grown.items():
        steps = sums["good" if result in GOOD else "bad"]
        for before, after in pairwise([Sample(at=-math.inf, value=0.0), *series]):
            steps[after.at] += after.value - before.value
    points, good, bad = [], 0.0, 0.0
    for at in sorted(sums["good"].keys() | sums["bad"].keys()):
        good += sums["good"].get(at, 0.0)
        bad += sums["bad"].get(at, 0.0)
        points.append(Point(at=at, good=round(good), bad=round(bad)))
    return tuple(points)
