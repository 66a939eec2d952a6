"""Decoded media: what an encoder's `preprocess` is given.

Place: made by the engine's decoders, handed to an `Encoder`, which imports them from `encoder_server.encoders`.

Must never: know of a file's form, or of what a family makes of it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A decoded picture: `pixels` is uint8 of shape (height, width, 3), RGB, turned upright."""

    pixels: npt.NDArray[np.uint8]

    @property
    def modality(self) -> str:
        """The modality's name on the wire."""
        return "image"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clip:
    """A decoded video: `frames` is uint8 of shape (frames, height, width, 3), RGB, turned upright; `fps` is how many
    the video shows in a second, None where it was given as bare frames.

    `indices`: which of the video's `total` frames these are, one for each, where the encoder has chosen them
    (`ChoosesFrames`): it must not choose again. None: all are here, a list's or a file's, and none was chosen yet.
    """

    frames: npt.NDArray[np.uint8]
    fps: float | None
    indices: tuple[int, ...] | None = None
    total: int | None = None

    @property
    def modality(self) -> str:
        """The modality's name on the wire."""
        return "video"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sound:
    """Decoded audio: `samples` is float32 of shape (samples,), mono, nominally in -1..1 and finite, at `rate` samples
    in a second: the encoder's own (`Description.sampling_rate`)."""

    samples: npt.NDArray[np.float32]
    rate: int

    @property
    def modality(self) -> str:
        """The modality's name on the wire."""
        return "audio"


Decoded = Picture | Clip | Sound
