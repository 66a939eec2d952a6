"""Memory: minutes of mixed traffic, callers who leave among it, and what the server's processes hold meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import aiohttp

from tests.bench import bodies
from tests.bench.bodies import FORM
from tests.bench.kit import Kit
from tests.bench.load import Load
from tests.bench.sides import Posted, ours
from tests.bench.statistics import Flatness, flatness

_CLIENTS = 8
_SAMPLE_SECONDS = 1.0
_SIZES = ((56, 56), (224, 224), (448, 336), (640, 480), (32, 400))
_ACCEPTS = ("*/*", "application/json", "multipart/mixed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """MB held by the server's processes together over seconds; how many requests ended how."""

    samples: list[tuple[float, float]]
    judged: Flatness
    answered: dict[str, int]

    @property
    def passed(self) -> bool:
        """Whether it stayed flat."""
        return self.judged.flat


def run(kit: Kit, seconds: float, folder: Path, say: Callable[[str], None]) -> Memory:
    """Serve mixed traffic for so long."""
    load = Load(body=kit.form(kit.tiny), content_type=FORM, clients=1)
    side = ours("memory", kit.checkpoint, load, None, "--engines=2", "--cache-bytes=33554432", "--max-items=4")
    with side.start(folder) as server:
        assert isinstance(server, Posted)
        samples, answered = asyncio.run(_traffic(server, seconds, say))
    return Memory(samples=samples, judged=flatness(samples), answered=answered)


async def _traffic(
    server: Posted, seconds: float, say: Callable[[str], None]
) -> tuple[list[tuple[float, float]], dict[str, int]]:
    begun = time.monotonic()
    end = begun + seconds
    answered: dict[str, int] = {}
    samples: list[tuple[float, float]] = []
    # Bodies are made beforehand: a pool that grows in this process would not be the server's.
    ready = [_body(random.Random(seed)) for seed in range(96)]
    async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as group:
        for seed in range(_CLIENTS):
            group.create_task(_client(session, server.url, ready, end, answered, random.Random(seed)))
        while time.monotonic() < end:
            samples.append((time.monotonic() - begun, sum(server.program.memory().values())))
            if len(samples) % 60 == 0:
                say(f"{samples[-1][0]:.0f} s: {samples[-1][1]:.0f} MB")
            await asyncio.sleep(min(_SAMPLE_SECONDS, seconds / 6))
    return samples, answered


def _body(chance: random.Random) -> tuple[bytes, str]:
    pictures = [bodies.noise(*chance.choice(_SIZES), seed=chance.randrange(64)) for _ in range(chance.randint(1, 4))]
    kind = chance.random()
    if kind < 0.05:
        return b'{"items": [{"modality": "image", "data": "aGVsbG8="}]}', "application/json"
    if kind < 0.1:
        return bodies.form(pictures * 4), FORM  # More items than are taken.
    return (bodies.document(pictures), "application/json") if kind < 0.5 else (bodies.form(pictures), FORM)


async def _client(
    session: aiohttp.ClientSession,
    url: str,
    ready: list[tuple[bytes, str]],
    end: float,
    answered: dict[str, int],
    chance: random.Random,
) -> None:
    while time.monotonic() < end:
        body, content_type = chance.choice(ready)
        leaves_after = chance.uniform(0.001, 0.05) if chance.random() < 0.2 else 60.0
        code = "left"
        with contextlib.suppress(TimeoutError, aiohttp.ClientError):
            async with asyncio.timeout(leaves_after):
                headers = {"Content-Type": content_type, "Accept": chance.choice(_ACCEPTS)}
                async with session.post(url, data=body, headers=headers) as response:
                    await response.read()
                    code = str(response.status)
        answered[code] = answered.get(code, 0) + 1
