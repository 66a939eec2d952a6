"""Inflate: a body that came compressed, within the limit that holds for a plain one.

Place: in `routes`, between a body as it came and the pipeline, in a thread. The web framework would do it on the
event loop, and go on for as long as the body lasts though it was refused: a body of a megabyte then stops all else
for seconds. Pure. Must never: make more than the limit, or take a body that is cut short.
"""

from __future__ import annotations

import zlib

from encoder_server.errors import BadRequestError, LimitExceededError

PLAIN = ("", "identity")
_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


def inflate(data: bytes, encoding: str, most: int) -> bytes:
    """Return what `data` holds, at most `most` bytes; `encoding` is the Content-Encoding, in lower case.

    Raises BadRequestError, or LimitExceededError where it holds more.
    """
    if encoding in PLAIN:
        return data
    if encoding not in _WINDOWS:
        raise BadRequestError("body: its Content-Encoding is not read here; gzip and deflate are")
    inflater = zlib.decompressobj(_window(encoding, data))
    try:
        plain = inflater.decompress(data, most + 1)
    except zlib.error:
        raise BadRequestError("body: is not encoded as its headers say") from None
    if len(plain) > most:
        raise LimitExceededError(f"body: more than {most} bytes; the limit is {most}")
    if not inflater.eof or inflater.unused_data:
        raise BadRequestError("body: its compressed content ends before its end, or goes on after it")
    return plain


def _window(encoding: str, data: bytes) -> int:
    """Return the window to read with. Deflate is a zlib stream by its definition, and comes as a raw one too."""
    raw = encoding == "deflate" and data[:1] and data[0] & 0x0F != zlib.DEFLATED
    return -zlib.MAX_WBITS if raw else _WINDOWS[encoding]
