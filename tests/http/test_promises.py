"""The promise before the rows: an answer in two parts, the first sent before the model runs."""

import json
import logging
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import safetensors.numpy
from aiohttp import web

from encoder_server.reply import Reply
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Server, Start, items, serving, until

WIRE = json.loads((Path(__file__).parents[1] / "contract" / "wire.json").read_text())["answerMultipart"]
MIXED = {"Accept": "multipart/mixed"}


async def part(reader: Any) -> tuple[Any, bytes]:
    """The next part's headers and content."""
    found = await reader.next()
    assert isinstance(found, aiohttp.BodyPartReader)
    return found.headers, bytes(await found.read())


async def two_parts(server: Server, *sizes: tuple[int, int]) -> tuple[Any, Any, bytes]:
    """The promises, and the second part with its headers."""
    async with server.session.post(f"{server.url}/v1/encode", json=items(*sizes), headers=MIXED) as response:
        assert response.status == 200
        assert response.headers["X-Request-Id"]
        reader = aiohttp.MultipartReader.from_response(response)
        _, promises = await part(reader)
        headers, content = await part(reader)
        assert await reader.next() is None
        return json.loads(promises), headers, content


async def test_promises_arrive_before_the_model_runs_and_rows_after_it(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate-late"})
    server = await start()
    body = items((56, 56), (112, 56))
    async with server.session.post(f"{server.url}/v1/encode", json=body, headers=MIXED) as response:
        assert (response.status, response.content_type) == (200, WIRE["contentType"])
        reader = aiohttp.MultipartReader.from_response(response)
        headers, content = await part(reader)
        assert headers["Content-Type"] == WIRE["firstPart"]["contentType"]
        promises = json.loads(content)
        assert promises.keys() == WIRE["firstPart"]["body"].keys()
        assert promises["items"] == [
            {"index": 0, "modality": "image", "grid": [1, 4, 4], "tokens": 4},
            {"index": 1, "modality": "image", "grid": [1, 4, 8], "tokens": 8},
        ]
        await open_gate(server.model)
        headers, content = await part(reader)
        assert headers["Content-Type"] == "application/vnd.safetensors"
        assert {name: rows.shape for name, rows in safetensors.numpy.load(content).items()} == {
            "item.0": (4, 64),
            "item.1": (8, 64),
        }
        assert await reader.next() is None


async def test_what_is_recalled_answers_in_the_same_shape(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    fresh, recalled = await two_parts(server, (56, 56)), await two_parts(server, (56, 56))
    assert len(server.batches) == 1
    assert fresh[0]["items"] == recalled[0]["items"]
    first, second = (safetensors.numpy.load(content)["item.0"] for _, _, content in (fresh, recalled))
    assert (first == second).all()


@pytest.mark.parametrize("action", ["short", "layout", "crash-late"])
async def test_what_fails_after_the_promise_is_told_in_the_second_part(
    start: Start, checkpoint: Checkpoint, action: str
) -> None:
    checkpoint.write(sizes={"112x56": action})
    server = await start()
    promises, headers, content = await two_parts(server, (56, 56), (112, 56))
    wanted = {"short": (502, "token_mismatch"), "layout": (502, "layout"), "crash-late": (503, "engine_lost")}[action]
    assert [item["tokens"] for item in promises["items"]] == [4, 8]
    assert (int(headers[WIRE["statusHeader"]]), json.loads(content)["error"]["code"]) == wanted
    assert headers["Content-Type"] == "application/json"
    assert await server.metric("encoder_requests_total", code=wanted[1]) == 1


async def test_a_deadline_after_the_promise_is_told_in_the_second_part(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "hang-late"})
    server = await start("--deadline-seconds=0.4", "--grace-seconds=0.1")
    _, headers, content = await two_parts(server, (112, 56))
    assert (headers["X-Status"], json.loads(content)["error"]["code"]) == ("504", "promise_timeout")


async def test_what_fails_before_any_promise_is_a_plain_error(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "bad", "112x84": "early-layout", "112x112": "unpromised", "84x84": "die"})
    server = await start("--max-pixels=20000")
    for size, status, code in [
        ((200, 200), 400, "limit_exceeded"),
        ((112, 56), 400, "bad_media"),
        ((112, 84), 502, "layout"),
        ((112, 112), 502, "layout"),
        ((84, 84), 503, "engine_lost"),
    ]:
        await server.until_state("READY")
        answer = await server.encode(items((56, 56), size), accept="multipart/mixed")
        assert (answer.status, answer.code) == (status, code)
    await server.until_state("READY")
    mismatch = await server.encode(items((56, 56), expected_tokens=5), accept="multipart/mixed")
    assert (mismatch.status, mismatch.code) == (422, "promise_mismatch")


async def test_a_caller_who_leaves_after_the_promise_frees_its_place(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate-late"})
    server = await start()
    async with server.session.post(f"{server.url}/v1/encode", json=items((112, 56)), headers=MIXED) as response:
        await part(aiohttp.MultipartReader.from_response(response))

        async def at_gate() -> bool:
            return (server.model / "at-gate").exists()

        await until(at_gate)  # Who leaves before has the item left out, and nobody comes to the gate.
        response.close()
    await server.until_load(inFlight=0)
    await open_gate(server.model)
    assert (await server.encode(items((56, 56)))).status == 200
    assert await server.metric("encoder_requests_total", code="cancelled") == 1


@pytest.mark.parametrize(
    ("accept", "size", "code"),
    [
        ("multipart/mixed", (56, 56), "cancelled"),
        ("application/json", (56, 56), "cancelled"),
        ("application/json", (112, 56), "token_mismatch"),
    ],
)
async def test_a_caller_who_leaves_as_its_answer_begins_is_told_alike_in_the_metrics_and_in_the_log(
    tmp_path: Path,
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    accept: str,
    size: tuple[int, int],
    code: str,
) -> None:
    """It is no fault of the server, and an error that was to be told is still what happened."""
    caplog.set_level(logging.INFO, "encoder_server")
    checkpoint.write(sizes={"112x56": "short"})

    async def leave(request: web.BaseRequest, answer: web.StreamResponse) -> None:
        if request.path == "/v1/encode" and request.transport is not None:
            request.transport.close()

    def leave_before(reply: Reply, request: web.BaseRequest) -> bool:
        assert request.transport is not None
        request.transport.close()
        return sent(reply, request)

    sent = Reply.send
    monkeypatch.setattr(Reply, "send", leave_before)
    async with serving(tmp_path, checkpoint, before=lambda app: app.on_response_prepare.append(leave)) as server:
        with pytest.raises(aiohttp.ClientConnectionError):
            await server.encode(items(size), accept=accept)
        await server.until_load(inFlight=0)
        for counted in ("ok", "cancelled", "token_mismatch", "internal"):
            assert await server.metric("encoder_requests_total", code=counted) == int(counted == code)
    told = [vars(record) for record in caplog.records if record.message == "request"]
    assert [(line["code"], line["status"]) for line in told if line["path"] == "/v1/encode"] == [(code, None)]
    assert "request_crashed" not in [record.message for record in caplog.records]
