"""A family over HTTP: made, served and asked by the commands that a person would use."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy
import pytest

from tests.support.encoders import picture
from tests.support.families import Families
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
    items = [{"modality": "image", "data": base64.b64encode(picture(*size)).decode()} for size in sizes]
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


def test_a_picture_that_the_family_does_not_take_is_the_callers_with_the_limit(served: str) -> None:
    status, answer = encode(served, (56, 56), (1, 313))
    assert status == 400
    assert "1x313: the sides differ by more than 200 to 1" in json.dumps(answer)


def test_its_identity_names_the_family_and_the_width(served: str) -> None:
    with urllib.request.urlopen(f"{served}/v1/identity", timeout=10) as answer:
        text = answer.read().decode()
    assert "Qwen3VLEncoder" in text
    assert '"widths":{"image":144,"video":144}' in text
