"""Bodies: media as the body of a request: a form, without base64 and without a copy of their bytes.

Frame lists alone go as JSON, for a form's part is one file. Place: made once for each call and sent at each try. Pure.
Must never: join a form's pieces.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from encoder_server.client.media import Frames, Item, Medium
from encoder_server.multipart import EXPECTED_TOKENS, FORM, ITEM


@dataclass(frozen=True, slots=True, kw_only=True)
class Body:
    """A body in pieces."""

    content_type: str
    pieces: tuple[bytes, ...] = field(repr=False)

    @property
    def length(self) -> int:
        """Bytes of the whole body."""
        return sum(map(len, self.pieces))


def fill(items: Sequence[Item], boundary: str) -> Body:
    """Return the body of `items`; `boundary` must be in none of them: a random one is not."""
    files = [item for item in items if isinstance(item, Medium)]
    if len(files) == len(items):
        return _form(files, boundary)
    body = json.dumps({"items": [_fields(item) for item in items]}).encode()
    return Body(content_type="application/json", pieces=(body,))


def _form(items: Sequence[Medium], boundary: str) -> Body:
    pieces: list[bytes] = []
    for item in items:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{ITEM}"\r\n'
        head += f"Content-Type: {item.modality}/octet-stream\r\n"
        if item.expected_tokens is not None:
            head += f"{EXPECTED_TOKENS}: {item.expected_tokens}\r\n"
        pieces += [head.encode() + b"\r\n", item.content, b"\r\n"]
    pieces.append(f"--{boundary}--\r\n".encode())
    return Body(content_type=f'{FORM}; boundary="{boundary}"', pieces=tuple(pieces))


def _fields(item: Item) -> dict[str, Any]:
    fields: dict[str, Any] = {"modality": item.modality}
    if isinstance(item, Frames):
        fields["frames"] = [_text(frame) for frame in item.frames]
        if item.fps is not None:
            fields["fps"] = item.fps
    else:
        fields["data"] = _text(item.content)
    if item.expected_tokens is not None:
        fields["expected_tokens"] = item.expected_tokens
    return fields


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode("ascii")
