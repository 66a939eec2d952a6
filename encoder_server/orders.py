"""Orders: watch the pod's own files, tell the replica what they say, and do what is ordered.

Place: beside the pipeline, for the server's whole life; `probes` runs the probes that are ordered. Must never: obey an
order for another boot or one already done, stop watching because a file cannot be read, or block the event loop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import stat
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from encoder_server import identity
from encoder_server.downward import Order, Pod, read_pod
from encoder_server.probes import Probes
from encoder_server.replica import Replica
from encoder_server.settings import Settings

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_MOST_BYTES = 1 << 20
_MOST_DONE = 64

Flush = Callable[[Sequence[str]], Awaitable[None]]
"""Drops what these producers made, here at once; returns when nobody in the pool takes it for a hit any more."""
_Mark = tuple[tuple[int, int, int] | None, ...]


class Orders:
    """The watcher of one server; `run` watches until it is cancelled."""

    def __init__(self, settings: Settings, replica: Replica, probes: Probes, flush: Flush) -> None:
        self._flush = flush
        self._flushing: set[asyncio.Task[None]] = set()
        self._settings = settings
        self._replica = replica
        self._probes = probes
        directory = settings.pod_directory
        self._pod_files = () if directory is None else (directory / "labels", directory / "annotations")
        self._done: deque[str] = deque(maxlen=_MOST_DONE)

    async def run(self) -> None:
        """Look at the files ten times a second; read one only when it changed.

        A look is a handful of stat calls on a memory file system: far cheaper than a thread. The kubelet
        swaps a whole directory at once behind a symbolic link, which stat follows, so the inode tells.
        """
        seen: _Mark | None = None
        try:
            while True:
                mark = self._mark()
                if mark != seen:
                    seen = mark
                    await self._look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for task in self._flushing:
                task.cancel()
            await asyncio.gather(*self._flushing, return_exceptions=True)

    def _mark(self) -> _Mark:
        expected = self._settings.expected_identity
        return tuple(map(_stat, (*self._pod_files, *(() if expected is None else (expected,)))))

    async def _look(self) -> None:
        if self._pod_files:
            texts = [await asyncio.to_thread(_read, path) for path in self._pod_files]
            labels, annotations = ("" if text is None else text.decode(errors="replace") for text in texts)
            if texts[0] is None:
                _LOG.warning("pod_labels_unreadable")
            else:
                self._hear(read_pod(labels, annotations))
        expected = self._settings.expected_identity
        if expected is None:
            self._replica.compare_with(identity.Reference(named=False))
        else:
            text = await asyncio.to_thread(_read, expected)
            self._replica.compare_with(identity.read_reference(text, self._settings.revision))

    def _hear(self, pod: Pod) -> None:
        for name in pod.unreadable:
            _LOG.warning("order_unreadable", extra={"annotation": name})
        self._replica.cordon(cordoned=pod.cordoned)
        if pod.restart is not None and pod.restart.boot_id == self._replica.boot_id:
            self._replica.accept_restart(pod.restart.id)
        flush = pod.flush
        if flush is not None and flush.boot_id == self._replica.boot_id and flush.id not in self._done:
            self._done.append(flush.id)
            task = asyncio.create_task(self._run_flush(flush))
            self._flushing.add(task)
            task.add_done_callback(self._flushing.discard)
        probe = pod.probe
        if probe is None or probe.boot_id != self._replica.boot_id or probe.id in self._done:
            return
        self._done.append(probe.id)
        self._probes.obey(probe)

    async def _run_flush(self, order: Order) -> None:
        self._replica.begin_flush(order.id)
        await self._flush(order.producers)
        self._replica.end_flush(order.id)


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _read(path: Path) -> bytes | None:
    """Return what a file says, None where there is no such file. Anything else than a file, a pipe or the like, is
    never waited for: neither would a cordon be heard then, nor could the server leave."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            return file.read(_MOST_BYTES) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
