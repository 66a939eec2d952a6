"""Direct scrapes: whose counters are believed, how long they are kept, and what a bad replica cannot do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from encoder_operator import vocabulary
from encoder_operator.direct import Direct, period, remember
from encoder_operator.evidence import EvidenceError, evidence
from encoder_operator.metrics_page import Page, Reading, parse_page
from encoder_operator.observation import Counts, Replica
from tests.support.replicas import NOW, a_replica

WINDOW = 30


def a_page(ok: int, *, count: int = 0, media: int = 0, uid: str = "uid-a", boot: str = "boot-1") -> str:
    """The exposition text of a replica, as the server writes it."""
    return f"""# HELP encoder_token_checks_total Items checked.
# TYPE encoder_token_checks_total counter
encoder_token_checks_total{{modality="image",result="ok",source="fresh"}} {ok}.0
encoder_token_checks_total{{modality="image",result="count",source="fresh"}} {count}.0
encoder_token_checks_total{{modality="image",result="ok",source="probe"}} 5.0
# TYPE encoder_mismatched_media_total counter
encoder_mismatched_media_total {media}.0
# TYPE encoder_stage_seconds histogram
encoder_stage_seconds_bucket{{le="0.001",stage="media"}} 7.0
# TYPE encoder_identity_info gauge
encoder_identity_info{{boot_id="{boot}",fingerprint="9f",pod_uid="{uid}",revision="5d41402abc"}} 1.0
"""


def test_fresh_checks_alone_are_read_with_whose_they_are() -> None:
    assert parse_page(a_page(7, count=2, media=1)) == Page(
        pod_uid="uid-a", boot_id="boot-1", checks={("image", "ok"): 7.0, ("image", "count"): 2.0}, media=1.0
    )


@pytest.mark.parametrize(
    ("sentence", "text"),
    [
        ("nothing", ""),
        ("a page of something else", "<html>encoder_token_checks_total{"),
        ("a label that does not end", 'encoder_identity_info{pod_uid="'),
        ("no value", "encoder_mismatched_media_total"),
        ("a replica that has not measured itself", a_page(1).replace("encoder_identity_info", "other")),
        ("two pods", a_page(1) + a_page(1, uid="uid-b")),
        ("no count of media", a_page(1).replace("encoder_mismatched_media_total", "other")),
    ],
)
def test_what_is_no_page_of_one_measured_replica_is_refused(sentence: str, text: str) -> None:
    with pytest.raises(ValueError, match="not the"):
        parse_page(text)


def a_reading(at: float, *, boot: str = "boot-1") -> Reading:
    return at, Page(pod_uid="uid-a", boot_id=boot, checks={}, media=0.0)


def times(readings: list[Reading]) -> list[float]:
    return [at for at, _ in readings]


def test_another_boot_makes_earlier_readings_void() -> None:
    readings = [a_reading(1.0), a_reading(2.0)]
    remember(readings, a_reading(3.0, boot="boot-2"), WINDOW)
    assert times(readings) == [3.0]


def test_what_lies_long_before_the_window_is_forgotten() -> None:
    readings = [a_reading(1.0), a_reading(100.0)]
    remember(readings, a_reading(150.0), WINDOW)
    assert times(readings) == [100.0, 150.0]


def test_memory_is_bounded_however_long_the_window() -> None:
    readings: list[Reading] = []
    for at in range(5000):
        remember(readings, a_reading(float(at)), 86400)
    assert len(readings) <= 512
    assert (readings[0][0], readings[-1][0]) == (0.0, 4999.0)


@pytest.mark.parametrize(("window", "least"), [(4, 4), (30, 4), (60, 4), (86400, 4)])
def test_every_window_holds_enough_readings_even_with_jitter(window: int, least: int) -> None:
    assert window // (1.2 * period(window)) > least


@dataclass(slots=True)
class Fleet:
    """Replicas behind one port of this machine: each round of the scraper is let go by the test."""

    direct: Direct
    pages: Callable[[], str | int]
    now: float = NOW
    asked: int = 0
    rounds: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    resting: asyncio.Event = field(default_factory=asyncio.Event)

    async def pause(self, seconds: float) -> None:
        self.resting.set()
        await self.rounds.acquire()

    async def handle(self, request: web.Request) -> web.Response:
        self.asked += 1
        page = self.pages()
        return web.Response(status=page) if isinstance(page, int) else web.Response(text=page)

    async def scrape(self, times: int) -> None:
        """Let so many rounds of one replica pass, a second each."""
        for _ in range(times):
            await self.resting.wait()
            self.resting.clear()
            self.now += 1.0
            self.rounds.release()
            await self.resting.wait()

    async def counts(self, *replicas: Replica) -> tuple[Counts | None, str | None]:
        """An evaluation of these replicas: the first one's counts, and what was wrong."""
        found, problem = await evidence(self.direct, "models", replicas, WINDOW, self.now)
        return found.get(replicas[0].name), problem


