"""Progress: how far the start of an engine has come, told by whoever does the work.

Place: told by `weights`, `loading` and the engine's pipeline, and by an encoder of one's own where it likes; heard by
`engine.process`, which sends it to the front. Where nobody listens, nothing happens.

Must never: fail what it tells of, or be told so often that it costs time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from encoder_server.engine.asides import Progress, Stage

_LISTENER: ContextVar[Callable[[Progress], None] | None] = ContextVar("progress", default=None)


def tell(stage: Stage, done: int = 0, total: int = 0) -> None:
    """Say that the start is at `stage`, and has done so much of it; `total` 0: it cannot be told."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(Progress(stage=stage, done=done, total=total))


@contextmanager
def listening(listener: Callable[[Progress], None]) -> Iterator[None]:
    """Have `listener` hear what is told inside."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)
