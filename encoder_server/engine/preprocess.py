"""Media to features: decode each item, then run the checkpoint's processor on those that decoded.

Place: second stage of the engine, after `decode` and before `promise`.

Must never: count tokens (the encoder reads them off the processor's output), or let one item fail another.
"""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

from encoder_server.encoders import Decoded, Encoder, Features, LayoutError
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.decode import BadMediaError, decode_picture
from encoder_server.engine.decode_clip import ChoiceError, Choose, decode_clip, decode_frames
from encoder_server.engine.decode_sound import decode_sound
from encoder_server.engine.isolate import Fault, fault, isolate
from encoder_server.engine.messages import Failure
from encoder_server.size import Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """One item as it came: undecoded bytes, of one file or, in `frames`, of each picture of a video of which `fps` are
    shown in a second; and the caller's own token count where it sent one."""

    index: int
    modality: str
    data: bytes | memoryview = b""
    frames: tuple[bytes | memoryview, ...] = ()
    fps: float | None = None
    expected_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """How media are decoded: which modalities there are, the rate of their audio, what is too much, and who chooses
    frames of a video file (None: all are taken)."""

    modalities: Collection[str]
    rate: int | None
    bounds: Bounds
    choose: Choose | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A decoded item; `size` is its own, before it was fitted to the encoder: of a video file that of the frames that
    were taken, and without a rate where others were not, so that a list of that size is taken just so."""

    medium: Medium
    decoded: Decoded
    size: Size


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An item with its features."""

    medium: Medium
    features: Features
    size: Size


def preprocess(encoder: Encoder[Any], media: Sequence[Medium], rules: Rules) -> tuple[list[Ready], list[Failure]]:
    """Decode and process `media`, one modality after the other; each comes back as Ready, in order, or as a Failure."""
    failures: list[Failure] = []
    ready: list[Ready] = []

    def run(group: Sequence[Opened]) -> list[Features]:
        return [_sound(features) for features in encoder.preprocess([opened.decoded for opened in group])]

    def renew(opened: Opened) -> Opened:
        return _decode(opened.medium, rules)

    for group in _groups(media, rules, failures):
        for opened, outcome in zip(group, isolate("processor", run, group, renew), strict=True):
            if isinstance(outcome, Fault):
                failures.append(_failure(opened.medium, outcome, opened.size))
            else:
                ready.append(Ready(medium=opened.medium, features=outcome, size=opened.size))
    places = {id(medium): place for place, medium in enumerate(media)}
    return sorted(ready, key=lambda each: places[id(each.medium)]), failures


def _groups(media: Sequence[Medium], rules: Rules, failures: list[Failure]) -> Iterator[list[Opened]]:
    """Decode, and give what is of one modality together, but no more pixels at a time than one video may have: a
    batch of videos would else be held in full."""
    for modality in dict.fromkeys(medium.modality for medium in media):
        group: list[Opened] = []
        held = 0
        for medium in media:
            if medium.modality != modality:
                continue
            opened = _open(medium, rules)
            if isinstance(opened, Failure):
                failures.append(opened)
                continue
            held += opened.size.pixels
            if group and held > rules.bounds.max_clip_pixels:
                yield group
                group, held = [], opened.size.pixels
            group.append(opened)
        yield group


def _open(medium: Medium, rules: Rules) -> Opened | Failure:
    try:
        return _decode(medium, rules)
    except BadMediaError as error:
        return replace(_failure(medium, Fault(code="bad_media", detail=str(error))), frame=error.frame)
    except ChoiceError as error:
        return _failure(medium, fault("processor", error.__cause__ or error))
    except MemoryError:
        return _failure(medium, Fault(code="out_of_memory", detail="out of memory in decoding"))


def _decode(medium: Medium, rules: Rules) -> Opened:
    bounds = rules.bounds
    match medium.modality if medium.modality in rules.modalities else None:
        case "image":
            picture = decode_picture(medium.data, max_pixels=bounds.max_pixels)
            height, width = picture.pixels.shape[:2]
            return Opened(medium=medium, decoded=picture, size=Size(modality="image", width=width, height=height))
        case "video":
            fps = medium.fps
            clip = (
                decode_frames(medium.frames, fps=fps, bounds=bounds)
                if medium.frames
                else decode_clip(medium.data, bounds=bounds, choose=rules.choose)
            )
            frames, height, width = clip.frames.shape[:3]
            rate = 0.0 if clip.total not in (None, frames) else clip.fps or 0.0
            size = Size(modality="video", width=width, height=height, frames=frames, fps=rate)
            return Opened(medium=medium, decoded=clip, size=size)
        case "audio" if rules.rate is not None:
            sound, size = decode_sound(medium.data, rate=rules.rate, bounds=bounds)
            return Opened(medium=medium, decoded=sound, size=size)
    raise BadMediaError("the encoder has no such modality")


def _sound(features: object) -> Features:
    """Give features whose promise can be sent; raises LayoutError for what is none, which costs its item alone."""
    if not isinstance(features, Features):
        raise LayoutError(f"an item's features are a {type(features).__name__}")
    if not isinstance(features.grid, Iterable):
        raise LayoutError(f"an item's grid is a {type(features.grid).__name__}")
    tokens, grid = _whole(features.tokens), tuple(map(_whole, features.grid))
    if tokens < 1:
        raise LayoutError(f"{tokens} tokens are promised for an item")
    return replace(features, tokens=tokens, grid=grid)


def _whole(value: SupportsIndex) -> int:
    """Give the number, by asking for it: to ask whether its class can tell takes half as long as a small decoding."""
    try:
        return int(operator.index(value))
    except TypeError:
        raise LayoutError(f"a promise holds a {type(value).__name__} in place of a whole number") from None


def _failure(medium: Medium, fault: Fault, size: Size | None = None) -> Failure:
    return Failure(index=medium.index, modality=medium.modality, code=fault.code, detail=fault.detail, size=size)
