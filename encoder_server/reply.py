"""A reply: the whole answer to a request that went well, head and body in one piece, handed to the connection at once.

Place: made by `routes` for POST /v1/encode, sent by `answering`. The framework's own response gathers its headers in a
dictionary, checks and serialises them, and writes them apart from the body, which is felt where a request's rows are
known. What is written here is fixed but for lengths, ids and the time.
Must never: be made for a status, a header or a protocol version that is not the common one: `fits` says for whom.
"""

from __future__ import annotations

import email.utils
import functools
import time

from aiohttp import HttpVersion11, web
from aiohttp.abc import AbstractStreamWriter

from encoder_server.connections import SERVER
from encoder_server.keys import REQUEST_ID_HEADER

_LARGE = 64 * 1024  # To copy so much costs as much as another write.


class Reply(web.StreamResponse):
    """An answer with status 200. `body` is in pieces; `request_id` must be one that is safe in a header."""

    def __init__(self, body: tuple[bytes | memoryview, ...], content_type: str, request_id: str) -> None:
        super().__init__()
        self._pieces = body
        self._type = content_type
        self._id = request_id
        self._size = 0

    @staticmethod
    def fits(request: web.BaseRequest) -> bool:
        """Say whether the answer to `request` may be one of these: of HTTP/1.1, on a connection that is kept."""
        return request.version == HttpVersion11 and request.keep_alive

    def send(self, request: web.BaseRequest) -> bool:
        """Write all of it; return whether it is on its way, or waits for a caller who does not read.

        Raises ConnectionResetError where the caller has left.
        """
        transport = request.transport
        if transport is None or transport.is_closing():
            raise ConnectionResetError
        pieces, length = self._pieces, sum(map(len, self._pieces))
        head = (
            f"HTTP/1.1 200 OK\r\nContent-Type: {self._type}\r\nContent-Length: {length}\r\n"
            f"{REQUEST_ID_HEADER}: {self._id}\r\nServer: {SERVER}\r\nDate: {_date(int(time.time()))}\r\n\r\n"
        ).encode()
        self._size = len(head) + length
        self._pieces = ()
        request.writer.output_size = self._size  # Whatever fails from here on, nobody answers a second time.
        if length <= _LARGE:
            transport.write(b"".join((head, *pieces)))
        else:
            transport.write(head)
            for piece in pieces:
                transport.write(piece)
        return transport.get_write_buffer_size() == 0

    @property
    def prepared(self) -> bool:
        """Whether it was sent."""
        return self._size > 0

    @property
    def keep_alive(self) -> bool:
        """True: it is made for connections that are kept."""
        return True

    @property
    def body_length(self) -> int:
        """Bytes that were sent, the head's as well."""
        return self._size

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        """Do nothing: it was sent."""
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        """Do nothing: it has ended."""


@functools.lru_cache(2)
def _date(second: int) -> str:
    return email.utils.formatdate(second, usegmt=True)
