"""Size: how large a medium is, in the measures of its modality.

Place: between the front, the engine and the orders: what a caller sent, what failed, and what a probe is to repeat.
Must never: import more than it needs to be a value, or hold a measure that its modality has not.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields

from pydantic.dataclasses import dataclass as validated

_MEASURES = {
    "image": ("width", "height"),
    "video": ("width", "height", "frames", "fps"),
    "audio": ("samples", "rate"),
}
_MAY_BE_UNKNOWN = ("fps",)
_PIXELS_PER_SECOND = 40_000


@validated(frozen=True, kw_only=True)
class Size:
    """Pixels of a picture or of each frame; frames, and how many of them in a second (0: bare frames); samples of one
    channel, and how many of them in a second. What a modality has not is 0."""

    modality: str
    width: int = 0
    height: int = 0
    frames: int = 0
    fps: float = 0.0
    samples: int = 0
    rate: int = 0

    @property
    def measures(self) -> dict[str, int | float]:
        """The measures of its modality by name, as every document shows them; one that is not known is left out."""
        return {
            field.name: value
            for field in fields(Size)
            if isinstance(value := getattr(self, field.name), int | float) and value
        }

    @property
    def words(self) -> str:
        """For people: `image 640x480`, `video 640x480, 16 frames`, `audio 8000 samples at 16000 Hz`."""
        if self.samples or self.rate:
            return f"{self.modality} {self.samples} samples at {self.rate} Hz"
        if not self.width:
            return f"{self.modality} of no known size"
        frames = f", {self.frames} frames" if self.frames else ""
        rate = f" at {self.fps:g} fps" if self.fps else ""
        return f"{self.modality} {self.width}x{self.height}{frames}{rate}"

    @property
    def pixels(self) -> int:
        """Pixels of a picture, or of all frames together."""
        return self.width * self.height * max(self.frames, 1)

    @property
    def seconds(self) -> float:
        """How long it lasts; 0 where that is not known, or nothing that it has."""
        if self.rate:
            return self.samples / self.rate
        return self.frames / self.fps if self.fps else 0.0

    @property
    def cost(self) -> int:
        """Its share of a batch, in pixels. A second of audio counts as 40,000: some fifty rows, as a picture of that
        size makes."""
        return self.pixels + int(self.seconds * _PIXELS_PER_SECOND) if self.rate else self.pixels

    def fits(self, modalities: Collection[str] | None) -> bool:
        """Whether it is a size of one of `modalities` (None: of any), with each measure that its modality has."""
        if modalities is not None and self.modality not in modalities:
            return False
        wanted = set(_MEASURES.get(self.modality, ("width", "height")))
        return wanted.difference(_MAY_BE_UNKNOWN) <= self.measures.keys() <= wanted
