"""Bytes of a picture to pixels: every accepted file decoded in full, inside a guard.

Place: first stage of the engine, beside `decode_clip` and `decode_sound`; `preprocess` takes what comes out. The rules:
JPEG, PNG, WebP and GIF, told by their content; the first frame; turned upright by EXIF; 8-bit RGB.
Transparency of any kind (alpha, a palette entry, a colour key) is laid on white. Grey, bilevel and palette
pictures get three channels, CMYK is converted without a profile, 16-bit values keep their high byte.

Must never: let a library's own text out, decode a format that is not listed, or hold on to the file's bytes.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Iterator

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from encoder_server import scans
from encoder_server.encoders import Picture

_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")
_WITH_ALPHA = ("RGBA", "LA", "PA", "RGBa")


class BadMediaError(Exception):
    """The medium cannot be decoded, or is over the limit. The text is ours; `frame` is which of a list it is about."""

    def __init__(self, text: str, frame: int | None = None) -> None:
        super().__init__(text)
        self.frame = frame


def decode_picture(data: bytes | memoryview, *, max_pixels: int) -> Picture:
    """Decode `data`, a picture file of at most `max_pixels` (width times height); raises BadMediaError."""
    if scans.too_many(data):
        raise BadMediaError(f"a JPEG of more than {scans.MOST} scans, the limit")
    with _guard(max_pixels):
        try:
            with Image.open(io.BytesIO(data), formats=_FORMATS) as image:
                _limit(image.size, max_pixels)
                image.load()
                _limit(image.size, max_pixels)
                ImageOps.exif_transpose(image, in_place=True)
                return Picture(pixels=np.array(to_rgb(image)))
        except (BadMediaError, MemoryError):
            raise
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise BadMediaError(f"the picture has more than {max_pixels} pixels, the limit") from error
        except UnidentifiedImageError as error:
            raise BadMediaError("not a JPEG, PNG, WebP or GIF picture") from error
        except Exception as error:
            raise BadMediaError("the picture is damaged or cut short") from error


@contextlib.contextmanager
def _guard(max_pixels: int) -> Iterator[None]:
    """Have Pillow check every frame too, not the header alone, and say nothing of what it can bear with."""
    before = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = max_pixels
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            yield
    finally:
        Image.MAX_IMAGE_PIXELS = before


def to_rgb(image: Image.Image) -> Image.Image:
    """Give `image`, of any mode, as 8-bit RGB by the rules above."""
    if image.mode.startswith("I"):
        return _high_byte(image).convert("RGB")
    if image.mode == "F":
        return Image.fromarray(np.clip(np.array(image), 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode in _WITH_ALPHA or "transparency" in image.info:
        picture = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", picture.size, "white"), picture).convert("RGB")
    return image if image.mode == "RGB" else image.convert("RGB")


def _high_byte(image: Image.Image) -> Image.Image:
    values = np.array(image).astype(np.int64)
    grey = (np.clip(values, 0, 0xFFFF) >> 8).astype(np.uint8)
    clear = image.info.get("transparency")
    if isinstance(clear, int):
        grey[values == clear] = 255
    return Image.fromarray(grey)


def _limit(size: tuple[int, int], max_pixels: int) -> None:
    width, height = size
    if width * height > max_pixels:
        raise BadMediaError(f"the picture is {width}x{height}; the limit is {max_pixels} pixels")
