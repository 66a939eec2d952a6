"""The client's decisions: what is tried again, and what is taken for an answer."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st

from encoder_server import errors
from encoder_server.client import failures, mixed, results
from encoder_server.client.bodies import fill
from encoder_server.client.media import Audio, Frames, Image
from encoder_server.client.retries import Retries, retry_after
from encoder_server.multipart import read_form
from encoder_server.openapi import tree
from encoder_server.wire import parse

ROOT = Path(__file__).parents[3]
WIRE = json.loads((ROOT / "tests" / "contract" / "wire.json").read_text())
ASKED = (Image(b"a"), Audio(b"b"))
ITEMS = [
    {"index": 0, "modality": "image", "grid": [1, 2, 2], "tokens": 1},
    {"index": 1, "modality": "audio", "grid": [3], "tokens": 3},
]


def body(items: Any = ITEMS, **tensors: Any) -> bytes:
    rows = {"item.0": numpy.zeros((1, 2), "float16"), "item.1": numpy.ones((3, 4), "float32"), **tensors}
    about = {"request_id": "r", "fingerprint": "f", "revision": "v", "items": json.dumps(items)}
    return safetensors.numpy.save(rows, about)


def test_a_body_is_read_into_its_items() -> None:
    found = results.read(body(), ASKED)
    assert [(item.rows.shape, item.dtype) for item in found.items] == [((1, 2), "float16"), ((3, 4), "float32")]
    assert (found.items[1].rows == 1).all()
    with pytest.raises(ValueError, match="read-only"):
        found.items[1].rows[0, 0] = 2


def test_bfloat16_is_widened_without_loss() -> None:
    values = numpy.array([[1.0, -2.5], [float(2**-126), 3.3895314e38]], "float32")
    halves = (values.view("<u4") >> 16).astype("<u2")
    head = {
        "__metadata__": {
            "request_id": "r",
            "fingerprint": "f",
            "revision": "v",
            "items": json.dumps([ITEMS[0] | {"tokens": 2}]),
        },
        "item.0": {"dtype": "BF16", "shape": [2, 2], "data_offsets": [0, 8]},
    }
    text = json.dumps(head).encode()
    (item,) = results.read(len(text).to_bytes(8, "little") + text + halves.tobytes(), ASKED[:1]).items
    assert (item.dtype, item.rows.dtype.name, item.raw.nbytes) == ("bfloat16", "float32", 8)
    assert (item.rows == values).all()


@pytest.mark.parametrize(
    "broken",
    [
        body(ITEMS[:1]),
        body([ITEMS[1], ITEMS[0]]),
        body([ITEMS[0], ITEMS[1] | {"tokens": 2}]),
        body([ITEMS[0], ITEMS[1] | {"modality": "image"}]),
        body(**{"item.2": numpy.zeros((1, 1), "float32")}),
        body(**{"item.1": numpy.ones((3, 4, 1), "float32")}),
        body(**{"item.1": numpy.ones((3, 4), "int32")}),
        body() + b"\0",
        body()[:-1],
        b"",
    ],
)
def test_a_body_that_is_not_what_was_asked_for_is_refused(broken: bytes) -> None:
    with pytest.raises(results.UnfitError):
        results.read(broken, ASKED)


def test_rows_that_were_expected_to_be_others_are_refused() -> None:
    with pytest.raises(results.UnfitError, match="5 were expected"):
        results.read(body(), (Image(b"a", 5), Audio(b"b")))


@given(st.data())
def test_whatever_is_changed_on_the_way_is_refused_or_fits(data: st.DataObject) -> None:
    changed = bytearray(body())
    for _ in range(data.draw(st.integers(1, 4))):
        changed[data.draw(st.integers(0, len(changed) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = results.read(bytes(changed[: data.draw(st.integers(0, len(changed)))]), ASKED)
    except results.UnfitError:
        return
    assert [item.rows.shape[0] for item in found.items] == [item.tokens for item in found.items]


@given(st.binary(max_size=200), st.binary(max_size=200), st.integers(1, 64))
def test_parts_are_found_however_their_bytes_come(first: bytes, second: bytes, step: int) -> None:
    whole = b""
    for content, status in ((first, b""), (second, b"X-Status: 502\r\n")):
        whole += (
            b"--b\r\nContent-Type: a/b\r\n" + status + b"Content-Length: %d\r\n\r\n" % len(content) + content + b"\r\n"
        )
    whole += b"--b--\r\n"
    parts = mixed.Parts("multipart/mixed; boundary=b", 1000)
    found = [part for at in range(0, len(whole), step) for part in parts.feed(whole[at : at + step])]
    assert [(part.body, part.status) for part in found] == [(first, None), (second, 502)]
    assert parts.ended


@pytest.mark.parametrize(
    "broken",
    [
        b"--c\r\n\r\n",
        b"--b\r\n\r\n",
        b"--b\r\nContent-Length: 1001\r\n\r\n",
        b"--b\r\nContent-Length: -1\r\n\r\n",
        b"x" * 9000,
    ],
)
def test_parts_that_cannot_be_told_apart_are_refused(broken: bytes) -> None:
    with pytest.raises(mixed.BrokenError):
        mixed.Parts("multipart/mixed; boundary=b", 1000).feed(broken)


def test_the_server_reads_the_form_that_the_client_fills() -> None:
    form = fill((Image(b"\r\n--x", 7), Audio(b"")), "0f0f")
    parts = read_form(form.content_type, b"".join(form.pieces), 2)
    assert [(part.modality, part.content, part.expected_tokens) for part in parts] == [
        ("image", b"\r\n--x", 7),
        ("audio", b"", None),
    ]
    assert form.length == len(b"".join(form.pieces))


def test_the_server_reads_frames_as_the_client_sends_them() -> None:
    sent = fill((Frames((b"1", b"2"), fps=2.5), Image(b"3", expected_tokens=7)), "0f0f")
    assert sent.content_type == "application/json"
    clip, image = parse(b"".join(sent.pieces), 2).items
    assert (clip.modality, clip.frames, clip.fps) == ("video", ["MQ==", "Mg=="], 2.5)
    assert (image.data, image.expected_tokens) == ("Mw==", 7)


def answer(kind: type[errors.EncoderServerError]) -> failures.EncoderPoolError:
    told = {"error": {"code": kind.code, "message": "m", "request_id": "r", "items": []}}
    return failures.from_answer(kind.status, json.dumps(told).encode(), "r")


def test_every_error_of_the_server_has_its_kind_and_only_429_502_and_503_are_tried_again() -> None:
    bases = {
        errors.CheckFailedError: failures.CheckFailedError,
        errors.CallerError: failures.CallerError,
        errors.UnavailableError: failures.UnavailableError,
        errors.InternalError: failures.ServerFaultError,
    }
    for kind in tree():
        error = answer(kind)
        assert error.code == kind.code
        assert error.again == (kind.status in (429, 502, 503))
        for base, ours in bases.items():
            assert isinstance(error, ours) == issubclass(kind, base) or kind is errors.EncoderServerError
    assert isinstance(failures.from_answer(502, b"<html>", "r"), failures.UnavailableError)


def test_the_pause_is_a_random_part_of_a_bound_that_doubles_and_what_the_server_asks_for_on_top() -> None:
    retries, error = Retries(attempts=9, base_seconds=1.0, most_seconds=5.0), answer(errors.HeldError)
    assert [retries.pause(error, tried, 100.0, 0.5) for tried in (1, 2, 3, 4, 8)] == [0.5, 1.0, 2.0, 2.5, 2.5]
    assert retries.pause(error, 1, 100.0, 0.0) == 0.0
    error.retry_after = 7.0
    assert retries.pause(error, 1, 100.0, 0.5) == 7.5
    assert retries.pause(error, 1, 7.0, 0.5) is None
    assert retries.pause(error, 9, 100.0, 0.5) is None
    assert retries.pause(answer(errors.InternalError), 1, 100.0, 0.5) is None


def test_retry_after_is_seconds_or_a_date_of_the_servers_own_clock() -> None:
    assert retry_after({"retry-after": "3"}) == 3
    dates = {"date": "Mon, 30 Nov 2026 10:00:00 GMT", "retry-after": "Mon, 30 Nov 2026 10:00:09 GMT"}
    assert retry_after(dates) == 9
    assert retry_after({"retry-after": "soon"}) is None
    assert retry_after({}) is None


def test_the_client_loads_nothing_of_what_serves() -> None:
    heavy = ("torch", "transformers", "aiohttp", "PIL", "prometheus_client", "orjson", "blake3", "opentelemetry")
    program = f"import sys, encoder_server.client; print([n for n in sys.modules if n.split('.')[0] in {heavy}])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
