"""What a request may cost, and who gives it back."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator

from tests.http.under_test import Start, items, until


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


async def test_a_broken_off_body_gives_its_place_back(start: Start) -> None:
    server = await start("--max-in-flight=1")
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as sock:
        sock.sendall(b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        await server.until_load(inFlight=1)
    await server.until_load(inFlight=0)
    assert (await server.encode(items((56, 56)))).status == 200


async def test_who_does_not_read_an_answer_is_cut_off_and_holds_nothing_for_ever(start: Start) -> None:
    server = await start("--deadline-seconds=2")
    host, port = server.url.removeprefix("http://").split(":")
    body = json.dumps(items(*[(2800, 2800)] * 8)).encode()
    request = f"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.settimeout(10)
        await asyncio.to_thread(sock.connect, (host, int(port)))
        await asyncio.to_thread(sock.sendall, request + body)

        async def answered() -> bool:
            return await server.metric("encoder_requests_total", code="ok") == 1

        await until(answered)
        await asyncio.sleep(2.5)
        head, _, answer = (await asyncio.to_thread(_read_all, sock)).partition(b"\r\n\r\n")
    stated = int(head.partition(b"Content-Length: ")[2].split()[0])
    assert len(answer) < stated


def _read_all(sock: socket.socket) -> bytes:
    parts = []
    while part := sock.recv(1 << 20):
        parts.append(part)
    return b"".join(parts)
