"""POST /v1/encode over the full app."""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytest_asyncio
import safetensors
import safetensors.numpy

from tests.http.under_test import Checkpoint, Server, items, picture, serving

WIRE = json.loads((Path(__file__).parents[1] / "contract" / "wire.json").read_text())
MISMATCHES = {
    "short": ("token_mismatch", "count", "Encoder produced 15 tokens, but preprocessor metadata expected 16"),
    "surplus": ("token_mismatch", "count", "Encoder produced 19 tokens, but preprocessor metadata expected 16"),
    "wide": ("width_mismatch", "width", "rows are 65 wide"),
    "half": ("dtype_mismatch", "dtype", "rows are float16"),
    "nan": ("nonfinite", "nonfinite", "not finite"),
    "layout": ("layout", "layout", "position ids do not match"),
    "missing": ("layout", "layout", "0 embeddings came back"),
}
# Pictures of these sizes are promised 16 tokens, and the stand-in engine does something with each.
SIZES = {action: (112, 100 + place) for place, action in enumerate((*MISMATCHES, "stray", "bad"))}
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    """One server for all: what a request does to it must not matter to the next."""
    folder = tmp_path_factory.mktemp("server")
    checkpoint = Checkpoint(folder / "model")
    checkpoint.write(sizes={f"{width}x{height}": action for action, (width, height) in SIZES.items()})
    # Without a cache, so that whatever is sent again is evidence again.
    async with serving(folder, checkpoint) as serving_one:
        yield serving_one


async def test_a_picture_is_answered_in_json_as_the_contract_says(server: Server) -> None:
    answer = await server.encode(items((56, 56)), **{"X-Request-Id": "mine-1"})
    assert answer.status == 200
    assert answer.headers["X-Request-Id"] == "mine-1"
    assert answer.json.keys() == WIRE["answerJson"].keys()
    (item,) = answer.json["items"]
    assert item.keys() == WIRE["answerJson"]["items"][0].keys()
    assert (item["grid"], item["tokens"], item["shape"]) == ([1, 4, 4], 4, [4, 64])
    values = np.frombuffer(base64.b64decode(item["data"]), "<f4").reshape(item["shape"])
    assert np.array_equal(values, np.arange(256, dtype="f4").reshape(4, 64))
    assert answer.json["fingerprint"] == (await server.identity())["fingerprint"]


async def test_several_pictures_are_answered_in_safetensors_in_their_order(server: Server, tmp_path: Path) -> None:
    answer = await server.encode(items((56, 56), (112, 56)), accept="*/*")
    assert answer.headers["Content-Type"] == WIRE["answerSafetensors"]["contentType"]
    tensors = safetensors.numpy.load(answer.body)
    assert {name: value.shape for name, value in tensors.items()} == {"item.0": (4, 64), "item.1": (8, 64)}
    file = tmp_path / "answer.safetensors"
    file.write_bytes(answer.body)
    with safetensors.safe_open(file, "numpy") as opened:
        metadata = opened.metadata()
    assert metadata.keys() == WIRE["answerSafetensors"]["metadata"].keys()
    assert [item["tokens"] for item in json.loads(metadata["items"])] == [4, 8]


async def test_a_data_url_is_read_whatever_type_it_states(server: Server) -> None:
    url = f"data:image/jpeg;base64,{picture(form='PNG')}"
    answer = await server.encode({"items": [{"modality": "image", "url": url}]})
    assert answer.status == 200


@pytest.mark.parametrize("form", ["JPEG", "PNG", "WEBP", "GIF"])
async def test_every_known_format_is_read(server: Server, form: str) -> None:
    answer = await server.encode({"items": [{"modality": "image", "data": picture(form=form)}]})
    assert answer.status == 200


@pytest.mark.parametrize("row", WIRE["rejectedRequests"], ids=lambda row: row["name"])
async def test_a_bad_request_is_rejected_by_name(server: Server, row: dict[str, Any]) -> None:
    before = await server.metric("encoder_requests_total", code=row["code"])
    answer = await server.encode(row["body"])
    assert (answer.status, answer.code) == (row["status"], row["code"])
    assert row["names"] in answer.message
    assert answer.blamed == answer.named
    assert await server.metric("encoder_requests_total", code=row["code"]) == before + 1


async def test_an_item_that_is_named_in_a_message_is_named_for_programs_too(server: Server) -> None:
    good, bad = items((56, 56))["items"][0], {"modality": "image", "data": base64.b64encode(b"hello").decode()}
    answer = await server.encode({"items": [good, bad]})
    assert answer.message.startswith("items[1]: not a picture")
    nothing = dict.fromkeys(("grid", "promised", "produced", "model_revision", "processor_revision"))
    assert answer.json["error"]["items"] == [{"index": 1, "modality": "image"} | nothing]
    assert answer.json["error"]["items"][0].keys() == WIRE["error"]["error"]["items"][0].keys()


async def test_a_modality_that_is_none_here_is_not_repeated(server: Server) -> None:
    answer = await server.encode({"items": [{"modality": "smell", "data": "aGk="}]})
    assert [(item["index"], item["modality"]) for item in answer.json["error"]["items"]] == [(0, None)]


async def test_a_body_that_is_no_json_is_rejected(server: Server) -> None:
    answer = await server.encode(b"\x00{")
    assert (answer.status, answer.code, answer.message) == (400, "bad_request", "body is not JSON")


async def test_an_accept_that_cannot_be_met_is_not_acceptable(server: Server) -> None:
    answer = await server.encode(items((56, 56)), accept="text/html")
    assert (answer.status, answer.code) == (406, "not_acceptable")


