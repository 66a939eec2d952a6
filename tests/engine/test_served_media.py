"""Audio and video from a request to rows, through a whole server and an engine's own decoders."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy
import pytest
import pytest_asyncio

from tests.http.under_test import Answer, Checkpoint, Server, serving, until
from tests.support.media import clip, frame, sound, text, tone

ENGINE = (sys.executable, str(Path(__file__).with_name("media_engine.py")))
LIMITS = ("--max-frames=40", "--max-video-seconds=20", "--max-audio-seconds=12", "--max-pixels=100000")
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    checkpoint = Checkpoint(folder / "model")
    checkpoint.write()
    async with serving(
        folder, checkpoint, *LIMITS, "--cache-bytes=10000000", engine=ENGINE, seconds=100
    ) as serving_one:
        yield serving_one


def item(modality: str, content: bytes, **fields: Any) -> dict[str, Any]:
    return {"modality": modality, "data": text(content), **fields}


def frames(*shades: int, width: int = 56, height: int = 56, **fields: Any) -> dict[str, Any]:
    return {"modality": "video", "frames": [text(frame(width, height, shade)) for shade in shades], **fields}


async def encode(server: Server, *items: dict[str, Any]) -> Answer:
    return await server.encode({"items": list(items)})


def rows(answer: Answer) -> list[Any]:
    assert answer.status == 200, answer.body
    return [
        numpy.frombuffer(base64.b64decode(each["data"]), "<f4").reshape(each["shape"]) for each in answer.json["items"]
    ]


async def refusal(server: Server, *items: dict[str, Any]) -> str:
    answer = await encode(server, *items)
    assert answer.status == 400, answer.body
    assert answer.code in ("bad_media", "limit_exceeded", "bad_request")
    return answer.message


async def test_a_batch_may_mix_modalities_and_each_item_has_its_own_rows(server: Server) -> None:
    mixed = await encode(
        server,
        item("image", frame(56, 84)),
        item("video", clip([0, 100, 200, 40, 80])),
        item("audio", sound(tone(16_000))),
        item("image", frame(28, 28)),
        frames(10, 20, 30, fps=2),
    )
    assert [each["modality"] for each in mixed.json["items"]] == ["image", "video", "audio", "image", "video"]
    assert [each["tokens"] for each in mixed.json["items"]] == [6, 3 * 2 * 3, 25, 1, 2 * 2 * 2]


async def test_audio_of_any_rate_is_counted_after_it_has_the_encoders_own(server: Server) -> None:
    for rate in (8_000, 16_000, 22_050, 24_000, 44_100, 48_000, 96_000, 192_000):
        (made,) = rows(await encode(server, item("audio", sound(tone(rate * 17 // 10, rate), rate))))
        assert made.shape == (43, 4), rate
        assert (made[0, 1], made[0, 2]) == (27_200, 16_000), rate


async def test_one_content_has_the_same_rows_by_every_route(server: Server) -> None:
    content = sound(tone(20_000, 22_050), 22_050, "FLAC")
    by_data = await encode(server, item("audio", content))
    by_url = await encode(server, {"modality": "audio", "url": f"data:audio/flac;base64,{text(content)}"})
    head = b'--b\r\nContent-Disposition: form-data; name="item"\r\nContent-Type: audio/flac\r\n\r\n'
    by_form = await server.encode(
        head + content + b"\r\n--b--\r\n", **{"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert by_data.json["items"] == by_url.json["items"] == by_form.json["items"]


async def test_a_video_file_may_come_as_the_part_of_a_form(server: Server) -> None:
    content = clip([0, 200], form="webm", codec="libvpx-vp9")
    head = b'--b\r\nContent-Disposition: form-data; name="item"\r\nContent-Type: video/webm\r\n\r\n'
    answer = await server.encode(
        head + content + b"\r\n--b--\r\n", **{"Content-Type": "multipart/form-data; boundary=b"}
    )
    assert [each["modality"] for each in answer.json["items"]] == ["video"]
    assert rows(answer)[0][0, 1] == 2


async def test_the_rate_of_a_frame_list_is_told_to_the_encoder_and_is_part_of_the_cache_key(server: Server) -> None:
    rates = [rows(await encode(server, frames(1, 2, **fields)))[0][0, 2] for fields in ({}, {"fps": 2}, {"fps": 2.5})]
    assert rates == [0, 2, 2.5]


async def test_the_order_of_frames_is_part_of_the_cache_key(server: Server) -> None:
    first, second = [rows(await encode(server, frames(*shades)))[0] for shades in ((0, 0, 90), (90, 0, 0))]
    assert not numpy.array_equal(first, second)


async def test_a_picture_and_a_video_of_that_one_picture_are_cached_apart(server: Server) -> None:
    picture = frame(56, 56, 7)
    for _ in range(2):
        made = await encode(server, item("image", picture), {"modality": "video", "frames": [text(picture)]})
        assert [each["modality"] for each in made.json["items"]] == ["image", "video"]


async def test_limits_are_stated_for_each_modality(server: Server) -> None:
    stated = (await server.get("/v1/limits")).json["byModality"]
    assert stated["image"] == {"formats": ["JPEG", "PNG", "WEBP", "GIF"], "maxPixels": 100_000}
    assert (stated["video"]["maxFrames"], stated["video"]["maxSeconds"]) == (40, 20)
    assert stated["video"]["maxDecodedPixels"] == 32 * 400_000
    assert stated["audio"] == {
        "formats": ["WAV", "FLAC", "OGG"],
        "minRate": 8000,
        "maxRate": 192_000,
        "maxChannels": 8,
        "maxSeconds": 12,
    }


async def test_whatever_is_over_a_limit_is_refused_with_the_limit(server: Server) -> None:
    assert "12.5 s of audio; the limit is 12 s" in await refusal(server, item("audio", sound(tone(200_000))))
    assert "41 frames; the limit is 40" in await refusal(server, frames(*range(41)))
    assert "24.0 s of video; the limit is 20 s" in await refusal(server, frames(*range(12), fps=0.5))
    assert "the limit is 40" in await refusal(server, item("video", clip([0] * 41)))
    assert "the limit is 40" in await refusal(server, item("video", clip([0] * 41, form="webm", codec="libvpx")))
    assert "the limit is 20 s" in await refusal(server, item("video", clip([0] * 21, fps=1)))
    found = await refusal(server, item("video", clip([0] * 800, fps=60, codec="mpeg4")))
    assert found.startswith(
        "items[0]: the video has 800 frames of 64x48 or more to decode; the limit is 12800000 pixels"
    )
    assert "the limit is 100000" in await refusal(server, item("video", clip([0], width=400, height=260)))
    assert "items[0].frames[1]: 400x260" in await refusal(
        server, {"modality": "video", "frames": [text(frame(40, 26)), text(frame(400, 260))]}
    )
    many = [frames(*[0] * 40, width=50, height=50) for _ in range(5)]
    assert "items[4]" in (found := await refusal(server, *many))
    assert "the limit is 400000" in found


async def test_a_frame_that_is_at_fault_is_named(server: Server) -> None:
    good = frame()
    for bad in (b"hello", b"", good[: len(good) // 2]):
        found = await refusal(server, {"modality": "video", "frames": [text(good), text(bad), text(good)]})
        assert found.startswith("items[0].frames[1]:")
    assert (await refusal(server, frames(1), {"modality": "video", "frames": [text(good), "###"]})).startswith(
        "items[1].frames[1]: not base64"
    )


async def test_frames_and_their_rate_go_only_where_they_belong(server: Server) -> None:
    for wrong, why in (
        ({"modality": "image", "frames": [text(frame())]}, "only video has"),
        ({"modality": "video", "frames": []}, "items[0].frames must not be empty"),
        ({"modality": "video", "data": text(clip()), "fps": 2}, "goes with frames"),
        ({"modality": "video", "frames": [text(frame())], "data": text(clip())}, "exactly one of"),
        (frames(1, fps=0), "items[0].fps is no rate that is taken; the limits are 0.001 and 1000 frames a second"),
        (frames(1, fps=1001), "the limits are 0.001 and 1000 frames a second"),
        (frames(1, fps="2"), "items[0].fps must be a number"),
    ):
        assert why in await refusal(server, wrong)


async def test_a_medium_of_another_kind_than_it_says_is_refused(server: Server) -> None:
    media = {"image": frame(), "video": clip(), "audio": sound(tone(16_000))}
    for modality in media:
        for kind, content in media.items():
            if kind != modality:
                assert (await refusal(server, item(modality, content))).startswith("items[0]: not a ")


async def test_silence_after_speech_is_what_silence_is_alone(server: Server) -> None:
    silence = item("audio", sound(numpy.zeros(16_000, numpy.float32)))
    await encode(server, item("audio", sound(tone(16_001))))
    (made,) = rows(await encode(server, silence))
    assert not made[:, 0].any()


async def test_the_golden_probe_has_media_of_every_modality_and_passes(server: Server) -> None:
    identity = await server.identity()
    kinds = [each["modality"] for each in identity["probe"]["items"]]
    assert kinds == ["image"] * 5 + ["video"] * 3 + ["audio"] * 4
    assert identity["probe"]["result"] == "passed"
    assert all(each["samples"] and each["rate"] for each in identity["probe"]["items"][-4:])
    assert [each.get("fps") for each in identity["probe"]["items"][5:8]] == [None, 2.0, 2.0]


async def test_a_probe_may_be_ordered_for_the_size_of_any_modality(server: Server) -> None:
    contract = json.loads((Path(__file__).parents[1] / "contract" / "orders.json").read_text())
    identity = await server.identity()
    sizes = [
        {"modality": "video", "width": 64, "height": 48, "frames": 15, "fps": 2.5},
        {"modality": "video", "width": 64, "height": 48, "frames": 7},
        {"modality": "audio", "samples": 33_075, "rate": 22_050},
    ]
    order = {"id": "probe-media", "bootId": identity["bootId"], "sizes": sizes}
    server.pod.write({"encoderpool.io/serving": "true"}, {contract["probe"]["annotation"]: order})

    async def answered() -> Any:
        told = await server.identity()
        done = told["orders"]["probe"]
        return told if done is not None and done["result"] != "running" else None

    told = await until(answered)
    assert told["orders"]["probe"] == {"id": "probe-media", "result": "passed"}
    asked = [{name: each[name] for name in size} for size, each in zip(sizes, told["probe"]["items"][-3:], strict=True)]
    assert asked == sizes
