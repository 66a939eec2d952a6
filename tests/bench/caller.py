"""A caller in this process, where what is sent changes from request to request: for growth and memory alone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence

import aiohttp

from tests.bench.bodies import FORM
from tests.bench.sides import Posted


def cost(server: Posted, bodies: Sequence[bytes], clients: int) -> float:
    """Return the server's CPU milliseconds for each of `bodies`; raises RuntimeError where one was not answered."""
    before = server.program.cpu_seconds()
    good = asyncio.run(_send_all(server.url, iter(bodies), clients))
    if good != len(bodies):
        raise RuntimeError(f"{len(bodies) - good} of {len(bodies)} requests were not answered with rows")
    return 1000 * (server.program.cpu_seconds() - before) / len(bodies)


async def _send_all(url: str, bodies: Iterator[bytes], clients: int) -> int:
    good = 0

    async def client(session: aiohttp.ClientSession) -> None:
        nonlocal good
        for body in bodies:
            async with session.post(url, data=body, headers={"Content-Type": FORM}) as response:
                await response.read()
                good += response.status == 200

    connector = aiohttp.TCPConnector(limit=clients)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as group:
        for _ in range(clients):
            group.create_task(client(session))
    return good
