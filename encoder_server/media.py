"""Media: from a request's items to bytes that an engine may decode, within limits read from the header.

Place: after admission, before the engine. Blocking for as long as headers take to be read: `intake` calls it in a
thread, but where they are known.

What a header says is read by Pillow for a picture (`pictures`), byte by byte for a sound (`sounds`), and for a video
file not at all but for its container (`clips`): the parsers of video and audio are native code, and the engine is the
wall around them. It holds every file to the same limits before it decodes, and while it does.

Must never: decode pixels or samples, read a file path or an address, trust a stated MIME type, or pass on a library's
text.
"""

from __future__ import annotations

import binascii
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import blake3

from encoder_server import clips, multipart, pictures, sounds
from encoder_server.errors import BadMediaError, CallerError, LimitExceededError, UnsupportedModalityError
from encoder_server.multipart import Content, Part
from encoder_server.settings import Limits
from encoder_server.size import Size
from encoder_server.wire import EncodeItem, parse

_LONGEST_DATA_URL_HEAD = 256
_MOST_COMMAS = 64  # Of one item beside its frames: between its fields, and in a URL.
_MOST_OPENINGS = 64  # Of one item: colons and opening brackets, in a URL too.


@dataclass(frozen=True, slots=True)
class Medium:
    """One item's undecoded content: one file or, with `listed`, a video's frames in order, `fps` of them shown in a
    second (None: not known). `digest` is BLAKE3 (hex) of all of that. `size` is what the headers say, a picture's
    turned as the engine will turn it; of a video file they are not read. `cost` is its share of a batch, in pixels."""

    index: int
    modality: str
    contents: tuple[Content, ...]
    digest: str
    size: Size
    cost: int
    expected_tokens: int | None
    listed: bool = False
    fps: float | None = None


class Body(NamedTuple):
    """A request's body as it came."""

    content_type: str | None
    data: bytes


def measure(modality: str, content: Content, digest: str, place: str, limits: Limits) -> tuple[Size, int]:
    """Return a file's size, as far as the front reads its header, and its share of a batch.

    Raises BadMediaError or LimitExceededError, which name `place`.
    """
    if modality == "video":
        try:
            clips.check(content)
        except clips.ClipError as wrong:
            raise BadMediaError(f"{place}: {wrong}") from None
        return Size(modality=modality), clips.cost(len(content))
    if modality == "audio":
        try:
            header = sounds.read(content)
        except sounds.SoundError as wrong:
            raise BadMediaError(f"{place}: {wrong}") from None
        if header.seconds > limits.max_audio_seconds:
            raise LimitExceededError(
                f"{place}: {header.seconds:.8g} s of audio; the limit is {limits.max_audio_seconds:g} s"
            )
        size = Size(modality=modality, samples=header.samples, rate=header.rate)
    else:
        width, height = pictures.measure(content, place, limits.max_pixels)
        size = Size(modality=modality, width=width, height=height)
    return size, size.cost


Measure = Callable[[str, Content, str, str, Limits], tuple[Size, int]]


def take(
    body: Body, modalities: Collection[str], limits: Limits, measure: Measure = measure, few: int | None = None
) -> tuple[Medium, ...]:
    """Return the media of a request's body; `measure` is this module's, or one that remembers.

    Raises BadRequestError, BadMediaError, LimitExceededError or UnsupportedModalityError; each names the item. Raises
    ManyPartsError where there are more than `few` parts.
    """
    return open_all(read(body, limits, few), modalities, limits, measure)


def open_all(
    items: Sequence[EncodeItem | Part], modalities: Collection[str], limits: Limits, measure: Measure = measure
) -> tuple[Medium, ...]:
    """Return the media of a request's items, as `take` does and with its errors."""
    for index, item in enumerate(items):
        if item.modality not in modalities:
            known = ", ".join(sorted(modalities))
            raise UnsupportedModalityError(f"items[{index}].modality: accepted here: {known}").of_item(index)
    taken: list[Medium] = []
    total = 0
    for index, item in enumerate(items):
        try:
            medium = _open(index, item, limits, measure)
            total += medium.size.pixels
            if total > limits.max_request_pixels:
                raise LimitExceededError(
                    f"items[{index}]: {medium.size.words} brings the request to {total} pixels;"
                    f" the limit is {limits.max_request_pixels}"
                )
        except CallerError as error:
            raise error.of_item(index, item.modality) from None
        taken.append(medium)
    return tuple(taken)


