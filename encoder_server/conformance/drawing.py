"""Specimens as files: seeded noise, so that every row of every medium is told from every other.

Place: `sweep` hands what is drawn here to the engine's pipeline, as a caller's upload would be.

Must never: draw two specimens alike, or differ between two runs or machines.
"""

from __future__ import annotations

import io

import numpy as np
import numpy.typing as npt
from PIL import Image

from encoder_server.conformance.cases import Specimen
from encoder_server.engine.integers import scatter


def draw(specimen: Specimen) -> bytes:
    """Draw a picture as a PNG file: noise in blocks on two ramps."""
    pixels = _noise(specimen)
    if specimen.mark:
        height, width = max(1, specimen.height // 4), max(1, specimen.width // 4)
        corner = np.s_[:height, :width] if specimen.mark == "first" else np.s_[-height:, -width:]
        pixels[corner] = 255 - pixels[corner]
    return _png(pixels)


def blank(width: int, height: int) -> bytes:
    """Give a grey picture, for a processor that is only asked for its grid."""
    return _png(np.full((height, width, 3), 128, dtype=np.uint8))


def _noise(specimen: Specimen) -> npt.NDArray[np.uint8]:
    width, height = specimen.width, specimen.height
    # A processor scales large pictures down: their blocks must not average out.
    block = max(4, max(width, height) // 64)
    down, across = -(-height // block), -(-width // block)
    own = (specimen.seed * 65536 + width) * 65536 + height
    cells = np.arange(down * across * 3, dtype=np.uint64)
    noise = (scatter(own, cells) >> np.uint64(57)).astype(np.uint8).reshape(down, across, 3)
    pixels = noise.repeat(block, axis=0)[:height].repeat(block, axis=1)[:, :width]
    ramp = [np.arange(side) * 63 // max(side - 1, 1) for side in (height, width)]
    pixels += (ramp[0][:, None] + ramp[1][None, :]).astype(np.uint8)[..., None]
    return pixels


def _png(pixels: npt.NDArray[np.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, format="PNG", compress_level=0)
    return file.getvalue()
