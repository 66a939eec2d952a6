"""Connections: those that have carried a request, so that they can be closed when the replica stops serving.

Place: filled by `app`'s middleware. Must never: keep a connection alive, or cut one in the middle of an answer.
"""

from __future__ import annotations

from weakref import WeakSet

from aiohttp.web_protocol import RequestHandler


class Connections:
    """The open connections of one app, held weakly."""

    def __init__(self) -> None:
        self._open: WeakSet[RequestHandler] = WeakSet()

    def add(self, connection: RequestHandler) -> None:
        """Remember a connection; again does nothing."""
        self._open.add(connection)

    def close(self) -> None:
        """Close those that idle now, and the others after their answer: they outlive a Service's endpoints."""
        for connection in list(self._open):
            connection.close()
