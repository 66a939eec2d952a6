"""The full app over a stand-in engine."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.http.redis_server import RedisServer, redis_running
from tests.http.sharing_pool import SharingPool
from tests.http.under_test import Checkpoint, Server, Start, serving


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    made = Checkpoint(tmp_path / "model")
    made.write()
    return made


@pytest.fixture
async def start(tmp_path: Path, checkpoint: Checkpoint) -> AsyncIterator[Start]:
    """Start a server: see `serving` for the arguments."""
    async with AsyncExitStack() as stack:

        async def begin(*arguments: str, in_pool: bool = False, state: str = "READY") -> Server:
            server = serving(tmp_path, checkpoint, *arguments, in_pool=in_pool, state=state)
            return await stack.enter_async_context(server)

        yield begin


@pytest.fixture
async def redis(tmp_path: Path) -> AsyncIterator[RedisServer]:
    async with redis_running(tmp_path / "redis") as server:
        yield server


@pytest.fixture
async def pool(tmp_path: Path, redis: RedisServer) -> AsyncIterator[SharingPool]:
    async with AsyncExitStack() as stack:
        made = SharingPool(tmp_path, stack)
        made.point_to(redis)
        yield made
