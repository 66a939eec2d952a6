"""Many callers at a time, of whom some leave, stop midway or read slowly, and a server to which things happen."""

import asyncio
import base64
import collections
import contextlib
import gc
import json
import os
import signal
import socket
import struct
from pathlib import Path
from typing import Any

import aiohttp

from tests.http.redis_server import RedisServer
from tests.http.sharing_pool import SharingPool, usable
from tests.http.test_batches import TOGETHER
from tests.http.test_process import running
from tests.http.under_test import Checkpoint, Client, Server, Start, items, picture, until

SIZES = [(56, 56), (56, 84), (84, 84), (112, 56), (140, 56)]
Size = tuple[int, int]


def right(found: list[Any], sizes: list[Size]) -> bool:
    """Whether these are the rows that a stand-in makes of pictures of these sizes."""
    counts = [width * height // 784 * 64 for width, height in sizes]
    return [base64.b64decode(item["data"]) for item in found] == [struct.pack(f"<{n}f", *range(n)) for n in counts]


class Crowd:
    """Callers of one server, and what they sent and were told."""

    def __init__(self, server: Client, session: aiohttp.ClientSession) -> None:
        self._client = Client(server.url, session)
        self._host, port = server.url.removeprefix("http://").split(":")
        self._port = int(port)
        self.sent = 0
        self.told: collections.Counter[str] = collections.Counter()

    async def call(self, number: int) -> None:
        """Send one request; its answer must be one that fits it, and its rows must be right."""
        sizes = [SIZES[(number + at) % len(SIZES)] for at in range(1 + number % 3)]
        # Some of them are cached.
        pictures = [picture(*size, shade=number * 7 % 256) for size in sizes]
        body: Any = {"items": [{"modality": "image", "data": each} for each in pictures]}
        fits = "ok"
        if number % 7 == 3:
            body["items"][-1]["expected_tokens"], fits = 99, "promise_mismatch"
        if number % 7 == 5:
            body["items"][0]["data"], fits = "AAAA", "bad_media"
        self.sent += 1
        answer = await self._client.encode(body, **{"X-Caller-Id": f"caller-{number % 9}"})
        code = "ok" if answer.status == 200 else answer.code
        self.told[code] += 1
        if code == "ok":
            assert right(answer.json["items"], sizes)
        if answer.status in (429, 503):
            assert int(answer.headers["Retry-After"]) > 0
        assert code in (fits, "overloaded", "cordoned", "engine_lost", "promise_timeout")

    async def misbehave(self, part: float = 1.0, read: int = 0) -> None:
        """Send this part of a request and read so many pieces of its answer, then hang up."""
        body = json.dumps(items(*SIZES * 3)).encode()
        head = "POST /v1/encode HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAccept: application/json\r\n"
        sock = socket.socket()
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        sock.setblocking(False)
        await asyncio.get_running_loop().sock_connect(sock, (self._host, self._port))
        reader, writer = await asyncio.open_connection(sock=sock, limit=256)
        writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body[: int(len(body) * part)])
        self.sent += 1
        with contextlib.suppress(ConnectionError):
            await writer.drain()
            for _ in range(read):
                await reader.read(64)
        writer.close()


async def counted(server: Client, sent: int) -> dict[str, float]:
    """Wait until the server has counted so many requests, and return them by code."""

    async def all_are() -> Any:
        text = (await server.get("/metrics")).body.decode()
        lines = [line for line in text.splitlines() if line.startswith("encoder_requests_total{")]
        codes = {line.split('"')[1]: float(line.rpartition(" ")[2]) for line in lines}
        return sum(codes.values()) >= sent and codes

    found: dict[str, float] = await until(all_are)
    return found


def open_files(process: int | str) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