async def test_an_accept_header_may_come_in_several_lines(server: Server) -> None:
    headers = [("Accept", "text/html"), ("Accept", "application/json")]
    async with server.session.post(f"{server.url}/v1/encode", json=items((56, 56)), headers=headers) as answer:
        assert (answer.status, answer.content_type) == (200, "application/json")


async def test_unknown_paths_and_methods_answer_in_json(server: Server) -> None:
    assert ((await server.get("/nowhere")).code, (await server.get("/v1/encode")).code) == (
        "not_found",
        "method_not_allowed",
    )


@pytest.mark.parametrize("given", ["", "a" * 129, "with space", 'quote"'])
async def test_an_unsafe_request_id_is_replaced(server: Server, given: str) -> None:
    answer = await server.encode([], **{"X-Request-Id": given})
    assert answer.headers["X-Request-Id"] == answer.json["error"]["request_id"] != given


@pytest.mark.parametrize(("action", "code", "result", "text"), [(key, *row) for key, row in MISMATCHES.items()])
async def test_a_failed_check_names_its_item_and_fails_its_request_alone(
    server: Server, action: str, code: str, result: str, text: str
) -> None:
    labels = {"modality": "image", "source": "fresh"}
    failed = await server.metric("encoder_token_checks_total", result=result, **labels)
    passed = await server.metric("encoder_token_checks_total", result="ok", **labels)
    media = await server.metric("encoder_mismatched_media_total")
    bad = await server.encode(items((56, 56), SIZES[action]))
    again = await server.encode(items(SIZES[action]))
    good = await server.encode(items((56, 56)))
    assert (bad.status, bad.code, again.code, good.status) == (502, code, code, 200)
    assert text in bad.message
    assert "(item 1, image)" in bad.message
    (culprit,) = bad.json["error"]["items"]
    assert culprit.keys() == WIRE["error"]["error"]["items"][0].keys()
    assert (culprit["index"], culprit["promised"], culprit["model_revision"]) == (1, 16, "b3" * 32)
    assert await server.metric("encoder_token_checks_total", result=result, **labels) == failed + 2
    assert await server.metric("encoder_token_checks_total", result="ok", **labels) == passed + 2
    assert await server.metric("encoder_mismatched_media_total") == media + 1
    violation = (await server.identity())["recentViolations"][0]
    assert (violation["width"], violation["height"], violation["result"]) == (*SIZES[action], result)


async def test_rows_that_belong_to_nobody_fail_the_item_that_brings_them_even_alone(server: Server) -> None:
    answer = await server.encode(items((56, 56), SIZES["stray"]))
    assert (answer.status, answer.code) == (502, "layout")
    assert [item["index"] for item in answer.json["error"]["items"]] == [1]
    assert "belong to no item" in answer.message


async def test_the_callers_own_count_is_compared_and_never_held_against_the_replica(server: Server) -> None:
    media = await server.metric("encoder_mismatched_media_total")
    answer = await server.encode(items((56, 56), expected_tokens=5))
    assert (answer.status, answer.code) == (422, "promise_mismatch")
    assert answer.json["error"]["items"][0]["promised"] == 4
    assert (await server.encode(items((56, 56), expected_tokens=4))).status == 200
    assert await server.metric("encoder_mismatched_media_total") == media


async def test_a_medium_that_the_engine_cannot_read_is_the_callers_fault(server: Server) -> None:
    answer = await server.encode(items(SIZES["bad"]))
    assert (answer.status, answer.code) == (400, "bad_media")
    assert "items[0]" in answer.message


async def test_neither_payload_nor_library_text_is_in_the_answer(server: Server) -> None:
    secret = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"secret" * 20).decode()
    answer = await server.encode({"items": [{"modality": "image", "data": secret}]})
    assert answer.code == "bad_media"
    assert answer.headers["Server"] == "encoder-server"
    for forbidden in (b"secret", secret[:12].encode(), b"BytesIO", b"0x", b"Pillow"):
        assert forbidden not in answer.body


_POST = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\n"


@pytest.mark.parametrize(
    "sent",
    [
        b"SE\x00CRET / HTTP/1.1\r\n\r\n",
        b"GET http://[secret HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nsec ret: x\r\n\r\n",
        b"GET /" + b"secret" * 4000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        _POST + b"Content-Length: secret\r\n\r\n",
        _POST + b"Expect: secret\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        _POST + b"Content-Encoding: gzip\r\nConnection: close\r\nContent-Length: 6\r\n\r\nsecret",
        _POST + b"Transfer-Encoding: chunked\r\nConnection: close\r\n\r\nsecret\r\n",
    ],
)
async def test_what_cannot_be_read_as_a_request_is_refused_in_our_own_words(server: Server, sent: bytes) -> None:
    internal = await server.metric("encoder_requests_total", code="internal")
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(sent)
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    assert head.split()[1] == b"400"
    assert b"aiohttp" not in head
    assert json.loads(body)["error"]["code"] == "bad_request"
    assert b"secret" not in body.lower()
    assert await server.metric("encoder_requests_total", code="internal") == internal


async def test_every_answer_names_the_fingerprint_that_its_rows_are_of(server: Server) -> None:
    fingerprint = (await server.identity())["fingerprint"]
    assert (await server.encode(items((56, 56)))).json["fingerprint"] == fingerprint
    for accept in ("application/vnd.safetensors", "multipart/mixed"):
        assert fingerprint.encode() in (await server.encode(items((56, 56)), accept=accept)).body
