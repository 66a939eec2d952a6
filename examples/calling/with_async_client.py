"""Encode many pictures at a time with the async client, each with its own result or error."""

import asyncio
from pathlib import Path

from encoder_server.client import AsyncClient, CallerError, Image


async def main(picture: bytes) -> None:
    """Send ten requests at once; a server that is full is asked again, later and over another connection."""
    async with AsyncClient("http://127.0.0.1:8000") as client:
        calls = (client.encode([Image(content)]) for content in [picture] * 9 + [b"no picture"])
        for found in await asyncio.gather(*calls, return_exceptions=True):
            if isinstance(found, CallerError):
                print("refused:", found.message)
            elif isinstance(found, BaseException):
                raise found
            else:
                print("tokens:", found.items[0].tokens, "after tries:", found.tries)


asyncio.run(main(Path("picture.png").read_bytes()))
