"""Replicas that share a Redis."""

import itertools
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from tests.http.redis_server import RedisServer
from tests.http.under_test import Checkpoint, Server, items, serving, until

REDIS = {"tier": "redis"}


async def usable(server: Server, value: int = 1) -> None:
    async def reached() -> bool:
        return await server.metric("encoder_cache_usable", **REDIS) == value

    await until(reached)


async def count(server: Server, name: str, **labels: str) -> float:
    return await server.metric(f"encoder_cache_{name}", **REDIS, **labels)


async def rows(server: Server, size: tuple[int, int] = (56, 56), **fields: Any) -> Any:
    """The item that the server answers with; the engine's rows are its size's, so that they tell what is right."""
    answer = await server.encode(items(size, **fields))
    assert answer.status == 200, answer.body
    return answer.json["items"][0]


class SharingPool:
    """Starts replicas; the URL of their Redis is in a file that all of them read."""

    def __init__(self, folder: Path, stack: AsyncExitStack) -> None:
        self._folder = folder
        self._stack = stack
        self._numbers = itertools.count(1)
        self.url_file = folder / "url"

    def point_to(self, redis: RedisServer | str) -> None:
        self.url_file.write_text(redis if isinstance(redis, str) else redis.url)

    async def start(self, *arguments: str, connected: bool = True, **script: Any) -> Server:
        folder = self._folder / f"replica-{next(self._numbers)}"
        folder.mkdir()
        checkpoint = Checkpoint(folder / "model")
        checkpoint.write(**script)
        options = ("--cache-bytes=1000000", f"--cache-redis-url-file={self.url_file}", *arguments)
        server = await self._stack.enter_async_context(serving(folder, checkpoint, *options))
        if connected:
            await usable(server)
        return server
