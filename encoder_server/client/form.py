"""The form: media as the body of a request, without base64, and without a copy of their bytes.

Place: made once for each call and sent at each try. Pure. Must never: join the parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from encoder_server.client.media import Medium
from encoder_server.multipart import EXPECTED_TOKENS, FORM, ITEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """A body in pieces."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)

    @property
    def length(self) -> int:
        """Bytes of the whole body."""
        return sum(map(len, self.pieces))


def fill(items: Sequence[Medium], boundary: str) -> Form:
    """Return the form of `items`; `boundary` must be in none of them: a random one is not."""
    pieces: list[bytes] = []
    for item in items:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{ITEM}"\r\n'
        head += f"Content-Type: {item.modality}/octet-stream\r\n"
        if item.expected_tokens is not None:
            head += f"{EXPECTED_TOKENS}: {item.expected_tokens}\r\n"
        pieces += [head.encode() + b"\r\n", item.content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return Form(content_type=f'{FORM}; boundary="{boundary}"', pieces=tuple(pieces))
