"""Media: from a request's items to bytes that an engine may decode, within limits read from the header.

Place: after admission, before the engine. Blocking: the pipeline calls it in a thread.
Must never: decode pixels, read a file path or an address, trust a stated MIME type, or pass on a library's text.
"""

from __future__ import annotations

import binascii
import io
from collections.abc import Sequence
from dataclasses import dataclass

import blake3
from PIL import Image, WebPImagePlugin

from encoder_server import multipart
from encoder_server.errors import BadMediaError, LimitExceededError, UnsupportedModalityError
from encoder_server.multipart import Part
from encoder_server.settings import Limits
from encoder_server.wire import EncodeItem, parse

FORMATS = ("JPEG", "PNG", WebPImagePlugin.WebPImageFile.format, "GIF")
_LONGEST_DATA_URL_HEAD = 256
_ORIENTATION, _ON_ITS_SIDE = 0x0112, (5, 6, 7, 8)
# Pillow loads a format when it first needs it. Where no more files can be opened by then, a good picture would pass
# for none; WebP, which is imported above, is the one that `preinit` leaves out.
Image.preinit()
# Pillow's own bomb limits (an error, or only a warning that tests turn into one) come before ours can.
_BOMBS = (Image.DecompressionBombError, Image.DecompressionBombWarning)


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """One item's undecoded content; `digest` is its BLAKE3 (hex), sizes are in pixels as its header says,
    turned as the engine will turn it: a probe of the size that failed must be of the size that was encoded."""

    index: int
    modality: str
    content: bytes
    digest: str
    width: int
    height: int
    expected_tokens: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A request's body as it came."""

    content_type: str | None
    data: bytes


def take(body: Body, modalities: Sequence[str], limits: Limits) -> tuple[Medium, ...]:
    """Return the media of a request's body.

    Raises BadRequestError, BadMediaError, LimitExceededError or UnsupportedModalityError; each names the item.
    """
    return open_all(read(body, limits), modalities, limits)


def open_all(items: Sequence[EncodeItem | Part], modalities: Sequence[str], limits: Limits) -> tuple[Medium, ...]:
    """Return the media of a request's items, as `take` does and with its errors."""
    for index, item in enumerate(items):
        if item.modality not in modalities:
            known = ", ".join(sorted(modalities))
            raise UnsupportedModalityError(f"items[{index}].modality: this encoder has {known} only")
    taken: list[Medium] = []
    total = 0
    for index, item in enumerate(items):
        medium = _open(index, item, limits.max_pixels)
        total += medium.width * medium.height
        if total > limits.max_request_pixels:
            raise LimitExceededError(
                f"items[{index}]: {medium.width}x{medium.height} brings the request to {total} pixels;"
                f" the limit is {limits.max_request_pixels}"
            )
        taken.append(medium)
    return tuple(taken)


def read(body: Body, limits: Limits) -> Sequence[EncodeItem | Part]:
    """Return the items of a request's body, none of them opened; raises BadRequestError or LimitExceededError."""
    if multipart.is_form(body.content_type):
        return multipart.read_form(body.content_type or "", body.data, limits.max_items)
    return parse(body.data, limits.max_items).items


def _open(index: int, item: EncodeItem | Part, max_pixels: int) -> Medium:
    place = f"items[{index}]"
    content = _content(item, place)
    width, height = _size(content, place, max_pixels)
    if width * height > max_pixels:
        raise LimitExceededError(f"{place}: {width}x{height} is {width * height} pixels; the limit is {max_pixels}")
    return Medium(
        index=index,
        modality=item.modality,
        content=content,
        digest=blake3.blake3(content).hexdigest(),
        width=width,
        height=height,
        expected_tokens=item.expected_tokens,
    )


def _content(item: EncodeItem | Part, place: str) -> bytes:
    if isinstance(item, Part):
        content, where = item.content, place
    elif item.data is not None:
        where = f"{place}.data"
        content = _decode(item.data, where)
    else:
        where = f"{place}.url"
        content = _decode(_payload(item.url or "", where), where)
    if not content:
        raise BadMediaError(f"{where}: is empty")
    return content


def _payload(url: str, place: str) -> str:
    """Return the base64 part of a data URL. The MIME type is not looked at: content is what it is."""
    if url[:5].lower() != "data:":
        raise BadMediaError(f"{place}: only data: URLs are read here")
    comma = url.find(",", 0, _LONGEST_DATA_URL_HEAD)
    if comma < 0 or not url[:comma].lower().endswith(";base64"):
        raise BadMediaError(f"{place}: a data: URL must be base64 (data:...;base64,...)")
    return url[comma + 1 :]


def _decode(text: str, place: str) -> bytes:
    """Decode strictly: a lenient decoder drops what it does not know, so that damaged media get through with
    other content than the caller has, and one content gets many spellings."""
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        raise BadMediaError(
            f"{place}: not base64 (RFC 4648, section 4: with padding, without line breaks or spaces)"
        ) from None


def _size(content: bytes, place: str, max_pixels: int) -> tuple[int, int]:
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            return _upright(image)
    except _BOMBS:
        raise LimitExceededError(f"{place}: too many pixels; the limit is {max_pixels}") from None
    except MemoryError:
        raise
    # A parser may raise nearly anything else on hostile bytes; whatever it is, the medium is at fault.
    except Exception:
        raise BadMediaError(f"{place}: not a picture in a known format ({', '.join(FORMATS)})") from None


def _upright(image: Image.Image) -> tuple[int, int]:
    """Return width and height after the turn that EXIF asks for. In a PNG that has none before its pixels it is
    not looked for: the pixels would be decoded."""
    width, height = image.size
    if image.format == "PNG" and "exif" not in image.info:
        return width, height
    return (height, width) if image.getexif().get(_ORIENTATION) in _ON_ITS_SIDE else (width, height)
