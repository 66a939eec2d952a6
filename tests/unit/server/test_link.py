"""What is said to an engine that reads nothing waits for it; only one that is gone is lost."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator

import pytest

from encoder_server.engine import messages
from encoder_server.engine.asides import Cancel
from encoder_server.link import Link

# Stopped before it reads anything; it leaves when it has read all up to a message that is large.
ENGINE = """
import os, signal, socket, sys
sock = socket.socket(fileno=int(sys.argv[2]))
os.kill(os.getpid(), signal.SIGSTOP)
while sock.recv(1 << 20) != b"memory":
    pass
"""
MESSAGE = messages.Encode(batch=2, items=())
LARGE = bytes(2**20)


@pytest.fixture
async def link() -> AsyncIterator[Link]:
    made = await Link.spawn([sys.executable, "-c", ENGINE], [])
    yield made
    await made.kill()


def fill(link: Link) -> int:
    """Say as much as the socket takes; return how many messages that were."""
    count = 0
    while link.hint(Cancel(batch=1, items=tuple(range(count % 100)))):
        count += 1
        assert count < 100_000
    return count


async def test_a_batch_waits_until_an_engine_that_was_stopped_has_read_what_fills_its_socket(link: Link) -> None:
    assert fill(link) > 100
    sending = asyncio.create_task(link.send(MESSAGE, [LARGE]))
    done, _ = await asyncio.wait({sending}, timeout=0.1)
    assert not done
    assert not link.lost.done()
    link._process.send_signal(signal.SIGCONT)
    async with asyncio.timeout(10):
        await sending
        await link.lost
    await link.kill()
    assert link.ending == "exited with status 0"


async def test_who_waits_for_a_full_socket_hears_that_the_engine_has_died(link: Link) -> None:
    fill(link)
    sending = asyncio.create_task(link.send(MESSAGE))
    await asyncio.wait({sending}, timeout=0.1)
    link._process.kill()
    with pytest.raises(messages.ConnectionLostError):
        async with asyncio.timeout(10):
            await sending


async def test_an_engine_that_reads_nothing_is_ended_all_the_same(link: Link) -> None:
    fill(link)
    async with asyncio.timeout(10):
        assert await link.stop()
    assert link.ending == "was ended by signal 9"
