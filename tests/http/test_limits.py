"""What a request may cost, and who gives it back."""

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.typedefs import Handler

from encoder_server import access
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Server, Start, items, picture, serving, until
from tests.support.media import sound, text, tone

WIRE = json.loads((Path(__file__).parents[1] / "contract" / "wire.json").read_text())


async def _pieces(body: bytes) -> AsyncIterator[bytes]:
    """A body of which nobody states the length."""
    yield body


async def test_limits_are_named_with_the_item(start: Start) -> None:
    server = await start("--max-items=2", "--max-pixels=10000", "--max-body-bytes=5000")
    many = await server.encode(items((56, 56), (56, 56), (56, 56)))
    large = await server.encode(items((56, 56), (200, 200)))
    heavy = await server.encode(b" " * 6000)
    chunked = await server.encode(_pieces(b" " * 6000))
    assert [answer.code for answer in (many, large, heavy, chunked)] == ["limit_exceeded"] * 4
    assert "limit is 2" in many.message
    assert "items[1]: 200x200" in large.message
    assert "10000" in large.message
    assert "5000" in heavy.message
    assert [answer.blamed for answer in (many, large, heavy, chunked)] == [[], [1], [], []]


async def test_a_modality_that_is_not_listed_is_refused_and_those_that_are_are_named(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(declared=["image", "video"])
    server = await start("--modalities=image")
    limits = (await server.get("/v1/limits")).json
    assert (limits["modalities"], list(limits["byModality"])) == (["image"], ["image"])
    answer = await server.encode({"items": [{"modality": "video", "data": picture()}]})
    assert (answer.status, answer.code) == (400, "unsupported_modality")
    assert answer.message == "items[0].modality: accepted here: image"
    assert (await server.encode(items((56, 56)))).status == 200
    # What is accepted is no part of what the replica is.
    assert list((await server.identity())["exact"]["widths"]) == ["image", "video"]


async def test_what_lasts_longer_than_the_encoder_takes_is_refused_by_its_header_with_the_encoders_own_limit(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(declared=["audio"], max_seconds={"audio": 0.5})
    server = await start("--max-audio-seconds=300")
    assert (await server.get("/v1/limits")).json["byModality"]["audio"]["maxSeconds"] == 0.5
    long = {"modality": "audio", "data": text(sound(tone(8001)))}
    answer = await server.encode({"items": [long]})
    assert (answer.status, answer.code, answer.blamed) == (400, "limit_exceeded", [0])
    assert answer.message == "items[0]: 0.5000625 s of audio; the limit is 0.5 s"
    assert server.batches == []


async def test_an_encoder_that_takes_longer_media_than_a_caller_may_send_changes_no_limit(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(declared=["audio", "image", "video"], max_seconds={"audio": 30, "video": 30})
    server = await start("--max-audio-seconds=2", "--max-video-seconds=3")
    stated = (await server.get("/v1/limits")).json["byModality"]
    assert {modality: list(each) for modality, each in stated.items()} == WIRE["limits"]["byModality"]
    assert (stated["audio"]["maxSeconds"], stated["video"]["maxSeconds"]) == (2, 3)


async def test_formats_are_stated_for_the_modalities_that_are_served_and_for_no_other(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(declared=["audio"])
    limits = (await (await start()).get("/v1/limits")).json
    assert "formats" not in limits
    assert {modality: each["formats"] for modality, each in limits["byModality"].items()} == {
        "audio": ["WAV", "FLAC", "OGG"]
    }


@pytest.mark.parametrize("fps", [1e-300, 0.0009, 1000.5, 1e300])
async def test_a_rate_of_frames_outside_the_stated_limits_is_refused_with_item_field_and_limits(
    start: Start, checkpoint: Checkpoint, fps: float
) -> None:
    checkpoint.write(declared=["image", "video"])
    server = await start()
    video = (await server.get("/v1/limits")).json["byModality"]["video"]
    assert (video["minFps"], video["maxFps"]) == (0.001, 1000)
    frames = {"modality": "video", "frames": [picture()], "fps": fps}
    answer = await server.encode({"items": [*items((56, 56))["items"], frames]})
    assert (answer.status, answer.code, answer.blamed) == (400, "bad_request", [1])
    assert answer.message == "items[1].fps is no rate that is taken; the limits are 0.001 and 1000 frames a second"


async def test_a_server_that_is_to_accept_what_its_encoder_has_not_does_not_load_and_says_what(start: Start) -> None:
    server = await start("--modalities=image,audio", state="FAILED")
    identity = await server.identity()
    assert (identity["reason"], identity["fingerprint"]) == ("LoadFailed", None)
    assert identity["message"] == "audio is to be accepted; the encoder has image"


async def test_the_pixels_of_a_request_together_are_limited_before_any_is_decoded(start: Start) -> None:
    server = await start("--max-pixels=10000", "--max-request-pixels=25000")
    answer = await server.encode(items((100, 100), (100, 100), (100, 51), (56, 56)))
    assert (answer.status, answer.code) == (400, "limit_exceeded")
    assert answer.message == "items[2]: image 100x51 brings the request to 25100 pixels; the limit is 25000"
    assert server.batches == []
    assert (await server.encode(items((100, 100), (100, 100), (100, 50)))).status == 200
    assert (await server.get("/v1/limits")).json["maxRequestPixels"] == 25000


async def test_a_broken_off_body_gives_its_place_back(start: Start) -> None:
    server = await start("--max-in-flight=1")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await server.until_load(inFlight=1)
    await server.until_load(inFlight=0)
    assert (await server.encode(items((56, 56)))).status == 200


async def connect(server: Server) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = server.url.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def dribble(writer: asyncio.StreamWriter) -> None:
    """Send a byte now and then, for ever."""
    with contextlib.suppress(ConnectionError):
        while not writer.is_closing():
            writer.write(b"a")
            await writer.drain()
            await asyncio.sleep(0.02)


async def answer_to(server: Server, begin: bytes, seconds: float = 10) -> bytes:
    """What comes on a connection on which `begin` was sent, and then a byte now and then: an error, or its end."""
    reader, writer = await connect(server)
    writer.write(begin)
    dribbling = asyncio.create_task(dribble(writer))
    answer = b""
    try:
        async with asyncio.timeout(seconds):
            # What is sent to a connection that was closed resets it: the end, for whoever reads.
            with contextlib.suppress(ConnectionResetError):
                while not answer.endswith(b"}}") and (part := await reader.read(4096)):
                    answer += part
        return answer
    finally:
        dribbling.cancel()
        writer.close()


@pytest.mark.parametrize("begin", [b"POST /", b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nX-Slow: "])
async def test_a_connection_on_which_no_whole_head_comes_is_closed(start: Start, begin: bytes) -> None:
    server = await start("--idle-seconds=0.3")
    assert await answer_to(server, begin) == b""


async def test_a_connection_that_sends_nothing_is_closed_before_and_after_a_request(start: Start) -> None:
    server = await start("--idle-seconds=0.3")
    for sent, answer in ((b"", b""), (b"GET /v1/load HTTP/1.1\r\nHost: x\r\n\r\n", b"HTTP/1.1 200")):
        reader, writer = await connect(server)
        writer.write(sent)
        async with asyncio.timeout(10):
            assert (await reader.read()).startswith(answer)
        writer.close()


@pytest.mark.parametrize("length", [b"Content-Length: 1000000", b"Transfer-Encoding: chunked"])
async def test_a_body_that_dribbles_gives_its_place_back_by_the_deadline(start: Start, length: bytes) -> None:
    server = await start("--deadline-seconds=1", "--max-in-flight=1")
    head = b"POST /v1/encode HTTP/1.1\r\nHost: x\r\n" + length + b"\r\n\r\n"
    slow = asyncio.create_task(answer_to(server, head + (b"fffff\r\n" if b"chunked" in length else b""), 30))
    await server.until_load(inFlight=1)
    assert (await server.encode(items((56, 56)))).code == "overloaded"
    await server.until_load(inFlight=0, inFlightBytes=0)
    assert (await server.encode(items((56, 56)))).status == 200
    assert await server.metric("encoder_requests_total", code="request_timeout") == 1
    answer = await slow
    assert answer.startswith(b"HTTP/1.1 408 ")
    assert b"connection: close" in answer.lower()
    assert b"body: it had not come whole by the deadline (1 s)" in answer


async def test_the_connection_that_waited_longest_makes_room_for_a_new_one(start: Start) -> None:
    server = await start("--max-connections=3")
    connections = [await connect(server) for _ in range(5)]
    async with asyncio.timeout(10):
        for reader, _ in connections[:2]:
            assert await reader.read() == b""
    assert (await server.get("/healthz")).status == 200
    reader, writer = connections[4]
    writer.write(b"GET /v1/load HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b" 200 " in await reader.readline()
    for _, writer in connections:
        writer.close()


async def test_a_connection_that_made_room_as_its_request_came_is_no_fault_of_the_server(
    tmp_path: Path, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    @web.middleware
    async def make_room(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path == "/v1/encode":
            request.protocol.force_close()
        return await handler(request)

    async with serving(tmp_path, checkpoint, before=lambda app: app.middlewares.append(make_room)) as server:
        assert await answer_to(server, b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n") == b""
        await server.until_load(inFlight=0)
        assert await server.metric("encoder_requests_total", code="cancelled") == 1
        assert await server.metric("encoder_requests_total", code="internal") == 0
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


async def test_one_connection_too_many_is_told_so_while_health_is_still_answered(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-connections=2")
    busy = [asyncio.create_task(server.encode(items((112, 56)))) for _ in range(2)]
    await server.until_load(inFlight=2)
    crowded = await server.encode(items((56, 56)))
    assert (crowded.status, crowded.code, crowded.headers["Connection"]) == (429, "overloaded", "close")
    assert crowded.message == "3 connections are open; the limit is 2"
    assert [(await server.get(path)).status for path in ("/healthz", "/readyz", "/metrics")] == [200, 200, 200]
    for task in busy:
        await open_gate(server.model)
        assert (await task).status == 200
    assert (await server.encode(items((56, 56)))).status == 200


@pytest.mark.parametrize("accept", ["application/vnd.safetensors", "application/json", "multipart/mixed"])
async def test_who_does_not_read_an_answer_is_cut_off_and_holds_nothing_for_ever(
    accept: str, start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start("--deadline-seconds=10")
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps(items(*[(2800, 2800)] * 8)).encode()
    about = f"Host: x\r\nAccept: {accept}\r\nContent-Length: {len(body)}\r\n\r\n"
    request = f"POST /v1/encode HTTP/1.1\r\n{about}".encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10)
        await asyncio.to_thread(sock.connect, (host, int(port)))
        await asyncio.to_thread(sock.sendall, request + body)

        async def answered() -> bool:
            return await server.metric("encoder_stage_seconds_count", stage="total") == 1

        async def cut_off() -> bool:
            return any(record.message == "answer_not_read" for record in caplog.records)

        await until(answered)
        # An answer that is not read is memory that is held, so that its place is taken until then.
        assert (await server.get("/v1/load")).json["inFlight"] == 1
        await until(cut_off, seconds=30)
        await server.until_load(inFlight=0, inFlightBytes=0)
        assert await server.metric("encoder_requests_total", code="cancelled") == 1
        head, _, answer = (await asyncio.to_thread(_read_all, sock)).partition(b"\r\n\r\n")
    length = head.partition(b"Content-Length: ")[2].split()
    assert len(answer) < int(length[0]) if length else not answer.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("size", [(56, 56), (2800, 2800)], ids=["in one piece", "in pieces"])
async def test_what_fails_after_an_answer_was_written_never_brings_a_second_one(
    start: Start, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, size: tuple[int, int]
) -> None:
    server = await start()
    monkeypatch.setattr(access, "tell", _fail)
    body = json.dumps(items(size)).encode()
    reader, writer = await connect(server)
    writer.write(f"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(10):
        answer = await reader.read()
    writer.close()
    head, _, rows = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert f"Content-Length: {len(rows)}\r\n".encode() in head
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == ["request_crashed"]


def _fail(*_: object) -> None:
    raise RuntimeError


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)


async def test_health_and_readiness_are_answered_at_once_while_every_place_is_taken(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight=8")
    busy = [asyncio.create_task(server.encode(items((112, 56))))]
    await server.until_taken()
    busy += [asyncio.create_task(server.encode(items(*[(1024, 1024)] * 8))) for _ in range(7)]
    await server.until_load(inFlight=8)
    for path in ("/healthz", "/readyz"):
        async with asyncio.timeout(1):
            assert (await server.get(path)).status == 200
    await open_gate(server.model)
    assert [(await each).status for each in busy] == [200] * 8
