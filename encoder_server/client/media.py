"""Media: what a caller asks to have encoded.

Place: the first argument of `encode`. Pure. Must never: look into a medium's bytes.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Medium:
    """One medium's bytes, as a file holds them. `expected_tokens`: the caller's own count; where the server's promise
    is another, the call fails with PromiseMismatchError. A subclass names its modality."""

    modality: ClassVar[str]
    content: bytes = field(repr=False)
    expected_tokens: int | None = None


class Image(Medium):
    """A picture."""

    __slots__ = ()
    modality = "image"


class Audio(Medium):
    """A sound."""

    __slots__ = ()
    modality = "audio"


class Video(Medium):
    """A clip, as a file."""

    __slots__ = ()
    modality = "video"


@dataclass(frozen=True, slots=True)
class Frames:
    """A clip, as its frames in order: pictures as files hold them, `fps` of them shown in a second where known."""

    modality: ClassVar[str] = "video"
    frames: tuple[bytes, ...] = field(repr=False)
    fps: float | None = None
    expected_tokens: int | None = None


Item = Medium | Frames
