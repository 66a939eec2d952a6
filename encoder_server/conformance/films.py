"""What the sweep encodes of video files, as data: of a file an encoder may choose the frames that it is given.

Place: beside `clips`, which has the videos that come as lists of frames; `sweep` runs both. Pure: what the encoder
chooses is asked through a callable.

Of a file whose frames were chosen, each that was must count: an encoder that samples once more, by the file's rate,
promises and gives fewer rows than its library would, and nothing but its rows can tell.

Must never: compute a token count, or choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from encoder_server.conformance.cases import Case, Specimen
from encoder_server.conformance.geometry import Geometry

Wanted = Callable[[int, float], Sequence[int]]
"""The frames that the encoder chooses of so many at a rate; none where it chooses none."""
_FILMS = ((48, 24.0), (30, 10.0), (12, 60.0))
_WIDTH, _HEIGHT = 84, 56
_NEIGHBOURS = 4


def film_cases(geometry: Geometry, wanted: Wanted, *, max_pixels: int) -> tuple[Case, ...]:
    """Give the cases for video files with frames of at most `max_pixels`."""
    if max_pixels < _WIDTH * _HEIGHT:
        return ()
    cases = []
    for seed, (frames, fps) in enumerate(_FILMS):
        film = Specimen(
            modality="video", width=_WIDTH, height=_HEIGHT, seed=50 + seed, frames=frames, fps=fps, filed=True
        )
        parts = [replace(film, repainted=(at, at + 1)) for at in _few(wanted(frames, fps), geometry.time or 1)]
        cases.append(Case(group="a video file", runs=((film,), *((part,) for part in parts)), chosen=True))
    return tuple(cases)


def _few(chosen: Sequence[int], time: int) -> Sequence[int]:
    """Give the first, the middle and the last few of the frames that make whole steps in time: who samples again
    leaves out every other one at least."""
    whole = list(chosen)[: len(chosen) // time * time]
    middle = max(0, len(whole) // 2 - _NEIGHBOURS // 2)
    parts = (whole[:_NEIGHBOURS], whole[middle : middle + _NEIGHBOURS], whole[-_NEIGHBOURS:])
    return list(dict.fromkeys(at for part in parts for at in part))
