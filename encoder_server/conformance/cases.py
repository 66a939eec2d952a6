"""What the sweep encodes of pictures, as data; `clips` has the cases of video, `sounds` those of audio.

Place: after `geometry` has found the steps of the processor; `sweep` runs the cases in this order, cheap ones
first. Pure.

Must never: compute a token count, or depend on one family's settings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from encoder_server.conformance.geometry import MOST_EDGES, Axis, Geometry

# Residues are swept one by one up to this factor; of a larger one, as many, evenly spread.
_MOST_RESIDUES = 64
_UNKNOWN_FACTOR = 16
_TINY = ((1, 1), (1, 2), (2, 1), (3, 3), (13, 15), (16, 16), (27, 29), (28, 28), (31, 33))
_THIN = ((1, 200), (200, 1), (500, 19), (257, 27), (313, 1), (31, 639), (639, 31), (13, 2600))
_BEYOND = ((1, 201), (1, 1000), (1000, 1), (3, 3000), (5601, 28))
_RATIOS = ((1, 1), (4, 3), (3, 4), (16, 9), (9, 16), (3, 1), (1, 3), (8, 1), (1, 8))
_LARGE = ((1024, 1024), (918, 1850), (2048, 1365), (4000, 300), (300, 4000))


@dataclass(frozen=True, slots=True, kw_only=True)
class Specimen:
    """One medium to draw: other content for every `seed`; `mark` names a corner that is painted over.

    Of a video: `frames`, `fps` (0: bare frames), `filed` (one file, no list), and `repainted`, the first frame that is
    painted over and the one behind the last. Of a sound: `samples`, `rate`, and `repainted`, the samples that are
    silenced.
    """

    modality: str
    width: int = 0
    height: int = 0
    seed: int = 0
    mark: str = ""
    frames: int = 0
    fps: float = 0.0
    filed: bool = False
    samples: int = 0
    rate: int = 0
    repainted: tuple[int, int] | None = None

    @property
    def pixels(self) -> int:
        """Width times height, of all frames together; of a sound, its samples."""
        return self.samples or self.width * self.height * max(self.frames, 1)

    @property
    def whole(self) -> bool:
        """Whether nothing is painted over."""
        return not self.mark and self.repainted is None

    def alike(self, other: Specimen) -> bool:
        """Whether both have the same measures."""
        return replace(self, seed=0, mark="", repainted=None) == replace(other, seed=0, mark="", repainted=None)

    def __str__(self) -> str:
        if self.rate:
            return f"{self.modality} {self.samples} samples at {self.rate} Hz"
        frames = f", {self.frames} frame{'s' if self.frames > 1 else ''}" if self.frames else ""
        rate = f" at {self.fps:g} a second" if self.fps else ""
        return f"{self.modality} {self.width}x{self.height}{frames}{rate}{', a file' if self.filed else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Runs of the encoder, one after another, each a batch. The first run of a specimen alone is what its later
    ones are held against. `seeded`: random numbers start anew at each run. `places`: a medium, then the same
    with its first and with its last corner painted over. `times`: a video or a sound, then the same with parts
    painted over, from the first to the last. `chosen`: a video file, then the same with frames painted over that the
    encoder chose, each by itself."""

    group: str
    runs: tuple[tuple[Specimen, ...], ...]
    seeded: bool = False
    places: bool = False
    times: bool = False
    chosen: bool = False

    @property
    def pixels(self) -> int:
        """Pixels of the largest run, which say what the case costs."""
        return max((sum(specimen.pixels for specimen in run) for run in self.runs), default=0)


def image_cases(geometry: Geometry, *, max_pixels: int, quick: bool) -> tuple[Case, ...]:
    """Give the cases for pictures of at most `max_pixels`; `quick` thins the residues and leaves out large ones."""
    sizes = {
        "widths": residues(geometry.width, turned=False, quick=quick),
        "heights": residues(geometry.height, turned=True, quick=quick),
        "edges": [*_edges(geometry.width, turned=False), *_edges(geometry.height, turned=True)],
        "tiny": _TINY,
        "thin": _THIN[:4] if quick else _THIN,
        "beyond limits": _BEYOND,
        "aspect ratios": [_of_ratio(*ratio, 100_000) for ratio in (_RATIOS[:3] if quick else _RATIOS)],
    }
    if not quick:
        sizes["large"] = [*_LARGE, *(_of_ratio(*ratio, max_pixels) for ratio in ((1, 1), (4, 1)))]
    cases = [Case(group=group, runs=((_image(*size),),)) for group, of in sizes.items() for size in once(of)]
    cases += _repeats() + _places() + _batches(geometry, quick=quick)
    cases = [case for case in cases if all(s.pixels <= max_pixels for run in case.runs for s in run)]
    return tuple(sorted(cases, key=lambda case: case.pixels > 500_000))


