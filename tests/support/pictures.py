"""Pictures from a seeded generator: many sizes, each with its own content, the same in every run."""

from __future__ import annotations

import io
import random
from dataclasses import dataclass

import numpy
from PIL import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """An encoded picture with its size in pixels."""

    name: str
    width: int
    height: int
    data: bytes

    @property
    def area(self) -> int:
        """Pixels."""
        return self.width * self.height


def picture(seed: int, width: int, height: int) -> Picture:
    """A smooth picture with noise; PNG for even seeds, JPEG for odd ones."""
    noise = numpy.random.default_rng(seed)
    across = numpy.linspace(0, 160, width, dtype=numpy.float32)[None, :, None]
    down = numpy.linspace(0, 60, height, dtype=numpy.float32)[:, None, None]
    pixels = across + down + noise.integers(0, 36, size=(height, width, 3))
    kind = "PNG" if seed % 2 == 0 else "JPEG"
    buffer = io.BytesIO()
    Image.fromarray(pixels.astype(numpy.uint8)).save(buffer, kind)
    return Picture(name=f"{kind.lower()}-{seed}-{width}x{height}", width=width, height=height, data=buffer.getvalue())


def album(seed: int, count: int, *, smallest: int, largest: int) -> tuple[Picture, ...]:
    """So many pictures with sides between the two bounds (pixels)."""
    sizes = random.Random(seed)
    return tuple(
        picture(seed * 1000 + index, sizes.randint(smallest, largest), sizes.randint(smallest, largest))
        for index in range(count)
    )
