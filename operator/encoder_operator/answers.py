"""Answers: what the readers of replicas and of Prometheus share: where to ask, and how much to read.

Place: below identities, direct and evidence. Must never: read an answer without a bound.
"""

from __future__ import annotations

import aiohttp

from encoder_operator import vocabulary

_CHUNK = 65536


class TooLargeError(ValueError):
    """The answer is longer than its reader's bound."""


def replica_url(address: str, path: str) -> str:
    """The URL of a path of the replica at this IP address (version 4 or 6)."""
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{vocabulary.PORT}{path}"


async def read_bounded(content: aiohttp.StreamReader, most: int) -> bytes:
    """All of the content, where that is at most so many bytes; TooLargeError otherwise."""
    body = bytearray()
    async for chunk in content.iter_chunked(_CHUNK):
        body += chunk
        if len(body) > most:
            raise TooLargeError(f"more than {most} bytes")
    return bytes(body)
