"""What becomes of a video: its frames upright, in order and of one size, or our own words for what is refused."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from fractions import Fraction
from typing import Any

import av
import numpy
import pytest

from encoder_server.encoders import Clip
from encoder_server.engine.bounds import DEFAULTS
from encoder_server.engine.decode import BadMediaError
from encoder_server.engine.decode_clip import decode_clip, decode_frames
from tests.support import video_files
from tests.support.media import clip, frame, sound, tone

SHADES = (0, 60, 120, 180, 240)
FORMS = (
    ("mp4", "libx264"),
    ("mp4", "libx265"),
    ("mp4", "libsvtav1"),
    ("mp4", "mpeg4"),
    ("mov", "libx264"),
    ("webm", "libvpx"),
    ("webm", "libvpx-vp9"),
    ("matroska", "libx264"),
    ("avi", "mpeg4"),
    ("avi", "mjpeg"),
)


def decode(content: bytes, **changes: Any) -> Clip:
    return decode_clip(content, bounds=replace(DEFAULTS, **changes))


def refusal(content: bytes, **changes: Any) -> str:
    with pytest.raises(BadMediaError) as caught:
        decode(content, **changes)
    return str(caught.value)


def shades(made: Clip) -> list[int]:
    return [round(float(each.mean())) for each in made.frames]


@pytest.mark.parametrize(("form", "codec"), FORMS)
def test_every_listed_container_and_codec_gives_the_frames_that_were_written(form: str, codec: str) -> None:
    made = decode(clip(SHADES, form=form, codec=codec))
    assert (made.frames.shape, str(made.frames.dtype), made.fps) == ((5, 48, 64, 3), "uint8", 10)
    assert numpy.abs(numpy.subtract(shades(made), SHADES)).max() <= 6


@pytest.mark.parametrize("count", [1, 2, 3, 7, 33])
def test_any_number_of_frames_is_given_as_it_is(count: int) -> None:
    for form, codec in (("mp4", "libx264"), ("webm", "libvpx-vp9")):
        assert len(decode(clip([9] * count, form=form, codec=codec)).frames) == count


def test_sides_that_are_odd_are_kept() -> None:
    made = decode(clip(SHADES, width=61, height=47, form="webm", codec="libvpx-vp9"))
    assert made.frames.shape == (5, 47, 61, 3)


def test_frames_at_uneven_times_are_all_there_and_fps_is_their_mean() -> None:
    times = [0, 50, 400, 450, 1000]
    for form, codec in (("matroska", "libx264"), ("webm", "libvpx-vp9")):
        made = decode(clip(SHADES, form=form, codec=codec, times=times))
        assert len(made.frames) == 5
        assert made.fps is not None
        assert 3 <= made.fps <= 6


def test_a_video_is_turned_upright() -> None:
    file = io.BytesIO(clip([0, 0], width=64, height=32))
    turned = io.BytesIO()
    with av.open(file, "r") as given, av.open(turned, "w", format="mp4") as made:
        stream = made.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                made.mux(packet)
    content = turned.getvalue()
    assert decode(content).frames.shape[1:] == (32, 64, 3)
    one, none, minus = (number.to_bytes(4, "big", signed=True) for number in (0x10000, 0, -0x10000))
    upright = one + none * 3 + one + none * 3 + (0x40000000).to_bytes(4, "big")
    quarter = none + one + none + minus + none * 4 + (0x40000000).to_bytes(4, "big")
    at = content.index(upright, content.index(b"tkhd"))
    assert decode(content[:at] + quarter + content[at + len(quarter) :]).frames.shape[1:] == (64, 32, 3)


def test_limits_are_named_and_what_just_keeps_them_passes() -> None:
    for form, codec in FORMS:
        content = clip(SHADES, form=form, codec=codec)
        decode(content, max_frames=5, max_pixels=64 * 48, max_clip_pixels=5 * 64 * 48, max_video_seconds=0.6)
        assert "the limit is 4" in refusal(content, max_frames=4)
        assert "64x48; the limit is 3071 pixels" in refusal(content, max_pixels=64 * 48 - 1)
        assert "the limit is 15359" in refusal(content, max_clip_pixels=5 * 64 * 48 - 1)
        assert "s of video; the limit is 0.4 s" in refusal(content, max_video_seconds=0.4)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.95, 0.999])
def test_a_file_cut_short_is_refused_in_our_own_words(share: float) -> None:
    for form, codec in FORMS:
        content = clip(SHADES, form=form, codec=codec)
        found = refusal(content[: int(len(content) * share)])
        assert "cut short" in found or "not a video in a known format" in found, (form, codec)


def test_a_file_with_sound_alone_has_no_video_in_it() -> None:
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as made:
        stream = made.add_stream("aac", rate=16_000)
        assert isinstance(stream, av.AudioStream)
        heard = av.AudioFrame.from_ndarray(tone(4_096)[None], format="fltp", layout="mono")
        heard.sample_rate = 16_000
        made.mux(stream.encode(heard))
        made.mux(stream.encode())
    assert refusal(file.getvalue()) == "the file has no video in it"


def test_a_file_without_frames_is_refused() -> None:
    content = clip([0], form="webm", codec="libvpx-vp9")
    cluster = content.index(b"\x1f\x43\xb6\x75")
    found = refusal(content[:cluster] + b"\xec\x01" + (len(content) - cluster - 9).to_bytes(7, "big") + bytes(0))
    assert "cut short" in found or "no frames" in found


@pytest.mark.parametrize("form", ["mpegts", "flv", "gif", "ogg"])
def test_a_container_that_is_not_listed_is_no_video(form: str) -> None:
    codec = "libvpx" if form == "ogg" else "libx264"
    content = frame(form="GIF") if form == "gif" else clip(SHADES, form=form, codec=codec)
    assert refusal(content).startswith("not a video in a known format")


@pytest.mark.parametrize(
    "content",
    [
        b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        b"ffconcat version 1.0\nfile '/etc/passwd'\n",
        b'<?xml version="1.0"?><MPD xmlns="urn:mpeg:dash:schema:mpd:2011"></MPD>',
        b"v=0\no=- 0 0 IN IP4 127.0.0.1\nm=video 5004 RTP/AVP 96\n",
        b"",
        b"hello",
    ],
)
def test_a_playlist_or_what_else_names_other_files_is_no_video(content: bytes) -> None:
    assert refusal(content).startswith("not a video in a known format")


def test_a_codec_that_is_not_listed_is_refused() -> None:
    for form, codec in (("avi", "huffyuv"), ("mov", "png"), ("avi", "ffv1")):
        file = io.BytesIO()
        with av.open(file, "w", format=form) as made:
            stream = made.add_stream(codec, rate=10)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = (
                64,
                48,
                {"huffyuv": "yuv422p", "png": "rgb24"}.get(codec, "yuv420p"),
            )
            drawn = av.VideoFrame.from_ndarray(numpy.zeros((48, 64, 3), numpy.uint8), format="rgb24")
            made.mux(stream.encode(drawn))
            made.mux(stream.encode())
        assert "of a coding that is not taken" in refusal(file.getvalue()), codec


def test_a_header_that_says_fewer_frames_or_smaller_ones_is_not_believed() -> None:
    content = clip([0] * 30, form="webm", codec="libvpx-vp9", width=320, height=240)
    width, height = b"\xb0\x82\x01\x40", b"\xba\x81\xf0"
    lying = content.replace(width, b"\xb0\x82\x00\x40").replace(height, b"\xba\x81\x30")
    assert lying != content
    assert "the limit" in refusal(lying, max_pixels=64 * 48) or "damaged" in refusal(lying, max_pixels=64 * 48)
    assert "the limit is 29" in refusal(content, max_frames=29)


def test_no_byte_of_a_file_makes_another_error() -> None:
    rng = numpy.random.default_rng(7)
    for form, codec in (("mp4", "libx264"), ("webm", "libvpx-vp9"), ("avi", "mpeg4")):
        whole = clip(SHADES, form=form, codec=codec)
        for _ in range(100):
            content = bytearray(whole)
            for at in rng.integers(0, len(whole), 4):
                content[at] = rng.integers(0, 256)
            with contextlib.suppress(BadMediaError):
                assert len(decode(bytes(content), max_pixels=100_000, max_frames=50).frames) <= 50


def test_a_list_of_frames_is_a_video_of_pictures() -> None:
    made = decode_frames([frame(30, 20, shade) for shade in (1, 2, 3)], fps=None, bounds=DEFAULTS)
    assert (made.frames.shape, made.fps, made.frames[:, 0, 0, 0].tolist()) == ((3, 20, 30, 3), None, [1, 2, 3])
    for kind in ("JPEG", "WEBP", "GIF"):
        assert decode_frames([frame(30, 20, 9, kind)], fps=2.5, bounds=DEFAULTS).fps == 2.5


def test_a_frame_that_is_at_fault_is_named_by_its_place() -> None:
    for bad in (frame(31, 20), frame(30, 20)[:40], b"hello", sound(tone(100))):
        with pytest.raises(BadMediaError) as caught:
            decode_frames([frame(30, 20), frame(30, 20), bad], fps=None, bounds=DEFAULTS)
        assert caught.value.frame == 2


def test_a_list_is_held_to_the_limits_of_a_video() -> None:
    pictures = [frame(30, 20)] * 4
    for changes, limit in (({"max_frames": 3}, "limit is 3"), ({"max_clip_pixels": 2399}, "limit is 2399")):
        with pytest.raises(BadMediaError, match=limit):
            decode_frames(pictures, fps=None, bounds=replace(DEFAULTS, **changes))


def test_a_rate_that_the_times_deny_is_not_believed() -> None:
    content = clip(SHADES, form="matroska", codec="libx264", fps=10)
    made = decode(content)
    assert made.fps == pytest.approx(float(Fraction(10)), rel=0.01)


def test_a_frame_of_too_many_scans_is_refused_before_it_is_decoded() -> None:
    whole = clip([9], form="avi", codec="mjpeg")
    assert len(decode(whole).frames) == 1
    start = whole.rfind(b"\xff\xda")
    scans = whole[start : whole.rfind(b"\xff\xd9")] * 100
    # In Matroska, whose packets may be of any length.
    with av.open(io.BytesIO(whole), "r") as given:
        (packet,) = (packet for packet in given.demux(video=0) if packet.size)
        stream = given.streams.video[0]
        made = io.BytesIO()
        with av.open(made, "w", format="matroska") as file:
            out = file.add_stream_from_template(stream)
            data = bytes(packet)
            swollen = av.Packet(data[: data.rfind(b"\xff\xd9")] + scans + b"\xff\xd9")
            swollen.pts, swollen.dts, swollen.time_base, swollen.stream = 0, 0, packet.time_base, out
            file.mux(swollen)
    assert refusal(made.getvalue()) == "a frame is a JPEG of more than 64 scans, the limit"


def test_packets_of_frames_that_are_not_shown_count_as_work_to_decode() -> None:
    made = io.BytesIO()
    with (
        av.open(io.BytesIO(clip([9, 9], form="webm", codec="libvpx")), "r") as given,
        av.open(made, "w", "webm") as file,
    ):
        first, second = (packet for packet in given.demux(video=0) if packet.size)
        out = file.add_stream_from_template(given.streams.video[0])
        hidden = bytes([bytes(second)[0] & ~0x10]) + bytes(second)[1:]  # VP8's bit for a frame that is shown
        for at, data in enumerate([bytes(first), *[hidden] * 100]):
            packet = av.Packet(data)
            packet.pts, packet.dts, packet.time_base, packet.stream = at, at, first.time_base, out
            packet.is_keyframe = at == 0
            file.mux(packet)
    assert len(decode(made.getvalue()).frames) == 1
    least = 2**14
    decode(made.getvalue(), max_decoded_pixels=101 * least)
    said = refusal(made.getvalue(), max_decoded_pixels=100 * least)
    assert said == (
        "the video has 101 frames of 64x48 or more to decode; the limit is 1638400 pixels (a frame counts as 16384 at"
        " least)"
    )


def test_a_sound_beside_the_video_that_names_the_same_bytes_again_and_again_is_not_read_so_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    content = video_files.overlapping_beside(100_000, 100_000)  # 10 GB, in half a megabyte.
    read = 0

    class Counting(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            nonlocal read
            part = super().read(size)
            read += len(part)
            return part

    monkeypatch.setattr(io, "BytesIO", Counting)
    assert len(decode(content).frames) == 8
    assert 0 < read < 8 * len(content)
