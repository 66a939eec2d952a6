"""Connections: which of them carry a request, so that the others can be closed when the server leaves.

Place: around every request in `app`. Must never: cut a connection in the middle of an answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from aiohttp.web_protocol import RequestHandler


class Connections:
    """The connections of one app that are busy."""

    def __init__(self) -> None:
        self._busy: set[RequestHandler] = set()

    @contextmanager
    def busy(self, connection: RequestHandler) -> Iterator[None]:
        """Hold `connection` busy until its answer is written."""
        self._busy.add(connection)
        try:
            yield
        finally:
            self._busy.discard(connection)

    def close_idle(self, connections: Iterable[RequestHandler]) -> None:
        """Close those of `connections` that are not busy.

        The web framework's own `close` leaves an idle connection open with nobody listening on it.
        """
        for connection in connections:
            if connection not in self._busy:
                connection.force_close()
