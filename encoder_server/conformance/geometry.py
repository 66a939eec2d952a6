"""The steps of a processor, found by asking it: which sizes, and which numbers of frames, give which grid.

Place: before `cases`, which sweeps every residue of the factor found here and both sides of every edge. Pure: the
processor is a function that is given.

Must never: know a family's settings. A second formula for its rounding is the very thing that the sweep audits.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Grids = Callable[[Sequence[tuple[int, int]]], Sequence[Hashable]]
"""Gives, for each (width, height), what the processor makes of it (tokens and grid), or None where it refuses."""

# From the first of these on, until the grid follows the size in even steps: small sizes may all be scaled up.
_BASES = (112, 448, 896)
_SPAN, _STEP = 160, 4
_FAR, _STRIDE = 1600, 16
# Sizes so unlike that a processor with one grid for them has one for all.
_SIGHT = (16, 112, 131, 448, 900, 1600)
_MOST_FRAMES = 20
# Strides of five thousandths of a second, half of what is commonly a frame.
_SOUND_PARTS, _SOUND_STRIDES = 200, 32
_FEWEST = 3  # gaps, before they are called even
MOST_EDGES = 8
"""Edges of an uneven processor that are worth the asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One side of a picture: the grid changes every `factor` pixels from `base` on, the other side being `across`.
    The same of a sound in samples, from a second on, with nothing across.

    `factor` is None where it never does, or in no even steps. `edges`: the first sizes of a new grid.
    """

    base: int
    across: int
    factor: int | None
    edges: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Geometry:
    """Both sides of a picture or a frame; `time` is after how many frames more a video's grid changes, None where it
    never does, or in no even steps."""

    width: Axis
    height: Axis
    time: int | None = None


def explore(grids: Grids) -> Geometry:
    """Ask the processor for its steps along both sides."""
    return Geometry(
        width=_axis(grids),
        height=_axis(lambda sizes: grids([(width, height) for height, width in sizes])),
    )


def explore_frames(grids: Callable[[Sequence[int]], Sequence[Hashable]]) -> int | None:
    """Ask the processor for its step in time; `grids` gives what it makes of so many frames each."""
    counts = range(1, _MOST_FRAMES + 1)
    found = grids(counts)
    return _even_step([at for at, before, after in zip(counts[1:], found, found[1:], strict=False) if before != after])


def explore_samples(grids: Callable[[Sequence[int]], Sequence[Hashable]], rate: int) -> Axis:
    """Ask the processor for its steps in a sound at `rate`; `grids` gives what it makes of so many samples each."""
    stride = max(1, rate // _SOUND_PARTS)
    lengths = range(rate, rate + _SOUND_STRIDES * stride, stride)
    edges = _edges(lambda sizes: grids([samples for samples, _ in sizes]), lengths, 0, most=_FEWEST + 1)
    return Axis(base=rate, across=0, factor=_even_step(edges), edges=edges)


def _axis(grids: Grids) -> Axis:
    if len(set(grids([(side, _BASES[0]) for side in _SIGHT]))) == 1:
        return Axis(base=_BASES[0], across=_BASES[0], factor=None, edges=())
    for base in _BASES:
        edges = _edges(grids, range(base, base + _SPAN, _STEP), base)
        factor = _even_step(edges)
        if factor is not None:
            return Axis(base=-(-base // factor) * factor, across=base, factor=factor, edges=edges)
    # Edges of tiles lie far apart.
    far = _edges(grids, range(_STRIDE, _FAR, _STRIDE), _BASES[0], most=MOST_EDGES)
    return Axis(base=_BASES[0], across=_BASES[0], factor=None, edges=far)


def _edges(grids: Grids, sizes: Sequence[int], across: int, *, most: int | None = None) -> tuple[int, ...]:
    """Give the first sizes of new grids among and between `sizes`, at most `most` of them: found by strides, then to
    the pixel by halving."""
    found = grids([(size, across) for size in sizes])
    edges: list[int] = []
    for low, high, before, after in zip(sizes, sizes[1:], found, found[1:], strict=False):
        if before == after:
            continue
        if len(edges) == most:
            break
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if grids([(middle, across)])[0] == before else (low, middle)
        edges.append(high)
    return tuple(edges)


def _even_step(edges: Sequence[int]) -> int | None:
    """Steps are even to a pixel: halves are rounded up at one step and down at the next."""
    gaps = [after - before for before, after in pairwise(edges)]
    if len(gaps) < _FEWEST:
        return None
    step = round((edges[-1] - edges[0]) / len(gaps))
    return step if all(abs(gap - step) <= 1 for gap in gaps) else None


def in_words(geometry: Geometry, modality: str) -> str:
    """Say a processor's steps for people."""
    sides = f"width: {steps_in_words(geometry.width)}; height: {steps_in_words(geometry.height)}"
    if modality != "video":
        return sides
    frames = "frame" if geometry.time == 1 else f"{geometry.time} frames"
    return f"{sides}; time: {f'a step every {frames}' if geometry.time else 'no even steps'}"


def steps_in_words(axis: Axis, unit: str = "pixels") -> str:
    """Say the steps along one axis."""
    if axis.factor is not None:
        return f"a step every {axis.factor} {unit}"
    return "no even steps" if axis.edges else "one grid"
