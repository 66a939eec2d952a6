"""The client against a server that answers with anything: always a typed error, in time, and never a wrong row."""

import asyncio
import contextlib
import gzip
import json
import socket
import struct
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import safetensors.numpy

from encoder_server import client
from encoder_server.client import AsyncClient, Client, EncoderPoolError, Image, Retries

OPTIONS: dict[str, Any] = {"deadline_seconds": 15.0, "retries": Retries(attempts=3, base_seconds=0.01)}
SAFETENSORS, MIXED = "application/vnd.safetensors", 'multipart/mixed; boundary="b"'
ITEM = {"index": 0, "modality": "image", "grid": [1, 4, 4], "tokens": 4}
ORIGIN = {"request_id": "r", "fingerprint": "f", "revision": "v"}
Respond = Callable[[asyncio.StreamWriter], Awaitable[None]]
Call = Callable[[str], Awaitable[Any]]


@dataclass
class Heard:
    """What a hostile server met, and how much of its answers was taken from it."""

    url: str
    connections: int = 0
    requests: int = 0
    sent: int = 0


@asynccontextmanager
async def listening(
    serve: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> AsyncIterator[str]:
    """A server at this address that does this with each connection, and at the end with none."""
    tasks: list[asyncio.Task[None]] = []

    def connect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.ensure_future(serve(reader, writer)))

    async with await asyncio.start_server(connect, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


@asynccontextmanager
async def hostile(answer: bytes | Respond) -> AsyncIterator[Heard]:
    """A server that reads each request whole, and then sends these bytes, or does this."""
    heard = Heard("")

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                _, _, length = head.partition(b"content-length: ")
                await reader.readexactly(int(length.split(b"\r\n")[0] or 0))
                heard.requests += 1
                if isinstance(answer, bytes):
                    writer.write(answer)
                    await writer.drain()
                else:
                    await answer(writer)
        writer.transport.abort()

    async with listening(serve) as heard.url:
        yield heard


def answer(body: bytes, status: str = "200 OK", kind: str = SAFETENSORS, *heads: str, length: object = None) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {length or len(body)}", *heads]
    return "\r\n".join([*lines, "", ""]).encode() + body


def rows(*shape: int, dtype: str = "float32", about: Any = (ITEM,), name: str = "item.0") -> bytes:
    return safetensors.numpy.save({name: numpy.ones(shape, dtype)}, {**ORIGIN, "items": json.dumps(about)})


def framed(head: Any, values: bytes = b"") -> bytes:
    text = head if isinstance(head, bytes) else json.dumps(head).encode()
    return len(text).to_bytes(8, "little") + text + values


def tensor(shape: list[int], tokens: int, dtype: str = "F32") -> bytes:
    about = {**ORIGIN, "items": json.dumps([{**ITEM, "tokens": tokens}])}
    return framed({"__metadata__": about, "item.0": {"dtype": dtype, "shape": shape, "data_offsets": [0, 0]}})


def mixed(*parts: str, kind: str = MIXED, status: str = "") -> bytes:
    heads = ["", f"X-Status: {status}\r\n" if status else "", ""]
    pieces = [f"--b\r\n{head}Content-Length: {len(text)}\r\n\r\n{text}\r\n" for head, text in zip(heads, parts)]  # noqa: B905 - as many as there are
    return answer(f"{''.join(pieces)}--b--\r\n".encode(), kind=kind)


PROMISE = json.dumps({**ORIGIN, "items": [ITEM]})
DEEP = b"[" * 100_000
MANY = b"[" + b"0," * 500_000 + b"0]"


@pytest.fixture(params=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def fails(kind: str, url: str, *, promise: bool = False, content: bytes = b"x", **options: Any) -> Any:
    """Return the error with which the call ends. Whatever else is raised fails the test, as rows do."""
    hear = (lambda promised: None) if promise else None

    def wait() -> Any:
        with Client(url, **{**OPTIONS, **options}) as caller:
            return caller.encode([Image(content)], on_promise=hear)

    async with AsyncClient(url, **{**OPTIONS, **options}) as caller:
        call = asyncio.to_thread(wait) if kind == "sync" else caller.encode([Image(content)], on_promise=hear)
        with pytest.raises(EncoderPoolError) as failed:
            await call
    return failed.value


INVALID = {
    "no JSON": answer(framed(b"{no")),
    "JSON of a hundred thousand levels": answer(framed(b'{"a":' + DEEP)),
    "no UTF-8": answer(framed(b"\xff\xfe")),
    "a head of a million entries": answer(framed({"__metadata__": {**ORIGIN, "items": MANY.decode()}})),
    "a shape that no machine has": answer(tensor([0, 10**30], 0)),
    "more tokens than there are numbers": answer(tensor([10**40, 0], 10**40)),
    "rows without a width": answer(tensor([4, 0], 4)),
    "another dtype": answer(rows(4, 8, dtype="int32")),
    "a dtype that is none": answer(tensor([4, 8], 4, "\ud800")),
    "more rows": answer(rows(5, 8)),
    "less rows": answer(rows(3, 8)),
    "a row alone": answer(rows(4)),
    "more items": answer(rows(4, 8, about=[ITEM, {**ITEM, "index": 1}])),
    "no items": answer(rows(4, 8, about=[])),
    "another item": answer(rows(4, 8, name="item.1")),
    "a byte less": answer(rows(4, 8)[:-1]),
    "a length that is too short": answer(rows(4, 8), length=len(rows(4, 8)) - 4),
    "an error": answer(b'{"error": {"code": "layout", "message": "no"}}', kind="application/json"),
    "two parts for one": mixed(PROMISE, "x"),
    "what is packed": answer(gzip.compress(rows(4, 8)), "200 OK", SAFETENSORS, "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("what", INVALID)
async def test_rows_that_are_not_those_that_were_asked_for_are_never_handed_over(kind: str, what: str) -> None:
    async with hostile(INVALID[what]) as heard:
        assert isinstance(await fails(kind, heard.url), client.InvalidAnswerError)
        assert heard.requests == 1


INVALID_MIXED = {
    "rows without a promise": answer(rows(4, 8)),
    "no boundary": mixed(PROMISE, "x", kind="multipart/mixed"),
    "a boundary in an encoding that has no end": mixed(
        PROMISE, kind="multipart/mixed; boundary*=unicode_escape''%5Cud800"
    ),
    "a boundary in an encoding that is none": mixed(PROMISE, kind="multipart/mixed; boundary*=undefined''b"),
    "no promise": mixed("{}", "x"),
    "a promise of a hundred thousand levels": mixed(DEEP.decode(), "x"),
    "a promise of a million entries": mixed(f'{{"items": {MANY.decode()}}}', "x"),
    "a promise for another": mixed(json.dumps({**ORIGIN, "items": [{**ITEM, "modality": "audio"}]}), "x"),
    "a second part that is no rows": mixed(PROMISE, "x"),
    "three parts": mixed(PROMISE, "x", "x"),
}


@pytest.mark.parametrize("what", INVALID_MIXED)
async def test_parts_that_are_not_a_promise_and_its_rows_are_never_handed_over(kind: str, what: str) -> None:
    async with hostile(INVALID_MIXED[what]) as heard:
        assert isinstance(await fails(kind, heard.url, promise=True), client.InvalidAnswerError)
        assert heard.requests == 1


BROKEN = {
    "no HTTP": b"\0\xff\r\n\r\n",
    "a length below nothing": answer(b"", length=-5),
    "a length that is no number": answer(b"", length="all"),
    "two lengths": answer(rows(4, 8), "200 OK", SAFETENSORS, "Content-Length: 3"),
    "a status that is none": b"HTTP/1.1 99 X\r\n\r\n",
    "headers without an end": b"HTTP/1.1 200 OK\r\nX: " + b"a" * 200_000,
}


@pytest.mark.parametrize("what", BROKEN)
async def test_what_is_no_answer_is_tried_again_each_time_over_a_new_connection(kind: str, what: str) -> None:
    async with hostile(BROKEN[what]) as heard:
        error = await fails(kind, heard.url)
        assert isinstance(error, client.ConnectionFailedError)
        assert (error.tries, heard.requests, heard.connections) == (3, 3, 3)


async def test_an_answer_that_breaks_off_is_told_and_not_tried_again(kind: str) -> None:
    async def end(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(rows(4, 8)[:50], length=1000))
        writer.close()

    async def reset(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(rows(4, 8)[:50], length=1000))
        await writer.drain()
        at_once = struct.pack("ii", 1, 0)
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        writer.transport.abort()

    for broken in (end, reset):
        async with hostile(broken) as heard:
            error = await fails(kind, heard.url)
            assert isinstance(error, client.ConnectionFailedError)
            assert heard.requests == 1
    async with hostile(mixed(PROMISE)) as heard:
        assert isinstance(await fails(kind, heard.url, promise=True), client.ConnectionFailedError)


@pytest.mark.parametrize(("status", "tries"), [(429, 3), (502, 3), (503, 3), (302, 1), (307, 1), (400, 1), (404, 1)])
async def test_redirects_are_not_followed_and_of_4xx_429_alone_is_tried_again_each_time_over_a_new_connection(
    kind: str, status: int, tries: int
) -> None:
    async with hostile(b"") as elsewhere:
        location = f"Location: {elsewhere.url}/v1/encode"
        async with hostile(answer(b"{}", f"{status} X", "application/json", location)) as heard:
            error = await fails(kind, heard.url)
            assert (error.status, error.tries, heard.connections) == (status, tries, tries)
        assert elsewhere.connections == 0


FAR = "Mon, 30 Nov 2099 10:00:00"


@pytest.mark.parametrize(
    ("said", "tries"),
    [("1000000000", 1), (f"{FAR} GMT", 1), ("-5", 3), ("soon", 3), ("nan", 3), (f"{FAR} +{'9' * 20}", 3), (FAR, 3)],
)
async def test_a_retry_after_that_is_no_time_is_none_and_one_that_is_too_far_is_not_waited(
    kind: str, said: str, tries: int
) -> None:
    heads = (f"Retry-After: {said}", "Date: Mon, 30 Nov 2026 10:00:00 GMT")
    async with hostile(answer(b"{}", "429 X", "application/json", *heads)) as heard:
        error = await fails(kind, heard.url)
        assert isinstance(error, client.OverloadedError)
        assert error.tries == tries


def dripping(head: bytes, piece: bytes) -> Respond:
    async def drip(writer: asyncio.StreamWriter) -> None:
        writer.write(head)
        while True:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)

    return drip


DRIPS = {
    "headers": dripping(b"HTTP/1.1 200 OK\r\nX: ", b"a"),
    "a body": dripping(answer(b"", length=1_000_000), b"a"),
    "a chunk's length": dripping(
        answer(b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + b"1;", b"a"
    ),
    "that it goes on": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("what", DRIPS)
async def test_who_sends_a_byte_now_and_then_does_not_hold_a_caller_beyond_the_deadline(kind: str, what: str) -> None:
    async with hostile(DRIPS[what]) as heard:
        begun = time.monotonic()
        assert isinstance(await fails(kind, heard.url, deadline_seconds=0.3), client.DeadlineError)
        assert time.monotonic() - begun < 5
        begun = time.monotonic()
        with pytest.raises(client.DeadlineError):
            await _limits(kind, heard.url, deadline_seconds=0.3)
        assert time.monotonic() - begun < 5


async def test_who_never_reads_does_not_hold_a_caller_beyond_the_deadline(kind: str) -> None:
    server = socket.create_server(("127.0.0.1", 0))
    with server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        error = await fails(kind, url, content=bytes(40_000_000), deadline_seconds=0.3)
        assert isinstance(error, client.DeadlineError)


async def test_a_name_of_many_addresses_that_do_not_answer_does_not_hold_a_caller_beyond_the_deadline(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        port = stack.enter_context(_silent("127.0.0.1", 0)).getsockname()[1]
        addresses = ["127.0.0.1", *(f"127.0.0.{last}" for last in range(2, 9))]
        for address in addresses[1:]:
            stack.enter_context(_silent(address, port))
        found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]
        known = socket.getaddrinfo

        def look_up(host: Any, *arguments: Any, **options: Any) -> Any:
            return found if host in ("many.example", b"many.example") else known(host, *arguments, **options)

        monkeypatch.setattr(socket, "getaddrinfo", look_up)
        begun = time.monotonic()
        error = await fails(kind, f"http://many.example:{port}", deadline_seconds=1.0, connect_seconds=0.5)
        assert isinstance(error, client.ConnectionFailedError | client.DeadlineError)
        assert time.monotonic() - begun < 3  # Eight addresses, 0.5 s for each, would be 4 s.


@contextlib.contextmanager
def _silent(address: str, port: int) -> Iterator[socket.socket]:
    """A port that answers nobody any more: as many wait for it as may."""
    with socket.socket() as listening, contextlib.ExitStack() as stack:
        listening.bind((address, port))
        listening.listen(0)
        for _ in range(2):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listening.getsockname())
        yield listening


@pytest.mark.parametrize("status", ["200 OK", "400 X", "429 X", "503 X"])
async def test_an_answer_without_an_end_is_not_read_to_it(kind: str, status: str) -> None:
    async def endless(writer: asyncio.StreamWriter) -> None:
        writer.write(answer(b"", status).replace(b"Content-Length: 0", b"Transfer-Encoding: chunked"))
        while True:
            writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
            await writer.drain()
            heard.sent += 65536

    async with hostile(endless) as heard:
        most = 2**20 if status == "200 OK" else 2**30
        error = await fails(kind, heard.url, most_answer_bytes=most)
        assert error.status == (None if status == "200 OK" else int(status[:3]))
        with pytest.raises(EncoderPoolError):
            await _limits(kind, heard.url)
        # What sockets hold on the way, at each try, and no more.
        assert heard.sent / heard.requests < 16 * 2**20


@pytest.mark.parametrize("body", [MANY, DEEP])
async def test_an_error_that_is_larger_than_any_is_told_by_its_status(kind: str, body: bytes) -> None:
    async with hostile(answer(b'{"error":{"items":' + body + b"}}", "400 X", "application/json")) as heard:
        error = await fails(kind, heard.url)
        assert (type(error), error.code) == (client.CallerError, "http_400")


async def test_a_cookie_is_not_kept(kind: str) -> None:
    """It would bind all calls to the replica that gave it, and could be made to grow."""
    heads: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(answer(b"{}", "200 OK", "application/json", "Set-Cookie: replica=1"))
        writer.transport.abort()

    def twice(url: str) -> None:
        with Client(url) as caller:
            for _ in range(2):
                with pytest.raises(client.InvalidAnswerError):
                    caller.limits()

    async with listening(serve) as url:
        if kind == "sync":
            await asyncio.to_thread(twice, url)
        else:
            async with AsyncClient(url) as caller:
                for _ in range(2):
                    with pytest.raises(client.InvalidAnswerError):
                        await caller.limits()
    assert [b"cookie" in head.lower() for head in heads] == [False, False]


async def _limits(kind: str, url: str, **options: Any) -> Any:
    def wait() -> Any:
        with Client(url, **{**OPTIONS, **options}) as caller:
            return caller.limits()

    if kind == "sync":
        return await asyncio.to_thread(wait)
    async with AsyncClient(url, **{**OPTIONS, **options}) as caller:
        return await caller.limits()
