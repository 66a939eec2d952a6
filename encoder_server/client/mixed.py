"""Mixed: the parts of a multipart/mixed answer, as they come.

Place: inside `reading`. Pure. The first part must be read before the second begins, so its end is known by its
Content-Length, which the server states for each. Must never: hold more than was allowed.
"""

from __future__ import annotations

import email.message
import re
from dataclasses import dataclass

_LONGEST_HEAD = 8192
# As RFC 2046 has it, without the spaces; whatever else a header's grammar would allow, no server here sends.
_BOUNDARY = re.compile(r"""; *boundary=("?)([A-Za-z0-9'()+_,./:=?-]{1,70})\1 *(;|$)""")


class BrokenError(ValueError):
    """The parts cannot be told apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One part: `status` is that of an error."""

    content_type: str
    status: int | None
    body: bytes


class Parts:
    """Takes pieces of an answer, gives its parts."""

    def __init__(self, content_type: str, most_bytes: int) -> None:
        boundary = _BOUNDARY.search(content_type)
        if boundary is None:
            raise BrokenError("the answer states no boundary")
        self._delimiter = f"--{boundary[2]}".encode()
        self._most_bytes = most_bytes
        self._held = bytearray()
        self.ended = False

    def feed(self, piece: bytes) -> list[Part]:
        """Return the parts that are whole now; raises BrokenError."""
        self._held += piece
        found: list[Part] = []
        while not self.ended and (part := self._next()) is not None:
            found.append(part)
        return found

    def _next(self) -> Part | None:
        held, delimiter = self._held, self._delimiter
        if held.startswith(delimiter + b"--"):
            self.ended = True
            return None
        end = held.find(b"\r\n\r\n")
        if end < 0:
            if len(held) > _LONGEST_HEAD:
                raise BrokenError("a part has no end of its headers")
            return None
        if not held.startswith(delimiter + b"\r\n"):
            raise BrokenError("a part does not begin where the one before it ends")
        headers = _headers(held[len(delimiter) + 2 : end].decode("latin-1"))
        length = _number(headers.get("content-length"))
        if length is None or length > self._most_bytes:
            raise BrokenError("a part does not state its length, or is longer than is read here")
        start, stop = end + 4, end + 4 + length
        if len(held) < stop + 2:
            return None
        part = Part(
            content_type=headers.get_content_type(),
            status=_number(headers.get("x-status")),
            body=bytes(memoryview(held)[start:stop]),
        )
        self._held = held[stop + 2 :]
        return part


def _headers(text: str) -> email.message.Message:
    return email.message_from_string(f"{text.strip()}\r\n\r\n")


def _number(text: str | None) -> int | None:
    text = (text or "").strip()
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 15 else None
