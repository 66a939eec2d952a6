"""Bounds: what an engine decodes at most, whatever a header says.

Place: told at start by the front, which has held the headers to the same limits; enforced by the decoders.
Must never: be looser than what the front was told, or depend on an item's batch mates.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from encoder_server.engine.messages import Declared
from encoder_server.size import Size

LEAST_PIXELS = 2**14
"""What a frame that is decoded counts as, at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Pixels of a picture or frame; pixels of a video's frames together, and frames, as an encoder is given them (so
    many pixels are also held at a time, of a batch); pixels of all frames that are decoded of a video file, kept or
    not; and seconds."""

    max_pixels: int = 16_777_216  # a picture of 4096x4096
    max_clip_pixels: int = 4 * 16_777_216
    max_decoded_pixels: int = 32 * 4 * 16_777_216
    max_frames: int = 2048
    max_audio_seconds: float = 300.0
    max_video_seconds: float = 600.0

    @classmethod
    def around(cls, sizes: Sequence[Size]) -> Bounds:
        """Just enough for media of these sizes, all at a time."""
        return cls(
            max_pixels=max((size.width * size.height for size in sizes), default=0),
            max_clip_pixels=sum(size.pixels for size in sizes),
            max_frames=max((size.frames for size in sizes), default=0),
            max_audio_seconds=max((size.seconds for size in sizes), default=0.0),
            max_video_seconds=max((size.seconds for size in sizes), default=0.0),
        )

    def allow_decoding(self, width: int, height: int, frames: int) -> bool:
        """Whether so many frames of this size may be decoded of a file; one that is tiny has its price too."""
        return max(width * height, LEAST_PIXELS) * frames <= self.max_decoded_pixels

    def allow(self, size: Size) -> bool:
        """Whether a medium of this size would be decoded."""
        return (
            size.width * size.height <= self.max_pixels
            and size.pixels <= self.max_clip_pixels
            and size.frames <= self.max_frames
            and size.seconds <= (self.max_audio_seconds if size.samples else self.max_video_seconds)
        )

    def within(self, declared: Mapping[str, Declared]) -> Bounds:
        """These for an encoder that has `declared`: no longer media than it takes."""
        longest = {modality: each.max_seconds or math.inf for modality, each in declared.items()}
        return replace(
            self,
            max_audio_seconds=min(self.max_audio_seconds, longest.get("audio", math.inf)),
            max_video_seconds=min(self.max_video_seconds, longest.get("video", math.inf)),
        )


def taken(size: Size, declared: Mapping[str, Declared]) -> bool:
    """Whether an encoder that has `declared` takes a medium of this size."""
    own = declared.get(size.modality)
    return own is not None and (own.max_seconds is None or size.seconds <= own.max_seconds)


DEFAULTS = Bounds()
"""Those of an engine that is told none."""
