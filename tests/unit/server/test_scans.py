"""How often a JPEG may have its pixels gone over: thirty bytes make a decoder do so once more."""

import io

import pytest
from PIL import Image

from encoder_server import pictures, scans
from encoder_server.errors import LimitExceededError


def jpeg(scan_count: int = 1, *, progressive: bool = True, between: bytes = b"") -> bytes:
    """A picture whose last scan comes so many times, `between` before each."""
    file = io.BytesIO()
    Image.new("L", (64, 64), 99).save(file, "JPEG", progressive=progressive)
    data = file.getvalue()
    last = data.rfind(b"\xff\xda")
    return data[:last] + (between + data[last:-2]) * scan_count + b"\xff\xd9"


@pytest.mark.parametrize("progressive", [False, True])
def test_a_plain_or_progressive_picture_is_within_the_limit(progressive: bool) -> None:
    assert pictures.measure(jpeg(progressive=progressive), "items[0]", 10_000) == (64, 64)
    assert pictures.measure(jpeg(40), "items[0]", 10_000) == (64, 64)


def test_a_jpeg_of_too_many_scans_is_refused_by_the_item_and_the_limit_before_it_is_decoded() -> None:
    with pytest.raises(LimitExceededError) as caught:
        pictures.measure(jpeg(500), "items[3]", 10_000)
    assert caught.value.message == f"items[3]: a JPEG of more than {scans.MOST} scans, the limit"


@pytest.mark.parametrize(
    "between",
    [
        b"\xff\xfe\x00\x04\xff\xd9",  # a comment that holds the mark of an end
        b"\xff\xff\xff",  # filling
        b"\xff\x02",  # no marker: some decoders pass it by
        b"\xff\xfe\x00\x02" * 20,  # segments without content
    ],
)
def test_no_segment_hides_the_scans_behind_it(between: bytes) -> None:
    assert scans.too_many(jpeg(500, between=between))


@pytest.mark.parametrize("behind", [b"\xff\xda" * 500, jpeg()[:-2] + b"\xff\xda" * 500])
def test_what_follows_the_picture_or_stands_in_its_notes_is_no_scan(behind: bytes) -> None:
    assert not scans.too_many(jpeg() + behind)
    picture = jpeg()
    note = b"\xff\xe5" + (2 + len(behind)).to_bytes(2, "big") + behind
    assert not scans.too_many(picture[:2] + note + picture[2:])


def test_another_format_is_not_looked_at() -> None:
    assert not scans.too_many(b"\x89PNG" + b"\xff\xda" * 500)
