"""A link: one engine process and the socket to it.

Place: below `engines`, which decides when to start and end one. Must never: block the event loop, share a
process with another link, or decide anything.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import subprocess
import sys
from collections.abc import Sequence

from encoder_server import aside
from encoder_server.engine import messages

_LOG = logging.getLogger(__name__)
_LEAVE_SECONDS = 2.0
_DIE_SECONDS = 10.0


class Link:
    """An engine process that was spawned and may be spoken to; made by `spawn`.

    `lost` is done as soon as the engine has closed its end, whether anybody is listening or not.
    """

    def __init__(self, process: subprocess.Popen[bytes], sock: socket.socket) -> None:
        self._process = process
        self._sock = sock
        self._loop = asyncio.get_running_loop()
        self._arrived: asyncio.Queue[messages.Received | None] = asyncio.Queue()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(sock, self._read)

    @classmethod
    async def spawn(cls, command: Sequence[str], arguments: Sequence[str]) -> Link:
        """Start `command --fd N arguments...` in a session of its own; raises OSError where it cannot start.

        A session of its own, because an interrupt typed at a terminal must not end engines before the front
        has finished what it accepted.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            spawning = asyncio.create_task(
                asyncio.to_thread(
                    subprocess.Popen,
                    [*command, "--fd", str(theirs.fileno()), *arguments],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=sys.stderr.fileno(),
                    start_new_session=True,
                )
            )
            try:
                process = await asyncio.shield(spawning)
            except BaseException:
                ours.close()
                await _undo(spawning)
                raise
        ours.setblocking(False)
        return cls(process, ours)

    def _read(self) -> None:
        try:
            received = messages.receive(self._sock)
        except BlockingIOError:
            return
        except messages.ConnectionLostError:
            self._lose()
        except Exception:
            # An engine that writes what cannot be read is as good as gone, and costs its batch alone.
            _LOG.exception("engine_message_unreadable")
            self._lose()
        else:
            self._arrived.put_nowait(received)

    def _lose(self) -> None:
        self._loop.remove_reader(self._sock)
        if not self.lost.done():
            self.lost.set_result(None)
        self._arrived.put_nowait(None)

    async def send(self, message: messages.Message, blobs: Sequence[bytes | memoryview] = ()) -> None:
        """Send a message, however long the engine takes to read what was sent before; raises ConnectionLostError.

        The media are copied: where they are large, in a thread.
        """
        size = sum(memoryview(blob).nbytes for blob in blobs)
        while True:
            try:
                return await aside.run(size, messages.send, self._sock, message, blobs)
            except BlockingIOError:
                await self._has_room()

    async def _has_room(self) -> None:
        """Return when the engine has read most of what waits for it; raises ConnectionLostError where it is gone."""
        room: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_writer(self._sock, _settle, room)
        try:
            await asyncio.wait({room, self.lost}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._sock.fileno() >= 0:
                self._loop.remove_writer(self._sock)
        if self.lost.done():
            raise messages.ConnectionLostError

    def hint(self, message: messages.Message) -> bool:
        """Send a small message at once; return False where it is dropped: the engine is gone, or reads nothing."""
        try:
            messages.send(self._sock, message)
        except (messages.ConnectionLostError, OSError):
            return False
        return True

    async def receive(self) -> messages.Received:
        """Return the next message; raises ConnectionLostError once the engine is gone and all is read."""
        received = await self._arrived.get()
        if received is None:
            self._arrived.put_nowait(None)
            raise messages.ConnectionLostError
        return received

    async def stop(self) -> bool:
        """Ask the engine to leave, give it a moment, then `kill`; for an engine with nothing in flight."""
        try:
            async with asyncio.timeout(_LEAVE_SECONDS):
                await self.send(messages.Stop())
            await asyncio.to_thread(self._process.wait, _LEAVE_SECONDS)
        except (messages.ConnectionLostError, OSError, subprocess.TimeoutExpired):  # TimeoutError is an OSError.
            pass
        return await self.kill()

    async def kill(self) -> bool:
        """End the process and close the socket; False where the process does not even die of a kill.

        One that has hung up is given a moment, because its own exit tells more than our kill.
        """
        if self.lost.done():
            with contextlib.suppress(subprocess.TimeoutExpired):
                await asyncio.to_thread(self._process.wait, _LEAVE_SECONDS)
        if self._sock.fileno() >= 0:
            self._loop.remove_reader(self._sock)
            self._sock.close()
        self._process.kill()
        try:
            await asyncio.to_thread(self._process.wait, _DIE_SECONDS)
        except subprocess.TimeoutExpired:
            _LOG.critical("engine_does_not_die", extra={"engine_pid": self._process.pid})
            return False
        return True

    @property
    def ending(self) -> str:
        """How the process ended, for people."""
        status = self._process.returncode
        if status is None:
            return "is still there"
        return f"was ended by signal {-status}" if status < 0 else f"exited with status {status}"


def _settle(waited_for: asyncio.Future[None]) -> None:
    if not waited_for.done():
        waited_for.set_result(None)


async def _undo(spawning: asyncio.Task[subprocess.Popen[bytes]]) -> None:
    """End a process whose start nobody waits for any more: a thread cannot be cancelled, so it started all the same."""
    with contextlib.suppress(OSError):
        process = await spawning
        process.kill()
        await asyncio.to_thread(process.wait)
