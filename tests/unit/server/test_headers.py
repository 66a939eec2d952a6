"""A medium that comes again is not opened again, and what is unknown or wrong is not taken for known."""

import base64
import io
import json
from typing import Any

import pytest
from PIL import Image

from encoder_server import media, pictures
from encoder_server.errors import BadMediaError
from encoder_server.headers import Headers, UnknownHeaderError
from encoder_server.media import Body, Medium
from tests.unit.server.test_media import LIMITS


def body(content: bytes) -> Body:
    item = {"modality": "image", "data": base64.b64encode(content).decode()}
    return Body(content_type=None, data=json.dumps({"items": [item]}).encode())


def picture(shade: int = 0) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (60, 20), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What is opened."""
    contents: list[bytes] = []
    really = pictures.measure

    def watched(content: bytes, *arguments: Any) -> tuple[int, int]:
        contents.append(content)
        return really(content, *arguments)

    monkeypatch.setattr(pictures, "measure", watched)
    return contents


def taken(headers: Headers, content: bytes) -> Medium:
    (medium,) = media.take(body(content), ["image"], LIMITS, headers.read)
    return medium


def test_a_picture_that_comes_again_is_the_same_medium_and_is_opened_once(opened: list[bytes]) -> None:
    headers = Headers()
    first = taken(headers, picture())
    assert taken(headers, picture()) == first
    assert media.take(body(picture()), ["image"], LIMITS, headers.known) == (first,)
    assert len(opened) == 1


def test_another_picture_is_not_known(opened: list[bytes]) -> None:
    headers = Headers()
    taken(headers, picture())
    with pytest.raises(UnknownHeaderError):
        media.take(body(picture(shade=1)), ["image"], LIMITS, headers.known)
    taken(headers, picture(shade=1))
    assert len(opened) == 2


def test_what_is_no_picture_is_refused_each_time() -> None:
    headers = Headers()
    for _ in range(2):
        with pytest.raises(BadMediaError, match=r"items\[0\]"):
            taken(headers, b"hello")
