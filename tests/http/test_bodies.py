"""Bodies that came compressed: read within the limit of plain ones, and at nobody else's cost."""

import asyncio
import base64
import gzip
import json
import tracemalloc
import zlib
from collections.abc import AsyncIterator
from time import perf_counter

import pytest

from tests.http.test_engine_faults import open_gate
from tests.http.test_limits import connect
from tests.http.under_test import Checkpoint, Start, items, picture

BODY = json.dumps(items((56, 56))).encode()
RAW_DEFLATE = zlib.compressobj(wbits=-zlib.MAX_WBITS)


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("gzip", gzip.compress(BODY)),
        ("GZIP", gzip.compress(BODY)),
        ("deflate", zlib.compress(BODY)),
        ("deflate", RAW_DEFLATE.compress(BODY) + RAW_DEFLATE.flush()),
        ("identity", BODY),
    ],
)
async def test_a_compressed_body_is_read(start: Start, encoding: str, sent: bytes) -> None:
    server = await start()
    assert (await server.encode(sent, **{"Content-Encoding": encoding})).status == 200


@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("gzip", BODY),
        ("gzip", gzip.compress(BODY)[:-8]),
        ("gzip", gzip.compress(BODY) + b"more"),
        ("gzip", b""),
        ("deflate", b"\x78"),
        ("br", BODY),
        ("gzip, gzip", gzip.compress(gzip.compress(BODY))),
    ],
)
async def test_a_body_that_is_not_encoded_as_it_says_is_the_callers_fault(
    start: Start, encoding: str, sent: bytes
) -> None:
    server = await start()
    answer = await server.encode(sent, **{"Content-Encoding": encoding})
    assert (answer.status, answer.code) == (400, "bad_request")
    assert answer.message.startswith("body: ")
    await server.until_load(inFlight=0, inFlightBytes=0)


async def test_a_body_that_inflates_beyond_the_limit_is_refused_and_stops_nobody_else(start: Start) -> None:
    server = await start("--max-body-bytes=4000000")
    part = zlib.compressobj(level=9, wbits=-zlib.MAX_WBITS)
    zeros = part.compress(bytes(20_000_000)) + part.flush(zlib.Z_FULL_FLUSH)
    bomb = b"\x1f\x8b\x08\0\0\0\0\0\0\x03" + zeros * (3_900_000 // len(zeros))
    reader, writer = await connect(server)
    head = f"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: {len(bomb)}\r\n\r\n"
    writer.write(head.encode() + bomb)
    async with asyncio.timeout(20):
        began = perf_counter()
        answer = (await reader.readuntil(b"}}")).partition(b"\r\n\r\n")[2]
        assert json.loads(answer)["error"]["message"] == "body: more than 4000000 bytes; the limit is 4000000"
        assert (await server.get("/healthz")).status == 200
    # Inflated to its end, it would be 3.9 GB.
    assert perf_counter() - began < 3
    writer.close()


async def test_a_body_is_not_held_beside_its_media(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start()
    picture_file = base64.b64decode(picture(112, 56))
    padded = base64.b64encode(picture_file + bytes(-len(picture_file) % 3))

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"items": [{"modality": "image", "data": "' + padded
        zeros = b"AAAA" * 2**18
        for _ in range(16):
            yield zeros
        yield b'"}]}'

    tracemalloc.start()
    try:
        waiting = asyncio.create_task(server.encode(pieces()))
        await server.until_taken()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The picture has twelve of the sixteen million bytes of its body.
    assert held < 20_000_000
    await open_gate(server.model)
    assert (await waiting).status == 200
