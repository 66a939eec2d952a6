"""Media as the front sees them, before any pixel is decoded."""

import base64
import io
import json
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import pytest
from PIL import Image, ImageOps

from encoder_server import media, pictures
from encoder_server.encoders import BATCH_BUDGET
from encoder_server.errors import CallerError
from encoder_server.settings import Limits
from tests.support.media import clip

LIMITS = Limits(
    max_in_flight=1,
    max_in_flight_bytes=2**20,
    max_body_bytes=2**20,
    max_items=1,
    max_pixels=100_000,
    max_request_pixels=100_000,
    max_decoded_pixels=3_200_000,
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


WARNINGS_KEPT = """
import io, warnings
from PIL import Image, TiffImagePlugin
from encoder_server import errors, pictures
for count in range(2, 200):
    file = io.BytesIO()
    head = b"Exif\\0\\0II*\\0\\x08\\0\\0\\0\\1\\0\\x0f\\1\\2\\0"
    exif = head + (9000 + count).to_bytes(4, "little") + b"\\x63\\0\\0\\0"
    Image.new("RGB", (8, 8)).save(file, "JPEG", exif=exif)
    assert pictures.measure(file.getvalue(), "items[0]", 1000) == (8, 8)
    file = io.BytesIO()
    Image.new("1", (1, 1)).save(file, "GIF")
    huge = file.getvalue()[:6] + (20_000).to_bytes(2, "little") + (6_000 + count).to_bytes(2, "little")
    try:
        pictures.measure(huge + file.getvalue()[10:], "items[0]", 1000)
    except errors.LimitExceededError:
        continue
    raise SystemExit("not refused")
for module in (Image, TiffImagePlugin):
    print(*(key for key in getattr(module, "__warningregistry__", {}) if key != "version"))
"""


def test_a_video_file_shares_a_batch_with_nobody_for_a_small_one_may_have_much_to_decode() -> None:
    small = clip([0])
    assert media.measure("video", small, "", "items[0]", LIMITS)[1] == BATCH_BUDGET
    large = small + b"\x00\x10\x00\x00free" + bytes(2**20 - 8)
    assert media.measure("video", large, "", "items[0]", LIMITS)[1] == 16 * len(large)


def test_odd_pictures_leave_nothing_behind_in_the_log_or_in_memory() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WARNINGS_KEPT], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr, done.stdout.strip()) == (0, "", "")


@pytest.mark.parametrize(
    "body",
    [
        b'{"items":[{"modality":"video","frames":[' + b",".join([b"1"] * 400_000) + b"]}]}",
        b'{"items":[' + b",".join([b"{}"] * 400_000) + b"]}",
        b'{"items":[{' + b",".join(b'"%x":1' % number for number in range(100_000)) + b"}]}",
        b'{"items":[],' + b",".join(b'"%x":1' % number for number in range(100_000)) + b"}",
        b'{"items":[{"x":[' + b",".join([b"[]"] * 400_000) + b"]}]}",
    ],
)
def test_a_body_costs_no_more_memory_for_all_that_is_wrong_in_it(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CallerError, match="items"):
            media.read(media.Body(content_type=None, data=body), LIMITS)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"{" + b",".join(b'"%x":1' % number for number in range(1300)) + b"}",
        b'{"items":[{' + b",".join(b'"%x" \n:1' % number for number in range(1300)) + b"}]}",
        b'{"items":[' + b",".join([b"{}"] * 1300) + b"]}",
        b"[" * 1300,
    ],
)
def test_more_fields_lists_and_objects_than_items_have_are_refused_before_they_are_read(body: bytes) -> None:
    limits = replace(LIMITS, max_items=16)
    with pytest.raises(CallerError, match=r"^body: more fields.* than 1024, the limit \(64 for each of 16 items\)$"):
        media.read(media.Body(content_type=None, data=body), limits)


def test_a_body_of_as_many_items_as_are_taken_with_every_field_and_strange_urls_is_read() -> None:
    item = {"modality": "image", "url": "https://[::1]:8443/?a[]=1:2,3:4&b={x}", "expected_tokens": 1}
    body = json.dumps({"items": [item] * LIMITS.max_items}).encode()
    assert len(media.read(media.Body(content_type=None, data=body), LIMITS)) == LIMITS.max_items


def test_the_first_wrong_frame_is_named_and_the_rest_not_looked_at() -> None:
    body = b'{"items":[{"modality":"video","frames":["eA==",' + b",".join([b"1"] * 99) + b"]}]}"
    with pytest.raises(CallerError, match=r"^items\[0\]\.frames\[1\] must be a string$"):
        media.read(media.Body(content_type=None, data=body), LIMITS)