def read(body: Body, limits: Limits, few: int | None = None) -> Sequence[EncodeItem | Part]:
    """Return the items of a request's body, none of them opened; raises BadRequestError or LimitExceededError, and of
    a form of more than `few` parts ManyPartsError."""
    if multipart.is_form(body.content_type):
        return multipart.read_form(body.content_type or "", body.data, limits.max_items, few)
    _limit_shape(body.data, limits)
    return parse(body.data, limits.max_items).items


def _limit_shape(body: bytes, limits: Limits) -> None:
    """Hold a JSON body to no more fields and lists than its items may have, counted in what is no part of base64.

    What a parser keeps of each wrong one is a hundred times as large as it is in the body, and takes as long.
    """
    if body.count(b",") > limits.max_items * (limits.max_frames + _MOST_COMMAS):
        raise LimitExceededError(
            f"items: more fields than {limits.max_items} items of {limits.max_frames} frames have, the limits"
        )
    most = limits.max_items * _MOST_OPENINGS
    if sum(_up_to(most, mark, body) for mark in (b":", b"[", b"{")) > most:
        raise LimitExceededError(
            f"body: more fields, lists and objects than {most}, the limit ({_MOST_OPENINGS} for each of"
            f" {limits.max_items} items)"
        )


def _up_to(most: int, mark: bytes, body: bytes) -> int:
    """Count `mark` in `body` until there are more than `most`: where it is rare, ten times as fast as `bytes.count`."""
    count, at = 0, body.find(mark)
    while at >= 0 and count <= most:
        count, at = count + 1, body.find(mark, at + 1)
    return count


def _open(index: int, item: EncodeItem | Part, limits: Limits, measure: Measure) -> Medium:
    place = f"items[{index}]"
    if isinstance(item, EncodeItem) and item.frames is not None:
        return _open_frames(index, item, item.frames, limits, measure)
    content = _content(item, place)
    digest = blake3.blake3(content).hexdigest()
    size, cost = measure(item.modality, content, digest, place, limits)
    return Medium(index, item.modality, (content,), digest, size, cost, item.expected_tokens)


def _open_frames(index: int, item: EncodeItem, frames: Sequence[str], limits: Limits, measure: Measure) -> Medium:
    """Open a video that comes as pictures, all of one size; the limits of the whole come before the first is read."""
    place = f"items[{index}].frames"
    if len(frames) > limits.max_frames:
        raise LimitExceededError(f"{place}: {len(frames)} frames; the limit is {limits.max_frames}")
    if item.fps is not None and len(frames) / item.fps > limits.max_video_seconds:
        seconds = len(frames) / item.fps
        raise LimitExceededError(f"{place}: {seconds:.1f} s of video; the limit is {limits.max_video_seconds:g} s")
    contents: list[Content] = []
    digests: list[str] = []
    first = (0, 0)
    for at, frame in enumerate(frames):
        where = f"{place}[{at}]"
        contents.append(_filled(_decode(frame, where), where))
        digests.append(blake3.blake3(contents[-1]).hexdigest())
        size, _ = measure("image", contents[-1], digests[-1], where, limits)
        width, height = size.width, size.height
        first = first if at else (width, height)
        if (width, height) != first:
            raise BadMediaError(f"{where}: {width}x{height}, and the first frame is {first[0]}x{first[1]}")
        if width * height * (at + 1) > limits.max_request_pixels:
            raise LimitExceededError(
                f"{where}: {at + 1} frames of {width}x{height} are {width * height * (at + 1)} pixels;"
                f" the limit is {limits.max_request_pixels}"
            )
    # The modality is for the cache to add, as for a file.
    about = ["frames", item.fps, digests]
    size = Size(modality=item.modality, width=first[0], height=first[1], frames=len(frames), fps=item.fps or 0)
    return Medium(
        index=index,
        modality=item.modality,
        contents=tuple(contents),
        listed=True,
        fps=item.fps,
        digest=blake3.blake3(json.dumps(about).encode()).hexdigest(),
        size=size,
        cost=size.cost,
        expected_tokens=item.expected_tokens,
    )


def _content(item: EncodeItem | Part, place: str) -> Content:
    if isinstance(item, Part):
        return _filled(item.content, place)
    if item.data is not None:
        return _filled(_decode(item.data, f"{place}.data"), f"{place}.data")
    where = f"{place}.url"
    return _filled(_decode(_payload(item.url or "", where), where), where)


def _filled(content: Content, where: str) -> Content:
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
