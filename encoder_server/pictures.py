"""Pictures: what a picture file's header says, by Pillow and without a pixel decoded.

Place: called by `media` for a picture, and for each picture of a video that comes as a list of frames.
Must never: decode pixels, open a format that is not listed, or pass on a library's text.
"""

from __future__ import annotations

import io
import warnings

from PIL import Image, WebPImagePlugin

from encoder_server import scans
from encoder_server.errors import BadMediaError, LimitExceededError

FORMATS = ("JPEG", "PNG", WebPImagePlugin.WebPImageFile.format, "GIF")
_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)
# Pillow loads a format when it first needs it. Where no more files can be opened by then, a good picture would pass
# for none; WebP, which is imported above, is the one that `preinit` leaves out.
Image.preinit()
# What it can bear with it says in words that hold numbers out of the file: each would be a line of the log, and kept
# for good, so that it is not said twice. A filter for all threads, because one for a block is not safe beside others.
warnings.filterwarnings("ignore", module=r"PIL\.")
# Pillow's own bomb limits (an error, or only a warning that tests turn into one) come before ours can.
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


def measure(content: bytes | memoryview, place: str, max_pixels: int) -> tuple[int, int]:
    """Return width and height (pixels) of a picture file, turned as the engine will turn it: a probe of the size
    that failed must be of the size that was encoded.

    Raises BadMediaError or LimitExceededError that names `place`.
    """
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = _upright(image)
    except _BOMBS:
        raise LimitExceededError(f"{place}: too many pixels; the limit is {max_pixels}") from None
    except MemoryError:
        raise
    # A parser may raise nearly anything else on hostile bytes; whatever it is, the medium is at fault.
    except Exception:
        raise BadMediaError(f"{place}: not a picture in a known format ({', '.join(FORMATS)})") from None
    if width * height > max_pixels:
        raise LimitExceededError(f"{place}: {width}x{height} is {width * height} pixels; the limit is {max_pixels}")
    if scans.too_many(content):
        raise LimitExceededError(f"{place}: a JPEG of more than {scans.MOST} scans, the limit")
    return width, height


def _upright(image: Image.Image) -> tuple[int, int]:
    """Return width and height after the turn that EXIF asks for. In a PNG that has none before its pixels it is
    not looked for: the pixels would be decoded."""
    width, height = image.size
    if image.format == "PNG" and "exif" not in image.info:
        return width, height
    return (height, width) if image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE else (width, height)
