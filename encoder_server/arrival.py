"""Arrival: a request's body on its way in.

Place: made by `routes`, read by the pipeline once the request is admitted. Must never: hold more of a body than it may
have, or keep what it gave away.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from encoder_server import inflate
from encoder_server.errors import BadRequestError, LimitExceededError


class Arrival:
    """The body of `request`, of at most `most` bytes, which is compressed as `encoding` says."""

    __slots__ = ("_encoding", "_most", "_request")

    def __init__(self, request: web.Request, encoding: str, most: int) -> None:
        self._request = request
        self._encoding = encoding
        self._most = most

    def here(self) -> bytes | None:
        """Return the body where all of it has come and it is not compressed; None: it must be read."""
        content = self._request.content
        if not content.is_eof() or content.exception() is not None or self._encoding not in inflate.PLAIN:
            return None
        if content.total_bytes > self._most:
            raise self._too_large()
        return content.read_nowait()

    async def read(self) -> bytes:
        """Return the body once it has come; raises BadRequestError, LimitExceededError or ConnectionResetError."""
        # Not by the framework's own `read`, which keeps what it read for as long as the request lives.
        parts: list[bytes] = []
        size = 0
        try:
            async for part in self._request.content.iter_any():
                parts.append(part)
                size += len(part)
                if size > self._most:
                    raise self._too_large()
        except (web.RequestPayloadError, ConnectionError):
            raise BadRequestError("body: ended before its end, or is not encoded as its headers say") from None
        except RuntimeError:
            if self._request.transport is not None:
                raise
            raise ConnectionResetError from None  # The connection made room for another before this was read.
        data = b"".join(parts)
        parts.clear()
        if self._encoding in inflate.PLAIN:
            return data
        return await asyncio.to_thread(inflate.inflate, data, self._encoding, self._most)

    def _too_large(self) -> LimitExceededError:
        return LimitExceededError(f"body: more than {self._most} bytes; the limit is {self._most}")
