"""A family over HTTP: made, served and asked by the commands that a person would use."""

from __future__ import annotations

import base64
import io
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import av
import numpy
import numpy.typing
import pytest
from PIL import Image

from encoder_server.encoders import Clip
from tests.support import media, video_files
from tests.support.clips import clip
from tests.support.encoders import picture
from tests.support.families import Families
from tests.support.media import text
from tests.support.waiting import until

SERVER = (sys.executable, "-m", "encoder_server")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of a Qwen3-VL checkpoint."""
    folder = tmp_path_factory.mktemp("served") / "checkpoint"
    subprocess.run([*SERVER, "make-checkpoint", "--family", "qwen3_vl", "--seed", "7", folder], check=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [*SERVER, "serve", str(folder), "--port", str(port), "--engines", "1", "--log-level", "warning"]
    with subprocess.Popen(command, env={**os.environ, "HF_HUB_OFFLINE": "1"}) as process:
        address = f"http://127.0.0.1:{port}"
        until("the server is ready", lambda: ready(address), seconds=100)
        yield address
        process.terminate()
        assert process.wait(30) == 0


def ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def encode(address: str, *sizes: tuple[int, int]) -> tuple[int, Any]:
    return ask(address, *({"modality": "image", "data": text(picture(*size))} for size in sizes))


def ask(address: str, *items: dict[str, Any]) -> tuple[int, Any]:
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    request = urllib.request.Request(f"{address}/v1/encode", json.dumps({"items": items}).encode(), headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def test_qwen3_vl_is_served_with_its_deepstack_features(served: str, families: Families) -> None:
    sizes = [(112, 84), (313, 91), (1, 1)]
    status, answer = encode(served, *sizes)
    assert status == 200
    for size, item in zip(sizes, answer["items"], strict=True):
        rows = numpy.frombuffer(base64.b64decode(item["data"]), item["dtype"]).reshape(item["shape"])
        truth = families.pipeline("qwen3_vl").rows(picture(*size))
        assert rows.shape == truth.shape == (item["tokens"], 144)
        assert numpy.abs(rows - truth).max() < 2e-5


def shown(file: bytes, fps: float) -> Clip:
    """All frames of a video file, as FFmpeg has them."""
    with av.open(io.BytesIO(file), mode="r") as container:
        frames: list[Any] = [each.to_ndarray(format="rgb24") for each in container.decode(video=0)]
    return Clip(frames=numpy.stack(frames), fps=fps)


def as_png(pixels: numpy.typing.NDArray[numpy.uint8]) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def test_a_video_file_and_lists_of_frames_give_the_librarys_rows_beside_pictures(
    served: str, families: Families
) -> None:
    file = media.clip(range(0, 250, 11), width=112, height=84, fps=10)
    bare, rated = clip(5, 84, 112), clip(9, 61, 173, fps=4.0)
    asked: list[dict[str, Any]] = [
        {"modality": "video", "data": text(file)},
        {"modality": "image", "data": text(picture(112, 84))},
    ]
    for given in (bare, rated):
        rate = {} if given.fps is None else {"fps": given.fps}
        asked.append({"modality": "video", "frames": [text(as_png(frame)) for frame in given.frames], **rate})
    status, answer = ask(served, *asked)
    assert status == 200
    library = families.library("qwen3_vl")
    truth = [library.clip_rows(shown(file, 10)), library.rows(picture(112, 84))]
    truth += [library.clip_rows(given) for given in (bare, rated)]
    for item, own in zip(answer["items"], truth, strict=True):
        rows = numpy.frombuffer(base64.b64decode(item["data"]), item["dtype"]).reshape(item["shape"])
        assert rows.shape == own.shape == (item["tokens"], 144)
        assert numpy.abs(rows - own).max() < 2e-5
    assert ask(served, *asked)[1]["items"] == answer["items"], "from the cache"


def test_a_video_file_of_more_pixels_than_a_request_may_have_is_sampled_and_encoded(served: str) -> None:
    with urllib.request.urlopen(f"{served}/v1/limits", timeout=5) as answered:
        limits = json.load(answered)
    width, height, seconds, fps = 640, 360, 12, 25
    assert width * height * seconds * fps > limits["maxRequestPixels"]
    file = video_files.moving(seconds * fps, fps, width=width, height=height)
    status, answer = ask(served, {"modality": "video", "data": text(file)})
    assert (status, answer["items"][0]["grid"][0]) == (200, seconds)


def test_a_thin_video_is_the_callers_with_the_limit(served: str) -> None:
    frames = [text(as_png(frame)) for frame in clip(2, 1, 201).frames]
    status, answer = ask(served, {"modality": "video", "frames": frames})
    assert status == 400
    assert "1x201: the sides differ by more than 200 to 1" in json.dumps(answer)


def test_a_picture_that_the_family_does_not_take_is_the_callers_with_the_limit(served: str) -> None:
    status, answer = encode(served, (56, 56), (1, 313))
    assert status == 400
    assert "1x313: the sides differ by more than 200 to 1" in json.dumps(answer)


def test_its_identity_names_the_family_and_the_width(served: str) -> None:
    with urllib.request.urlopen(f"{served}/v1/identity", timeout=10) as answer:
        text = answer.read().decode()
    assert "Qwen3VLEncoder" in text
    assert '"widths":{"image":144,"video":144}' in text
