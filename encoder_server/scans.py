"""Scans: how often a JPEG goes over its pixels, counted before it is decoded.

Place: asked by `pictures` in the front and by the engine's decoders. Pure.

Each scan costs a decoder the whole picture again, and thirty bytes hold one: 160 kB take minutes, which would cost
the engine its life. A progressive file has ten or so.

Must never: decode, or be led past a scan by a length that no decoder would follow.
"""

from __future__ import annotations

import re

MOST = 64
"""Scans of one picture, in a second or so at 4096x4096 each way that a decoder goes about them."""

_START, _SCAN, _END = b"\xff\xd8", b"\xff\xda", 0xD9
# Codes below C0 are no markers in a JPEG; restarts, and what begins or ends nothing, have no length.
_MARKER = re.compile(rb"\xff([\xc0-\xcf\xd9-\xfe])")
_MOST_SEGMENTS = 4096


def too_many(data: bytes | memoryview) -> bool:
    """Return whether `data`, where it is a JPEG, has more than MOST scans, or too many segments to tell."""
    content = bytes(data)
    # Quick, and enough for nearly all: in what is coded, these two bytes are a scan's marker and nothing else.
    if not content.startswith(_START) or content.count(_SCAN) <= MOST:
        return False
    at = scans = 0
    for _ in range(_MOST_SEGMENTS):
        marker = _MARKER.search(content, at)
        if marker is None or marker[1][0] == _END:
            return False
        at = marker.end() + int.from_bytes(content[marker.end() : marker.end() + 2], "big")
        scans += marker[0] == _SCAN
        if scans > MOST:
            return True
    return True