async def test_every_request_of_a_crowd_is_answered_and_counted_and_nothing_of_it_is_left(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(hello=TOGETHER)
    server = await start("--engines=2", "--max-in-flight=12", "--cache-bytes=20000")
    await server.until_load(enginesReady=2)
    engines = (server.model / "pids").read_text().split()
    files, theirs = open_files("self"), [open_files(each) for each in engines]
    async with aiohttp.ClientSession() as session:
        crowd = Crowd(server, session)

        async def caller(which: int) -> None:
            for number in range(10):
                if which % 4:
                    await crowd.call(which * 10 + number)
                else:
                    await crowd.misbehave(part=(1.0, 1.0, 0.5)[number % 3], read=(0, 20, 0)[number % 3])

        async with asyncio.timeout(60):
            await asyncio.gather(*map(caller, range(40)))
        await server.until_load(inFlight=0, inFlightBytes=0, queued=0)
        codes = await counted(server, crowd.sent)
    assert sum(codes.values()) == crowd.sent == 400
    assert crowd.told["ok"] > 0
    assert crowd.told["overloaded"] > 0
    # What those were told who waited to hear it, and beside it what became of the others.
    mine = {code: codes[code] - crowd.told[code] for code in codes if codes[code] != crowd.told[code]}
    assert set(mine) <= {"ok", "cancelled", "bad_request", "overloaded"}
    assert all(count > 0 for count in mine.values())

    async def closed() -> bool:
        # What was received last of each engine is held until it sends again; the frames of cancelled tasks are cycles.
        gc.collect()
        return open_files("self") <= files + len(engines)

    await until(closed)
    assert [open_files(each) for each in engines] == theirs
    assert (server.model / "pids").read_text().split() == engines


async def test_more_connections_than_files_are_offered_at_first_cost_no_engine(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    async with running(tmp_path, checkpoint, before="ulimit -Sn 64") as server:
        host, port = server.url.removeprefix("http://").split(":")
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(100):
                _, writer = await asyncio.open_connection(host, int(port))
                stack.callback(writer.close)
                writer.write(b"POST /v1/encode HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\n")
            await server.until_load(inFlight=64)
            async with aiohttp.ClientSession() as session:
                assert (await Client(server.url, session).encode(items((56, 56)))).code == "overloaded"
        await server.until_load(inFlight=0)
        assert (await server.encode(items((56, 56)))).status == 200
        assert await server.metric("encoder_engine_restarts_total") == 0


async def test_whatever_happens_to_a_server_nobody_gets_a_wrong_row_or_waits_beyond_the_deadline(
    pool: SharingPool, redis: RedisServer
) -> None:
    server = await pool.start("--engines=2", "--deadline-seconds=2", "--grace-seconds=0.2", hello=TOGETHER)
    await server.until_load(enginesReady=2)
    over = asyncio.Event()
    async with aiohttp.ClientSession() as session:
        crowd = Crowd(server, session)

        async def caller(which: int) -> None:
            number = which
            while not over.is_set():
                async with asyncio.timeout(15):  # A machine that is loaded answers late; nothing here waits as long.
                    await crowd.call(number)
                number += 30

        async with asyncio.TaskGroup() as group:
            for which in range(30):
                group.create_task(caller(which))
            await break_everything(server, redis)
            over.set()
    assert {"ok", "cordoned", "promise_mismatch", "bad_media"} <= set(crowd.told)
    await server.until_load(inFlight=0, inFlightBytes=0, queued=0)
    for size in SIZES:
        assert right((await server.encode(items(size))).json["items"], [size])
    assert await server.metric("encoder_mismatched_media_total") == 0


async def break_everything(server: Server, redis: RedisServer) -> None:
    """Freeze an engine, cordon the server and let it back five times, freeze the Redis, kill the other engine; then
    wait until all is whole again."""
    frozen, killed = map(int, (server.model / "pids").read_text().split())
    os.kill(frozen, signal.SIGSTOP)
    for _ in range(5):
        server.pod.cordon()
        await server.until_state("CORDONED")
        server.pod.write({"encoderpool.io/serving": "true"}, {})
        await server.until_state("READY")
    redis.signal(signal.SIGSTOP)
    await usable(server, 0)
    os.kill(killed, signal.SIGKILL)

    async def both_were_started_anew() -> bool:
        return len((server.model / "pids").read_text().split()) >= 4

    await until(both_were_started_anew)
    redis.signal(signal.SIGCONT)
    await usable(server)
    await server.until_load(enginesReady=2)
    await server.until_state("READY")
