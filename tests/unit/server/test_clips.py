"""What the front reads of a video file: its container, whether it is all there, and how many samples it says it has."""

from __future__ import annotations

import struct

import pytest

from encoder_server import clips
from tests.support.media import clip

WHOLE = clip([0, 50, 100])
MORE = "the video is damaged: it says that it has more samples than fit into it"


def saying(content: bytes, name: bytes, offset: int, *numbers: int) -> bytes:
    """The file with other numbers behind the name of a box."""
    changed = bytearray(content)
    struct.pack_into(f">{len(numbers)}I", changed, content.index(name) + offset, *numbers)
    return bytes(changed)


@pytest.mark.parametrize("form", ["mp4", "mov"])
def test_a_file_of_few_bytes_and_very_many_samples_is_refused_before_anybody_makes_an_index_of_them(form: str) -> None:
    content = clip([0, 50, 100], form=form)
    assert clips.check(content) == "mov"
    for count in (10_000, 10_000_000, 2**32 - 1):
        with pytest.raises(clips.ClipError, match=MORE):
            clips.check(saying(content, b"stsz", 8, 1, count))


def test_a_fragment_of_very_many_samples_is_refused_too() -> None:
    content = clip([0, 50, 100], movflags="frag_keyframe+empty_moov")
    assert clips.check(content) == "mov"
    with pytest.raises(clips.ClipError, match=MORE):
        clips.check(saying(content, b"trun", 8, 10_000_000))


def test_a_header_that_is_compressed_hides_no_table() -> None:
    with pytest.raises(clips.ClipError, match="compressed"):
        clips.check(WHOLE.replace(b"udta", b"cmov"))


def test_what_is_in_the_frames_themselves_is_no_table() -> None:
    head, inside = struct.pack(">I", 8 + 64), b"stsz" + bytes(4) + b"\xff" * 56
    assert clips.check(WHOLE + head + b"mdat" + inside) == "mov"
