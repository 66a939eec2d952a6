"""The client against real servers, and against ones that answer as none should: sync and async alike."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
import pytest
import safetensors.numpy
from aiohttp import web

from encoder_server import client
from encoder_server.client import AsyncClient, Client, Embeddings, Image, Medium, Retries
from tests.http.test_engine_faults import open_gate
from tests.http.test_states import expect
from tests.http.under_test import Checkpoint, Start, picture, serving

QUICK = Retries(attempts=4, base_seconds=0.01)
Encode = Callable[..., Awaitable[Embeddings]]


def image(width: int = 56, height: int = 56, expected: int | None = None) -> Image:
    return Image(base64.b64decode(picture(width, height)), expected)


@pytest.fixture(params=["sync", "async"])
async def encode(request: pytest.FixtureRequest) -> AsyncIterator[Encode]:
    """Encode with one client, that lives as long as the test."""
    async with contextlib.AsyncExitStack() as stack:
        made: dict[str, Any] = {}

        async def call(url: str, items: Sequence[Medium], *, on_promise: Any = None, **options: Any) -> Embeddings:
            options = {"retries": QUICK, **options}
            if request.param == "async":
                if not made:
                    made["client"] = await stack.enter_async_context(AsyncClient(url, **options))
                found: Embeddings = await made["client"].encode(items, on_promise=on_promise)
                return found
            if not made:
                made["client"] = stack.enter_context(Client(url, **options))
            return await asyncio.to_thread(made["client"].encode, items, on_promise=on_promise)

        yield call


@asynccontextmanager
async def service(*urls: str) -> AsyncIterator[tuple[str, list[str]]]:
    """What a Service does: each new connection goes to the next of these servers; the last has all the rest."""
    met: list[str] = []
    open_ones: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        url = urls[min(len(met), len(urls) - 1)]
        met.append(url)
        host, port = url.removeprefix("http://").split(":")
        inward, outward = await asyncio.open_connection(host, int(port))
        open_ones.extend((writer, outward))
        await asyncio.gather(pump(reader, outward), pump(inward, writer))

    server = await asyncio.start_server(connect, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", met
        for writer in open_ones:
            writer.close()


@dataclass(frozen=True)
class Try:
    """What a server heard of one try."""

    request_id: str
    size: int
    connection: Any


@asynccontextmanager
async def answering(*answers: Any) -> AsyncIterator[tuple[str, list[Try]]]:
    """A server that gives these answers one after another; None: it closes the connection without one."""
    heard: list[Try] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        body, peer = await request.read(), request.get_extra_info("peername")
        heard.append(Try(request.headers["X-Request-Id"], len(body), peer))
        given = answers[min(len(heard), len(answers)) - 1]
        if given is None and request.transport is not None:
            request.transport.abort()
        if given == "never":
            await asyncio.Event().wait()
        return given() if callable(given) else web.Response(status=500)

    runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", heard
    finally:
        await runner.cleanup()


def tensors(rows: int = 4, tokens: int = 4) -> bytes:
    about = [{"index": 0, "modality": "image", "grid": [1, 4, 4], "tokens": tokens}]
    origin = {"request_id": "r", "fingerprint": "f", "revision": "v", "items": json.dumps(about)}
    return safetensors.numpy.save({"item.0": numpy.ones((rows, 8), "float32")}, origin)


def good(body: bytes | None = None) -> web.Response:
    return web.Response(body=tensors() if body is None else body, content_type="application/vnd.safetensors")


def bad(status: int, code: str = "internal", **headers: str) -> Callable[[], web.Response]:
    error = {"code": code, "message": "no", "request_id": "theirs", "items": []}
    return lambda: web.json_response({"error": error}, status=status, headers=headers)


async def test_embeddings_come_as_arrays_in_the_order_of_their_items(start: Start, encode: Encode) -> None:
    server = await start()
    found = await encode(server.url, [image(56, 84), image(expected=4)])
    assert [(item.index, item.tokens, item.grid) for item in found.items] == [(0, 6, (1, 6, 4)), (1, 4, (1, 4, 4))]
    assert [(item.rows.shape, item.dtype) for item in found.items] == [((6, 64), "float32"), ((4, 64), "float32")]
    assert (found.items[1].rows.ravel() == numpy.arange(256)).all()
    identity = await server.identity()
    assert (found.fingerprint, found.revision, found.tries) == (identity["fingerprint"], identity["revision"], 1)


async def test_a_promise_is_told_before_the_model_runs(start: Start, checkpoint: Checkpoint, encode: Encode) -> None:
    checkpoint.write(sizes={"112x56": "gate-late"})
    server = await start()
    loop, told = asyncio.get_running_loop(), asyncio.Event()
    promises: list[client.Promises] = []

    def hear(promised: client.Promises) -> None:
        promises.append(promised)
        loop.call_soon_threadsafe(told.set)

    coming = asyncio.ensure_future(encode(server.url, [image(112, 56)], on_promise=hear))
    async with asyncio.timeout(15):
        await told.wait()
    assert [item.tokens for item in promises[0].items] == [8]
    assert not coming.done()
    await open_gate(server.model)
    assert (await coming).items[0].rows.shape == (8, 64)
    assert len(promises) == 1


async def test_the_callers_fault_is_told_with_its_item_and_not_tried_again(start: Start, encode: Encode) -> None:
    server = await start("--max-pixels=20000")
    with pytest.raises(client.PromiseMismatchError) as failed:
        await encode(server.url, [image(), image(expected=5)])
    error = failed.value
    assert (error.code, error.status, error.tries) == ("promise_mismatch", 422, 1)
    assert [(item.index, item.promised) for item in error.items] == [(1, 4)]
    with pytest.raises(client.CallerError, match=r"items\[1\].*20000") as large:
        await encode(server.url, [image(), image(200, 200)])
    assert [(item.index, item.modality) for item in large.value.items] == [(1, "image")]
    assert await server.metric("encoder_requests_total", code="promise_mismatch") == 1
    assert await server.metric("encoder_requests_total", code="limit_exceeded") == 1


async def test_a_body_that_is_refused_before_it_is_sent_whole_is_told_as_the_limit_that_it_is(
    start: Start, encode: Encode
) -> None:
    server = await start("--max-body-bytes=1000000")
    with pytest.raises(client.CallerError, match="limit is 1000000"):
        await encode(server.url, [Image(bytes(30_000_000))])


@pytest.mark.parametrize("promise", [False, True])
async def test_a_row_that_is_wrong_at_one_replica_comes_from_another(
    tmp_path: Path, encode: Encode, promise: bool
) -> None:
    urls = []
    async with contextlib.AsyncExitStack() as stack:
        for name, action in (("wrong", "short"), ("right", "good")):
            checkpoint = Checkpoint(tmp_path / f"{name}-model")
            checkpoint.write(sizes={"112x56": action})
            (tmp_path / name).mkdir()
            server = await stack.enter_async_context(serving(tmp_path / name, checkpoint))
            urls.append(server.url)
        url, met = await stack.enter_async_context(service(*urls))
        promises: list[client.Promises] = []
        hear = promises.append if promise else None
        found = await encode(url, [image(112, 56)], on_promise=hear)
        assert (found.tries, found.items[0].rows.shape) == (2, (8, 64))
        assert met == urls
        # The connection to the replica that was wrong is not used again.
        assert (await encode(url, [image(112, 56)], on_promise=hear)).tries == 1
        assert len(promises) == (2 if promise else 0)


async def test_a_held_replica_is_told_apart_and_readiness_says_why(start: Start, encode: Encode) -> None:
    server = await start(in_pool=True, state="HELD")
    with pytest.raises(client.UnavailableError) as failed:
        await encode(server.url, [image()], retries=Retries(attempts=1))
    assert (failed.value.code, failed.value.retry_after) == ("held", 1.0)
    async with AsyncClient(server.url) as caller:
        ready = await caller.ready()
        assert (ready.state, ready.reason) == ("HELD", "Learning")
        identity = await caller.identity()
        expect(server, fingerprint=str(identity.fingerprint))
        await server.until_state("READY")
        assert (await caller.ready()).state == "READY"
        assert (await caller.limits()).max_items == 16


async def test_busy_wrong_and_gone_are_tried_again_with_one_id_and_new_connections(encode: Encode) -> None:
    answers = [bad(429, "overloaded", **{"Retry-After": "0"}), bad(503, "draining"), None, good]
    async with answering(*answers) as (url, heard):
        assert (await encode(url, [image()])).tries == 4
        assert len({each.request_id for each in heard}) == 1
        assert len({each.connection for each in heard}) == 4
        assert len({each.size for each in heard}) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, client.CallerError),
        (408, client.CallerError),
        (500, client.ServerFaultError),
        (504, client.UnavailableError),
    ],
)
async def test_what_would_fail_again_is_not_tried_again(
    encode: Encode, status: int, kind: type[client.EncoderPoolError]
) -> None:
    async with answering(bad(status)) as (url, heard):
        with pytest.raises(kind) as failed:
            await encode(url, [image()])
        assert (len(heard), failed.value.request_id, failed.value.tries) == (1, "theirs", 1)


async def test_tries_are_bounded_and_the_last_error_is_told(encode: Encode) -> None:
    async with answering(bad(502, "token_mismatch")) as (url, heard):
        with pytest.raises(client.CheckFailedError) as failed:
            await encode(url, [image()])
        assert (len(heard), failed.value.tries) == (4, 4)
    with pytest.raises(client.ConnectionFailedError):
        await encode(url, [image()])


async def test_a_wait_that_would_pass_the_deadline_is_not_waited(encode: Encode) -> None:
    async with answering(bad(429, "overloaded", **{"Retry-After": "30"})) as (url, heard):
        with pytest.raises(client.OverloadedError):
            await encode(url, [image()], deadline_seconds=5.0)
        assert len(heard) == 1


async def test_a_server_that_never_answers_ends_at_the_deadline(encode: Encode) -> None:
    async with answering("never") as (url, heard):
        with pytest.raises(client.DeadlineError):
            await encode(url, [image()], deadline_seconds=0.3)
        assert len(heard) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (lambda: good(tensors(rows=3)), "3 rows, 4 were promised"),
        (lambda: good(tensors()[:-1]), "not as long as the body"),
        (lambda: good(b"\xff" * 8), "shorter than its head"),
        (lambda: web.Response(text="<html>"), "another type"),
    ],
)
async def test_an_answer_that_contradicts_itself_is_refused(encode: Encode, answer: Any, text: str) -> None:
    async with answering(answer) as (url, heard):
        with pytest.raises(client.InvalidAnswerError, match=text):
            await encode(url, [image()])
        assert len(heard) == 1


async def test_an_answer_that_is_too_long_is_not_read(encode: Encode) -> None:
    async with answering(good) as (url, _):
        with pytest.raises(client.InvalidAnswerError, match="longer than 100 bytes"):
            await encode(url, [image()], most_answer_bytes=100)


async def test_another_try_that_promises_otherwise_is_refused(encode: Encode) -> None:
    def mixed(tokens: int, second: str, status: str = "") -> Callable[[], web.Response]:
        item = {"index": 0, "modality": "image", "grid": [1, 4, 4], "tokens": tokens}
        first = json.dumps({"request_id": "r", "fingerprint": "f", "revision": "v", "items": [item]})
        parts = ((first, ""), (second, status))
        body = "".join(f"--b\r\nContent-Length: {len(text)}\r\n{head}\r\n{text}\r\n" for text, head in parts)
        return lambda: web.Response(text=f"{body}--b--\r\n", headers={"Content-Type": "multipart/mixed; boundary=b"})

    error = json.dumps({"error": {"code": "layout", "message": "no", "request_id": "r", "items": []}})
    promises: list[client.Promises] = []
    async with answering(mixed(4, error, "X-Status: 502\r\n"), mixed(5, "")) as (url, heard):
        with pytest.raises(client.InvalidAnswerError, match="replicas disagree"):
            await encode(url, [image()], on_promise=promises.append)
        assert (len(heard), len(promises)) == (2, 1)
