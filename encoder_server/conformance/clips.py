"""What the sweep encodes of video, as data.

Place: beside `cases`, which has the pictures'; `sweep` runs both. Frames are handed in one by one, as a caller's list
of pictures, and in part with a rate, so that an encoder that samples by it is swept too. Pure.

Must never: compute a token count, or depend on one family's settings.
"""

from __future__ import annotations

from dataclasses import replace

from encoder_server.conformance.cases import Case, Specimen, batch, once, residues
from encoder_server.conformance.geometry import Geometry

_EVERY = range(1, 34)
_SOME = (1, 2, 3, 4, 5, 6, 7, 8, 9, 15, 16, 17, 32, 33)
_TINY = ((1, 1), (1, 2), (3, 3), (13, 15), (28, 28), (31, 33))
_THIN = ((1, 200), (200, 1), (257, 27), (31, 639))
_BEYOND = ((1, 201), (3000, 3))
_RATES = (0.5, 2.0, 5.0, 24.0, 29.97, 1000.0)
_PARTS = 6
_UNEVEN_PARTS, _UNEVEN_STEP = 4, 8  # of an encoder whose steps are not known: it may look at some frames alone


def video_cases(geometry: Geometry, *, max_pixels: int, quick: bool) -> tuple[Case, ...]:
    """Give the cases for videos with frames of at most `max_pixels`; `quick` thins numbers of frames and sizes."""
    time = geometry.time or 1
    counts = [*(_SOME if quick else _EVERY), *(16 * time + step for step in (-1, 0, 1))]
    odd, even = time + 1, 2 * time
    sizes = [*residues(geometry.width, turned=False, quick=True), *residues(geometry.height, turned=True, quick=True)]
    if not quick:
        sizes += residues(geometry.width, turned=False, quick=False)
    cases = [_alone("frames", _video(count, 56, 56)) for count in dict.fromkeys(counts)]
    cases += [_alone("frames, another grid", _video(count, 84, 140)) for count in dict.fromkeys((1, odd, even, 9))]
    cases += [_alone("frame sizes", _video(odd if at % 2 else even, *size)) for at, size in enumerate(once(sizes))]
    cases += [_alone("tiny and thin frames", _video(odd, *size)) for size in (*_TINY, *_THIN)]
    cases += [_alone("frames beyond limits", _video(2, *size)) for size in _BEYOND]
    cases += [_alone("rates", _video(count, 56, 56, fps=rate)) for rate in _RATES for count in (1, odd, 24)]
    cases += [*_repeats(time), *_orders(geometry.time), *_batches(time)]
    return tuple(
        case for case in cases if all(each.width * each.height <= max_pixels for run in case.runs for each in run)
    )


def _video(frames: int, width: int, height: int, seed: int = 0, *, fps: float = 0.0) -> Specimen:
    return Specimen(modality="video", width=width, height=height, seed=seed, frames=frames, fps=fps)


def _alone(group: str, specimen: Specimen) -> Case:
    return Case(group=group, runs=((specimen,),))


def _repeats(time: int) -> list[Case]:
    """The same video again, at once and after others: longer, larger, and of the same measures."""
    first, second = _video(2 * time, 84, 56, 1), _video(2 * time, 84, 56, 2)
    long, large = _video(5 * time, 84, 56, 3), _video(time, 140, 112, 4)
    runs = ((first,), (first,), (second,), (first,), (long,), (large,), (first,), (long,), (second,))
    return [Case(group="a video again", runs=runs, seeded=seeded) for seeded in (False, True)]


def _orders(time: int | None) -> list[Case]:
    """Where a corner, and each part of the time, comes out; and whether the last of an odd number of frames counts."""
    count, step = (_PARTS, time) if time else (_UNEVEN_PARTS, _UNEVEN_STEP)
    still, long = _video(time or 1, 224, 168, 5), _video(count * step, 56, 84, 6)
    corners = tuple((replace(still, mark=mark),) for mark in ("", "first", "last"))
    parts = tuple((replace(long, repainted=(step * at, step * (at + 1))),) for at in range(count))
    odd = _video(2 * (time or 1) + 1, 56, 84, 7)
    last = (replace(odd, repainted=(odd.frames - 1, odd.frames)),)
    return [
        Case(group="reading order of frames", runs=corners, places=True),
        Case(group="order in time", runs=((long,), *parts), times=True),
        Case(group="the last frame", runs=((odd,), last), times=True),
    ]


def _batches(time: int) -> list[Case]:
    mixed = [
        _video(frames, *size, seed=10)
        for frames, size in ((time, (56, 56)), (2 * time + 1, (112, 84)), (1, (61, 173)), (3 * time, (84, 112)))
    ]
    equal = [_video(2 * time, 84, 56, 20 + seed) for seed in range(4)]
    longer = [_video(frames, 56, 56, 30) for frames in (1, time, time + 1, 7 * time)]
    rated = [_video(8, 56, 56, 40, fps=4.0), _video(8, 56, 56, 41), _video(8, 56, 56, 42, fps=1.0)]
    return [
        batch("a batch of videos", mixed, mixed[::-1], mixed[2:] + mixed[:2], mixed[:2]),
        batch("videos of equal measures", equal, equal[::-1], [equal[at] for at in (1, 3, 0, 2)], equal[:2]),
        batch("the same video twice", [equal[0], equal[0]], [mixed[1], equal[1], mixed[1]]),
        batch("short beside long", longer, longer[::-1]),
        batch("rates in a batch", rated, rated[::-1]),
    ]
