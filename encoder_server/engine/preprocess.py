"""Media to features: decode each item, then run the checkpoint's processor on those that decoded.

Place: second stage of the engine, after `decode` and before `promise`.

Must never: count tokens (the encoder reads them off the processor's output), or let one item fail another.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, SupportsIndex

from encoder_server.encoders import Encoder, Features, LayoutError, Picture
from encoder_server.engine.decode import BadMediaError, decode_picture
from encoder_server.engine.isolate import Fault, isolate
from encoder_server.engine.messages import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Medium:
    """One item as it came: undecoded bytes, and the caller's own token count where it sent one."""

    index: int
    modality: str
    data: bytes | memoryview
    expected_tokens: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Ready:
    """An item with its features."""

    medium: Medium
    features: Features


def preprocess(
    encoder: Encoder[Any], media: Sequence[Medium], *, modalities: Collection[str], max_pixels: int
) -> tuple[list[Ready], list[Failure]]:
    """Decode and process `media` as one batch; each comes back as Ready or as a Failure."""
    failures: list[Failure] = []
    decoded: list[tuple[Medium, Picture]] = []
    for medium in media:
        picture = _decode(medium, modalities, max_pixels)
        if isinstance(picture, Fault):
            failures.append(_failure(medium, picture))
        else:
            decoded.append((medium, picture))

    def run(pairs: Sequence[tuple[Medium, Picture]]) -> list[Features]:
        return [_sound(features) for features in encoder.preprocess([picture for _, picture in pairs])]

    def renew(pair: tuple[Medium, Picture]) -> tuple[Medium, Picture]:
        return pair[0], decode_picture(pair[0].data, max_pixels=max_pixels)

    outcomes = isolate("processor", run, decoded, renew)
    ready: list[Ready] = []
    for (medium, _), outcome in zip(decoded, outcomes, strict=True):
        if isinstance(outcome, Fault):
            failures.append(_failure(medium, outcome))
        else:
            ready.append(Ready(medium=medium, features=outcome))
    return ready, failures


def _sound(features: object) -> Features:
    """Give features whose promise can be sent; raises LayoutError for what is none, which costs its item alone."""
    if not isinstance(features, Features):
        raise LayoutError(f"an item's features are a {type(features).__name__}")
    if not isinstance(features.grid, Iterable):
        raise LayoutError(f"an item's grid is a {type(features.grid).__name__}")
    tokens, grid = _whole(features.tokens), tuple(_whole(side) for side in features.grid)
    if tokens < 1:
        raise LayoutError(f"{tokens} tokens are promised for an item")
    return replace(features, tokens=tokens, grid=grid)


def _whole(value: object) -> int:
    if not isinstance(value, SupportsIndex):
        raise LayoutError(f"a promise holds a {type(value).__name__} in place of a whole number")
    return value.__index__()


def _decode(medium: Medium, modalities: Collection[str], max_pixels: int) -> Picture | Fault:
    if medium.modality != "image" or medium.modality not in modalities:
        return Fault(code="bad_media", detail="the encoder has no such modality")
    try:
        return decode_picture(medium.data, max_pixels=max_pixels)
    except BadMediaError as error:
        return Fault(code="bad_media", detail=str(error))
    except MemoryError:
        return Fault(code="out_of_memory", detail="out of memory in decoding")


def _failure(medium: Medium, fault: Fault) -> Failure:
    return Failure(index=medium.index, modality=medium.modality, code=fault.code, detail=fault.detail)
