"""Media as the front sees them, before any pixel is decoded."""

import base64
import io
import json
import subprocess
import sys

import pytest
from PIL import Image, ImageOps

from encoder_server import media, pictures
from encoder_server.settings import Limits

LIMITS = Limits(
    max_in_flight=1,
    max_in_flight_bytes=2**20,
    max_body_bytes=2**20,
    max_items=1,
    max_pixels=100_000,
    max_request_pixels=100_000,
    max_frames=100,
    max_audio_seconds=10,
    max_video_seconds=10,
    deadline_seconds=1,
)


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP"])
@pytest.mark.parametrize("orientation", [None, 1, 3, 6, 8, 99])
def test_a_picture_is_as_wide_and_high_as_the_engine_will_see_it(form: str, orientation: int | None) -> None:
    file = io.BytesIO()
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.new("RGB", (60, 20)).save(file, form, exif=exif)
    body = {"items": [{"modality": "image", "data": base64.b64encode(file.getvalue()).decode()}]}
    (medium,) = media.take(media.Body(content_type=None, data=json.dumps(body).encode()), ["image"], LIMITS)
    with Image.open(file) as image:
        assert (medium.size.width, medium.size.height) == ImageOps.exif_transpose(image).size


TAKE_WITHOUT_FILES = """
import resource, sys
from encoder_server import media
from tests.unit.server.test_media import LIMITS
content = sys.stdin.buffer.read()
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
(medium,) = media.take(media.Body(content_type=None, data=content), ["image"], LIMITS)
print(medium.size.width)
"""


@pytest.mark.parametrize("form", pictures.FORMATS)
def test_a_good_picture_is_one_though_no_more_files_can_be_opened(form: str) -> None:
    file = io.BytesIO()
    Image.new("RGB", (60, 20)).save(file, form)
    body = {"items": [{"modality": "image", "data": base64.b64encode(file.getvalue()).decode()}]}
    done = subprocess.run(
        [sys.executable, "-c", TAKE_WITHOUT_FILES], input=json.dumps(body).encode(), capture_output=True, timeout=60
    )
    assert done.stdout == b"60\n", done.stderr
