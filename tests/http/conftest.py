"""The full app over a stand-in engine."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from tests.http.under_test import Checkpoint, Server, serving


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    made = Checkpoint(tmp_path / "model")
    made.write()
    return made


@pytest.fixture
async def start(tmp_path: Path, checkpoint: Checkpoint) -> AsyncIterator[Callable[..., Awaitable[Server]]]:
    """Start a server: see `serving` for the arguments."""
    async with AsyncExitStack() as stack:

        async def begin(*arguments: str, **options: object) -> Server:
            return await stack.enter_async_context(serving(tmp_path, checkpoint, *arguments, **options))

        yield begin