def _image(width: int, height: int, seed: int = 0) -> Specimen:
    return Specimen(modality="image", width=width, height=height, seed=seed)


def once(sizes: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Give each size once, but for those of no pixels."""
    return list(dict.fromkeys(size for size in sizes if min(size) > 0))


def residues(axis: Axis, *, turned: bool, quick: bool) -> list[tuple[int, int]]:
    """Give every residue of the factor along this axis, at an odd and at an even number of steps across it."""
    factor = axis.factor or _UNKNOWN_FACTOR
    if quick:
        rests = sorted({0, 1, factor // 2 - 1, factor // 2, factor // 2 + 1, factor - 1})
    else:
        rests = [at * factor // min(factor, _MOST_RESIDUES) for at in range(min(factor, _MOST_RESIDUES))]
    across = [axis.across] if quick else [axis.across, axis.across + factor]
    return [_turn((axis.base + rest, other), turned) for other in across for rest in rests]


def _edges(axis: Axis, *, turned: bool) -> list[tuple[int, int]]:
    """Where the processor's grid really changes, and a pixel to either side."""
    return [_turn((edge + step, axis.across), turned) for edge in axis.edges[:MOST_EDGES] for step in (-1, 0, 1)]


def _turn(size: tuple[int, int], turned: bool) -> tuple[int, int]:
    return (size[1], size[0]) if turned else size


def _of_ratio(across: int, down: int, pixels: int) -> tuple[int, int]:
    unit = math.sqrt(pixels / (across * down))
    return int(across * unit), int(down * unit)


def _repeats() -> list[Case]:
    """The same medium again, at once and after others: larger, smaller and of the same size."""
    first, second = _image(84, 112, 1), _image(84, 112, 2)
    large, small = _image(224, 196, 3), _image(30, 40, 4)
    runs = ((first,), (first,), (second,), (first,), (large,), (small,), (first,), (large,), (second,))
    return [Case(group="again", runs=runs, seeded=seeded) for seeded in (False, True)]


def _places() -> list[Case]:
    cases = []
    for plain in (_image(224, 168, 5), _image(168, 224, 6)):
        runs = [(replace(plain, mark=mark),) for mark in ("", "first", "last")]
        cases.append(Case(group="reading order", runs=tuple(runs), places=True))
    return cases


def _batches(geometry: Geometry, *, quick: bool) -> list[Case]:
    mixed = [_image(*size, 10) for size in ((56, 56), (112, 84), (61, 173), (28, 300), (200, 150), (57, 56))]
    equal = [_image(112, 84, 20 + seed) for seed in range(4)]
    many = [_image(56 + 28 * (seed % 3), 84, 40 + seed) for seed in range(16)]
    large = [_image(640, 480, 60), _image(56, 56, 61), _image(448, 448, 62)]
    cases = [
        batch("a batch", mixed, mixed[::-1], mixed[2:] + mixed[:2], mixed[:2]),
        batch("equal sizes", equal, equal[::-1], [equal[at] for at in (1, 3, 0, 2)], equal[:2]),
        batch("the same twice", [equal[0], equal[0]], [mixed[1], equal[1], mixed[1]]),
        batch("sixteen items", many),
        batch("small beside large", large, large[::-1], [_image(30, 31, 63), _image(30, 31, 63), large[0]]),
    ]
    if not quick:
        beside = [_image(*size, 70) for size in residues(geometry.width, turned=False, quick=True)]
        cases += [batch("widths in a batch", beside), batch("a giant's mates", [_image(918, 1850, 80), *mixed[:2]])]
    return cases


def batch(group: str, *batches: Sequence[Specimen]) -> Case:
    """Give a case of `batches`, after each of their specimens alone."""
    alone = dict.fromkeys(specimen for each in batches for specimen in each)
    return Case(group=group, runs=(*((specimen,) for specimen in alone), *(tuple(each) for each in batches)))
