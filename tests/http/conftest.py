"""The full app over a stand-in engine."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

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
