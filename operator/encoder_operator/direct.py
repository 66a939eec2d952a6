"""Direct: replicas' counters from their own /metrics, where there is no Prometheus to ask.

Place: one of the two `evidence.Counters`; `metrics_page` reads what was answered. Must never: keep a sample of
another pod or another boot, wait long for one replica, follow a redirect, or remember more than a window needs.

Each replica that an evaluation asks about is followed by a task of its own, until nobody asks any more. What was
scraped lives in memory alone: after a restart of the operator a window holds nothing, and is unknown until it
holds enough.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

import aiohttp

from encoder_operator import vocabulary
from encoder_operator.answers import read_bounded, replica_url
from encoder_operator.evidence import LOOK_BACK_SECONDS, EvidenceError
from encoder_operator.metrics_page import Page, Reading, parse_page, samples_of
from encoder_operator.observation import Replica
from encoder_operator.window import PodSamples

_AT_ONCE = 32
_LARGEST_ANSWER = 512 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=2.0, connect=1.0)
_MOST_READINGS = 512
_SHORTEST_PERIOD, _LONGEST_PERIOD = 0.4, 10.0
_READINGS_IN_A_WINDOW = 30
_JITTER = 0.2


@dataclass(slots=True)
class _Followed:
    """A replica whose counters are read again and again."""

    uid: str
    address: str
    window_seconds: int
    asked_at: float
    readings: list[Reading] = field(default_factory=list)
    problem: str | None = None


class Direct:
    """Reads GET /metrics of each replica at a steady, jittered pace, some of them at once."""

    sparse: str | None = None

    def __init__(
        self,
        session: aiohttp.ClientSession,
        *,
        clock: Callable[[], float],
        pause: Callable[[float], Awaitable[None]],
    ) -> None:
        self._session = session
        self._clock = clock
        self._pause = pause
        self._permits = asyncio.Semaphore(_AT_ONCE)
        self._followed: dict[str, _Followed] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def samples(
        self, namespace: str, replicas: Sequence[Replica], window_seconds: int, now: float
    ) -> Mapping[str, PodSamples]:
        """What was scraped of these replicas by now; EvidenceError where each of them failed to answer."""
        self._forget_others(now)
        followed = {
            each.name: self._follow(each.uid, each.address, window_seconds, now)
            for each in replicas
            if each.address is not None
        }
        problems = {each.problem for each in followed.values()}
        if problems and None not in problems:
            raise EvidenceError(f"no replica's {vocabulary.PATH_METRICS} can be read: {min(filter(None, problems))}")
        return {name: samples_of(each.readings) for name, each in followed.items() if each.readings}

    async def close(self) -> None:
        """Stop following."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _follow(self, uid: str, address: str, window_seconds: int, now: float) -> _Followed:
        known = self._followed.get(uid)
        if known is None or self._tasks[uid].done():
            known = _Followed(uid=uid, address=address, window_seconds=window_seconds, asked_at=now)
            self._followed[uid] = known
            self._tasks[uid] = asyncio.create_task(self._scrape_on(known), name=f"metrics of {uid}")
        known.address, known.window_seconds, known.asked_at = address, window_seconds, now
        return known

    def _forget_others(self, now: float) -> None:
        """A window is at least four evaluations long: who is not asked about for one of them is gone."""
        gone = [uid for uid, each in self._followed.items() if now - each.asked_at > each.window_seconds]
        for uid in gone:
            del self._followed[uid]
            self._tasks.pop(uid).cancel()

    async def _scrape_on(self, followed: _Followed) -> None:
        await self._pause(random.uniform(0.0, period(followed.window_seconds)))  # noqa: S311 - spreads load
        while True:
            async with self._permits:
                page = await self._read(followed)
            if page is not None:
                remember(followed.readings, (self._clock(), page), followed.window_seconds)
            jitter = random.uniform(1.0 - _JITTER, 1.0 + _JITTER)  # noqa: S311 - spreads load
            await self._pause(period(followed.window_seconds) * jitter)

    async def _read(self, followed: _Followed) -> Page | None:
        followed.problem, page = await self._ask(followed.address)
        if page is not None and page.pod_uid != followed.uid:
            followed.problem, page = "another pod answers at this address", None
        return page

    async def _ask(self, address: str) -> tuple[str | None, Page | None]:
        url = replica_url(address, vocabulary.PATH_METRICS)
        try:
            async with self._session.get(url, timeout=_TIMEOUT, allow_redirects=False) as answer:
                if answer.status != 200:
                    return f"status {answer.status}", None
                return None, parse_page((await read_bounded(answer.content, _LARGEST_ANSWER)).decode())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return type(error).__name__, None
        except ValueError as error:
            return str(error), None


def period(window_seconds: int) -> float:
    """Seconds between two readings, before jitter: a window holds several times the samples that it must."""
    return min(max(window_seconds / _READINGS_IN_A_WINDOW, _SHORTEST_PERIOD), _LONGEST_PERIOD)


def remember(readings: list[Reading], new: Reading, window_seconds: int) -> None:
    """Add a reading; another boot's are void, those long before the window go, and a long window is thinned."""
    at, page = new
    if readings and readings[-1][1].boot_id != page.boot_id:
        readings.clear()
    readings.append(new)
    oldest = at - window_seconds - LOOK_BACK_SECONDS
    readings[:] = [each for each in readings if each[0] >= oldest]
    if len(readings) > _MOST_READINGS:
        del readings[1 : _MOST_READINGS // 2 : 2]