@pytest.fixture
async def fleet(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Fleet]:
    made: list[Fleet] = []

    async def handle(request: web.Request) -> web.Response:
        return await made[0].handle(request)

    app = web.Application()
    app.router.add_get("/metrics", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setattr(vocabulary, "PORT", runner.addresses[0][1])
    async with aiohttp.ClientSession() as session:
        direct = Direct(session, clock=lambda: made[0].now, pause=lambda seconds: made[0].pause(seconds))
        steps = itertools.count(1)
        made.append(Fleet(direct=direct, pages=lambda: a_page(10 * next(steps))))
        yield made[0]
        await direct.close()
    await runner.cleanup()


def here(**fields: Any) -> Replica:
    return a_replica("a", address="127.0.0.1", **fields)


async def test_a_window_is_unknown_until_it_holds_four_samples(fleet: Fleet) -> None:
    assert await fleet.counts(here()) == (None, None)
    await fleet.scrape(3)
    assert await fleet.counts(here()) == (None, None)
    await fleet.scrape(1)
    found, problem = await fleet.counts(here())
    assert found is not None
    assert (found.samples, found.good, problem) == (4, 30, None)


async def test_another_boot_begins_anew(fleet: Fleet) -> None:
    await fleet.counts(here())
    await fleet.scrape(5)
    fleet.pages = lambda: a_page(1, boot="boot-2")
    await fleet.scrape(3)
    assert await fleet.counts(here()) == (None, None)


async def test_another_pod_at_the_address_is_not_believed(fleet: Fleet) -> None:
    fleet.pages = lambda: a_page(100, uid="uid-other")
    await fleet.counts(here())
    await fleet.scrape(4)
    found, problem = await fleet.counts(here())
    assert (found, problem) == (None, "no replica's /metrics can be read: another pod answers at this address")


@pytest.mark.parametrize(
    ("answer", "told"),
    [(500, "status 500"), (302, "status 302"), ("<html>", "not the counters"), ("x" * 600_000, "more than")],
)
async def test_a_replica_that_answers_badly_stays_unknown(fleet: Fleet, answer: str | int, told: str) -> None:
    fleet.pages = lambda: answer
    await fleet.counts(here())
    await fleet.scrape(1)
    found, problem = await fleet.counts(here())
    assert found is None
    assert problem is not None
    assert told in problem


async def test_one_that_answers_is_judged_though_another_is_down(fleet: Fleet) -> None:
    down = a_replica("b", address="127.0.0.2")
    await fleet.counts(here(), down)
    await fleet.scrape(8)
    found, problem = await fleet.counts(here(), down)
    assert problem is None
    assert found is not None
    with pytest.raises(EvidenceError, match="ClientConnectorError"):
        await fleet.direct.samples("models", [down], WINDOW, fleet.now)


async def test_who_was_not_asked_about_for_a_window_is_forgotten(fleet: Fleet) -> None:
    await fleet.counts(here())
    await fleet.scrape(5)
    fleet.now += WINDOW + 1.0
    assert await fleet.counts(here()) == (None, None)
