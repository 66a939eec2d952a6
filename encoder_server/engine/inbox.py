"""The inbox: what the front has sent, and which items of the batch under way nobody waits for any more.

Place: between `process`, which takes one message after another, and the socket, which is looked at between stages.

Must never: wait while a batch is under way, or lose a message that it looked past.
"""

from __future__ import annotations

import select
import socket
from collections import deque

from encoder_server.engine.asides import Cancel
from encoder_server.engine.messages import Received, receive


class Inbox:
    """The messages from the front at the other end of a blocking `sock`."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._waiting: deque[Received] = deque()
        self._cancelled: dict[int, frozenset[int]] = {}

    def next(self) -> Received:
        """Return the next message, and wait for it; raises ConnectionLostError."""
        return self._waiting.popleft() if self._waiting else receive(self._sock)

    def cancelled(self, batch: int) -> frozenset[int]:
        """Return the items of `batch` that were cancelled until now, without waiting; raises ConnectionLostError."""
        while self._poll.poll(0):
            received = receive(self._sock)
            if isinstance(received.message, Cancel):
                self._cancelled = {received.message.batch: frozenset(received.message.items)}
            else:
                self._waiting.append(received)
        return self._cancelled.get(batch, frozenset())
