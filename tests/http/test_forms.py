"""Media as the parts of a form: the same limits and errors as in JSON."""

import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio
from multidict import CIMultiDict

from tests.http.under_test import Answer, Checkpoint, Server, items, picture, serving

WIRE = json.loads((Path(__file__).parents[1] / "contract" / "wire.json").read_text())["form"]
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    checkpoint = Checkpoint(folder / "model")
    checkpoint.write()
    limits = ("--max-items=2", "--max-pixels=10000", "--max-body-bytes=20000")
    async with serving(folder, checkpoint, *limits) as serving_one:
        yield serving_one


def media(
    *parts: bytes, name: str = "item", kind: str = "image/png", expected: int | None = None
) -> aiohttp.MultipartWriter:
    """A form with these parts."""
    form = aiohttp.MultipartWriter("form-data")
    for content in parts:
        part = form.append(content, CIMultiDict({"Content-Type": kind}))
        part.set_content_disposition("form-data", name=name, filename="../../etc/passwd")
        if expected is not None:
            part.headers[WIRE["expectedTokens"]] = str(expected)
    return form


def png(width: int = 56, height: int = 56) -> bytes:
    return base64.b64decode(picture(width, height))


async def send(server: Server, form: aiohttp.MultipartWriter) -> Answer:
    return await server.encode(form, **{"Content-Type": form.content_type})


async def test_a_forms_parts_are_items_in_their_order(server: Server) -> None:
    answer = await send(server, media(png(56, 84), png(), kind="image/jpeg"))
    assert answer.status == 200
    assert [(item["index"], item["tokens"]) for item in answer.json["items"]] == [(0, 6), (1, 4)]
    alike = await server.encode(items((56, 84), (56, 56)))
    assert alike.json["items"] == answer.json["items"]


async def test_a_parts_own_count_is_compared(server: Server) -> None:
    assert (await send(server, media(png(), expected=4))).status == 200
    answer = await send(server, media(png(), expected=5))
    assert (answer.status, answer.code) == (422, "promise_mismatch")


@pytest.mark.parametrize(
    ("form", "code", "text"),
    [
        (media(png(), b"hello"), "bad_media", "items[1]: not a picture"),
        (media(b""), "bad_media", "items[0]: is empty"),
        (media(png(), png(200, 200)), "limit_exceeded", "items[1]: 200x200"),
        (media(png(), png(), png()), "limit_exceeded", "limit is 2"),
        (media(bytes(21000)), "limit_exceeded", "20000"),
        (media(png(), kind="smell/strong"), "unsupported_modality", "items[0].modality"),
        (media(png(), kind="application/octet-stream"), "bad_request", "items[0]: its Content-Type is application/*"),
        (media(png(), name="picture"), "bad_request", "items[0]"),
    ],
)
async def test_a_forms_errors_are_those_of_json_and_name_the_item(
    server: Server, form: aiohttp.MultipartWriter, code: str, text: str
) -> None:
    answer = await send(server, form)
    assert (answer.status, answer.code) == (400, code)
    assert text in answer.message
    assert answer.blamed == answer.named


@pytest.mark.parametrize(
    "content_type",
    [
        "multipart/form-data; boundary*=b; boundary*0=b",
        f"multipart/form-data; boundary*{'1' * 5000}=b",
        "multipart/form-data; boundary*=idna''%ff",
    ],
)
async def test_a_boundary_that_no_library_can_read_is_the_callers_fault(server: Server, content_type: str) -> None:
    answer = await server.encode(b"--b\r\n\r\n--b--", **{"Content-Type": content_type})
    assert (answer.status, answer.code) == (400, "bad_request")
    assert answer.message.startswith("body: ")


@pytest.mark.parametrize("name", ["name*=item; name*0=item", "name*=idna''%ff"])
async def test_a_name_that_no_library_can_read_is_the_callers_fault(server: Server, name: str) -> None:
    head = f"--b\r\nContent-Disposition: form-data; {name}\r\nContent-Type: image/png\r\n\r\n".encode()
    answer = await server.encode(head + png() + b"\r\n--b--", **{"Content-Type": "multipart/form-data; boundary=b"})
    assert (answer.status, answer.code) == (400, "bad_request")
    assert answer.message == "items[0]: the part must be named item"
