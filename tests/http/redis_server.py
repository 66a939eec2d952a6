"""A real Redis for a test, that may be stopped, killed and started again."""

import asyncio
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import redis.asyncio

from tests.http.under_test import until

SCOPE = "encoderpool:EPC2:local:"


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


class RedisServer:
    """One redis-server on a port of its own; `client` looks into it as nobody in the pool does."""

    def __init__(self, folder: Path, password: str | None) -> None:
        self._folder = folder
        self._password = password
        self._process: asyncio.subprocess.Process | None = None
        self.port = free_port()
        secret = "" if password is None else f":{password}@"
        self.url = f"redis://{secret}127.0.0.1:{self.port}/0"
        self.client = redis.asyncio.Redis.from_url(self.url)

    async def start(self, *arguments: str) -> None:
        program = shutil.which("redis-server")
        assert program, "redis-server is missing on this machine: tests/cluster/cluster packages installs it"
        self._folder.mkdir(exist_ok=True)
        options = [f"--port {self.port}", "--bind 127.0.0.1", "--save ''", "--appendonly no", f"--dir {self._folder}"]
        options += [] if self._password is None else [f"--requirepass {self._password}"]
        words = [word.strip("'") for each in (*options, *arguments) for word in each.split(" ")]
        words += ["--logfile", str(self._folder / "log")]
        self._process = await asyncio.create_subprocess_exec(program, *words)
        await until(self._answers)

    async def _answers(self) -> bool:
        try:
            return bool(await self.client.ping())
        except redis.RedisError:
            return False

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)

    async def kill(self) -> None:
        if self._process is not None:
            self.signal(signal.SIGKILL)
            await self._process.wait()
            self._process = None

    async def entries(self) -> list[str]:
        return sorted([key.decode() async for key in self.client.scan_iter(f"{SCOPE}entry:*")])

    async def value(self, key: str) -> bytes:
        found = await self.client.get(key)
        assert isinstance(found, bytes)
        return found

    async def until_entries(self, count: int) -> list[str]:
        async def there() -> Any:
            found = await self.entries()
            return len(found) == count and (found or [""])

        found: list[str] = await until(there)
        return found


@asynccontextmanager
async def redis_running(folder: Path, *arguments: str, password: str | None = None) -> AsyncIterator[RedisServer]:
    server = RedisServer(folder, password)
    try:
        await server.start(*arguments)
        yield server
    finally:
        await server.client.aclose()
        await server.kill()
