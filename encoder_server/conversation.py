"""The conversation with one engine: its greeting, and one batch after another, with what is told meanwhile.

Place: between `engines`, which says when and for how long, and the link to the process. Must never: answer a batch
with what was said of another, or bear with an engine that speaks out of turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from encoder_server.batch import Batch
from encoder_server.batcher import Batcher
from encoder_server.engine import messages
from encoder_server.engine.asides import Cancel, Progress
from encoder_server.link import Link


class LostError(Exception):
    """An engine is of no more use; the reason is for people."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def greet(link: Link, seconds: float, heard: Callable[[Progress], None]) -> messages.Hello:
    """Return the greeting of an engine that was started, and let `heard` hear how its start goes.

    Raises LostError where it refuses, or is not ready within `seconds`: then it names the stage that did not end.
    """
    stage = ""
    try:
        async with asyncio.timeout(seconds):
            while True:
                match (await link.receive()).message:
                    case Progress() as progress:
                        stage = f"; it was {progress.stage}"
                        heard(progress)
                    case messages.Hello() as hello:
                        return hello
                    case messages.Refused(detail=detail):
                        raise LostError(detail)
                    case other:
                        raise LostError(f"an engine greeted with {other.kind}")
    except TimeoutError:
        raise LostError(f"no engine was ready within {seconds:g} s{stage}") from None


async def converse(link: Link, batch: Batch, number: int, batcher: Batcher) -> None:
    """Have the batch that is called `number` done; raises ConnectionLostError or LostError."""
    await link.send(batch.message(number), batch.blobs)
    batch.watch(_canceller(link, batch, number))
    try:
        while True:
            received = await link.receive()
            match received.message:
                case messages.Promised(batch=told) as promised if told == number:
                    batch.publish(promised)
                case messages.Encoded(batch=told) | messages.Probed(batch=told) if told == number:
                    batcher.finish(batch, received)
                    return
                case other:
                    raise LostError(f"an engine sent {other.kind} out of turn")
    finally:
        batch.watch(None)


def _canceller(link: Link, batch: Batch, number: int) -> Callable[[], None]:
    """Return what tells the engine which items nobody waits for, once for all that are left in one go."""
    loop = asyncio.get_running_loop()
    told: tuple[int, ...] = ()
    due = False

    def tell() -> None:
        nonlocal told, due
        due = False
        now = batch.abandoned
        # An engine that reads nothing now, in the middle of a model's run, hears of all at the next one who leaves.
        if now != told and link.hint(Cancel(batch=number, items=now)):
            told = now

    def left() -> None:
        nonlocal due
        if not due:
            due = True
            loop.call_soon(tell)

    left()  # Somebody may have left while the batch was sent.
    return left
