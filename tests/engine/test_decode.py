"""What becomes of a picture file: one rule for each mode, and our own words for what cannot be decoded."""

from __future__ import annotations

import io
from typing import Any

import numpy
import pytest
from PIL import Image

from encoder_server.engine.decode import BadMediaError, decode_picture, to_rgb

RED, GREEN, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (255, 255, 255), (0, 0, 0)


def file(image: Image.Image, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def pixel(data: bytes, x: int = 0, y: int = 0) -> tuple[int, ...]:
    return tuple(decode_picture(data, max_pixels=10_000).pixels[y, x].tolist())


def test_hidden_colours_of_a_transparent_picture_do_not_appear() -> None:
    assert pixel(file(Image.new("RGBA", (4, 4), (255, 0, 0, 0)))) == WHITE
    assert pixel(file(Image.new("RGBA", (4, 4), (255, 0, 0, 255)))) == RED
    assert pixel(file(Image.new("RGBA", (4, 4), (0, 0, 0, 128)))) == (127, 127, 127)
    assert pixel(file(Image.new("LA", (4, 4), (0, 0)))) == WHITE
    assert pixel(file(Image.new("RGBA", (4, 4), (255, 0, 0, 0)), "WEBP", lossless=True, exact=True)) == WHITE


def test_a_transparent_palette_entry_or_colour_is_white() -> None:
    palette = Image.new("P", (4, 4), 0)
    palette.putpalette([*RED, *GREEN])
    palette.putpixel((1, 0), 1)
    for kind in ("PNG", "GIF"):
        data = file(palette, kind, transparency=0)
        assert (pixel(data), pixel(data, x=1)) == (WHITE, GREEN)
    assert pixel(file(palette)) == RED
    assert pixel(file(palette, transparency=bytes([0, 255]))) == WHITE
    assert pixel(file(Image.new("RGB", (4, 4), RED), transparency=RED)) == WHITE
    assert pixel(file(Image.new("L", (4, 4), 9), transparency=9)) == WHITE


def test_grey_bilevel_and_cmyk_pictures_get_three_channels() -> None:
    assert pixel(file(Image.new("L", (4, 4), 77))) == (77, 77, 77)
    assert pixel(file(Image.new("1", (4, 4), 1))) == WHITE
    assert pixel(file(Image.new("CMYK", (8, 8), (0, 0, 0, 255)), "JPEG")) == BLACK
    assert pixel(file(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), "JPEG")) == WHITE


def test_sixteen_bits_keep_their_high_byte() -> None:
    grey = Image.fromarray(numpy.full((4, 4), 0x80FF, dtype=numpy.uint16))
    assert pixel(file(grey)) == (0x80, 0x80, 0x80)
    assert to_rgb(Image.new("I", (4, 4), 70_000)).getpixel((0, 0)) == WHITE
    assert to_rgb(Image.new("F", (4, 4), 300.0)).getpixel((0, 0)) == WHITE


def test_every_mode_that_pillow_can_make_comes_out_as_rgb() -> None:
    for mode in (
        "1",
        "L",
        "P",
        "RGB",
        "RGBA",
        "CMYK",
        "YCbCr",
        "LAB",
        "HSV",
        "I",
        "F",
        "LA",
        "PA",
        "RGBa",
        "I;16",
    ):
        assert to_rgb(Image.new(mode, (3, 2))).mode == "RGB", mode


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_turned_upright(kind: str) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned a quarter to the right
    image = Image.new("RGB", (16, 8), "white")
    image.paste("black", (0, 0, 8, 8))
    pixels = decode_picture(file(image, kind, exif=exif), max_pixels=1000).pixels
    assert pixels.shape == (16, 8, 3)
    assert pixels[2, 4].max() < 40
    assert pixels[13, 4].min() > 215


@pytest.mark.parametrize("kind", ["GIF", "PNG", "WEBP"])
def test_an_animation_is_its_first_frame(kind: str) -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "lime", "blue")]
    data = file(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True)
    assert pixel(data) == RED


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_a_file_cut_short_is_refused_in_our_own_words(kind: str) -> None:
    noise = Image.effect_noise((90, 60), 80).convert("RGB")
    data = file(noise, kind)
    with pytest.raises(BadMediaError, match=r"^(the picture is damaged or cut short|not a JPEG, .* picture)$"):
        decode_picture(data[: len(data) * 2 // 3], max_pixels=10_000)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8\xff\xe0"])
def test_what_is_no_picture_is_refused_in_our_own_words(data: bytes) -> None:
    with pytest.raises(BadMediaError, match=r"^(the picture is damaged or cut short|not a JPEG, .* picture)$"):
        decode_picture(data, max_pixels=10_000)


@pytest.mark.parametrize("kind", ["TIFF", "BMP", "PPM", "ICO"])
def test_a_format_that_is_not_listed_is_no_picture(kind: str) -> None:
    with pytest.raises(BadMediaError, match=r"^not a JPEG, PNG, WebP or GIF picture$"):
        decode_picture(file(Image.new("RGB", (16, 16)), kind), max_pixels=10_000)


def test_the_pixel_limit_is_named_and_the_last_allowed_pixel_passes() -> None:
    data = file(Image.new("RGB", (100, 50)))
    assert decode_picture(data, max_pixels=5000).pixels.shape == (50, 100, 3)
    with pytest.raises(BadMediaError, match="4999 pixels"):
        decode_picture(data, max_pixels=4999)
    with pytest.raises(BadMediaError, match="1000 pixels"):
        decode_picture(data, max_pixels=1000)


@pytest.mark.parametrize("size", [(1, 1), (1, 5000), (5000, 1), (2, 3), (3, 2)])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "GIF"])
def test_thin_and_tiny_pictures_keep_their_size(kind: str, size: tuple[int, int]) -> None:
    data = file(Image.new("RGB", size, RED), kind)
    assert decode_picture(data, max_pixels=10_000).pixels.shape == (size[1], size[0], 3)


def test_a_jpeg_of_too_many_scans_is_refused_before_it_is_decoded() -> None:
    data = file(Image.new("L", (64, 64)), "JPEG", progressive=True)
    last = data.rfind(b"\xff\xda")
    with pytest.raises(BadMediaError, match="more than 64 scans, the limit"):
        decode_picture(data[:-2] + data[last:-2] * 100 + b"\xff\xd9", max_pixels=10_000)
