"""Evidence: what raw samples say of a replica's own window, and what a bad source never says."""

from __future__ import annotations

import math
import urllib.parse
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from encoder_operator.evidence import Prometheus, evidence, pod_samples
from encoder_operator.observation import Counts
from encoder_operator.window import Bounds, PodSamples, Sample, Series, counts
from tests.support.replicas import NOW, a_record, a_replica

BORN = 1000.0


def series(*values: float, start: float = 1010.0, step: float = 10.0) -> Series:
    return tuple(Sample(at=start + index * step, value=value) for index, value in enumerate(values))


def samples(ok: Series, count: Series = (), media: Series = (), **others: Series) -> PodSamples:
    level = tuple(Sample(at=each.at, value=0.0) for each in ok)
    checks = {("image", "ok"): ok, ("image", "count"): count or level}
    checks |= {("image", result): found for result, found in others.items()}
    return PodSamples(checks=checks, media=media)


def read(found: PodSamples, *, opened: float = 0.0, released: float | None = None, born: float = BORN) -> Counts | None:
    return counts(found, Bounds(container_started_at=born, released_at=released, opened=opened))


def totals(found: Counts | None) -> tuple[int, int] | None:
    return None if found is None else (found.good, sum(found.bad.values()))


@pytest.mark.parametrize(
    ("sentence", "found", "bounds", "expected"),
    [
        (
            "a window that opens with the container counts its first sample in full",
            samples(series(5, 10, 15, 20), series(1, 2, 3, 4)),
            {},
            (20, 4),
        ),
        (
            "the last value before the window is the baseline",
            samples(series(5, 10, 15, 20, 25, 30)),
            {"opened": 1025.0},
            (20, 0),
        ),
        (
            "with nothing before the window its first sample is the baseline",
            samples(series(500, 510, 515, 520)),
            {"opened": 1005.0},
            (20, 0),
        ),
        (
            "what was counted before the release is no baseline",
            samples(series(5, 50, 60, 70, 80, 90)),
            {"released": 1015.0},
            (40, 0),
        ),
        (
            "samples of the container before this one do not count",
            samples(series(900, 950, 5, 10, 15, 20)),
            {"born": 1025.0},
            (20, 0),
        ),
        (
            "a fall tells of a younger container than the status does, in all its counters",
            samples(series(900, 950, 5, 10, 15, 20), series(7, 7, 7, 8, 8, 8)),
            {},
            (20, 8),
        ),
        ("three samples are not enough", samples(series(5, 10, 15)), {}, None),
        ("four are enough, even where nothing grew", samples(series(0, 0, 0, 0)), {}, (0, 0)),
        ("NaN is no number of checks", samples(series(5, 10, math.nan, 20)), {}, None),
        ("no samples are no evidence", samples(()), {}, None),
        ("no judged counter is no evidence", PodSamples(checks={}, media=()), {}, None),
        (
            "values that are not finite are not judged either",
            samples(series(1, 2, 3, 4), nonfinite=series(9, 9, 9, 9)),
            {},
            (4, 0),
        ),
    ],
)
def test_a_window(sentence: str, found: PodSamples, bounds: dict[str, float], expected: tuple[int, int] | None) -> None:
    assert totals(read(found, **bounds)) == expected, sentence


def test_media_are_counted_since_the_container_started_whatever_the_window() -> None:
    found = read(samples(series(*range(1, 31)), media=series(*[5] * 30)), opened=1200.0)
    assert found is not None
    assert found.distinct_media == 5


def test_media_that_failed_before_the_release_do_not_count() -> None:
    found = read(samples(series(*range(1, 11)), media=series(*[5] * 5, *[6] * 5)), released=1035.0)
    assert found is not None
    assert found.distinct_media == 1


def test_points_tell_when_checks_fell() -> None:
    found = read(samples(series(5, 10, 15, 20), series(0, 0, 2, 3)))
    assert found is not None
    assert [(point.at, point.good, point.bad) for point in found.points] == [
        (1010.0, 5, 0),
        (1020.0, 10, 0),
        (1030.0, 15, 2),
        (1040.0, 20, 3),
    ]


def a_series(pod: str, result: str, values: Sequence[tuple[float, str]], **labels: str) -> dict[str, Any]:
    return {"metric": {"pod": pod, "modality": "image", "result": result, **labels}, "values": list(values)}


def test_two_scrapes_of_one_counter_count_once() -> None:
    values = [(NOW + step, str(step)) for step in range(4)]
    found = pod_samples([a_series("a", "ok", values, job="x"), a_series("a", "ok", values[1:], job="y")], [])
    assert [len(each) for each in found["a"].checks.values()] == [4]


class FakePrometheus:
    """An HTTP server that answers as a test says, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, list[str]]] = []
        self.answer: web.Response | None = None
        self.matrix: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.Response:
        self.asked.append(urllib.parse.parse_qs(await request.text()))
        if self.answer is not None:
            return web.Response(status=self.answer.status, body=self.answer.body)
        checks = "token_checks" in self.asked[-1]["query"][0]
        result = self.matrix if checks else []
        return web.json_response({"status": "success", "data": {"resultType": "matrix", "result": result}})


@pytest.fixture
async def server() -> AsyncIterator[tuple[FakePrometheus, Prometheus]]:
    fake = FakePrometheus()
    app = web.Application()
    app.router.add_post("/api/v1/query", fake.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    async with aiohttp.ClientSession() as session:
        yield fake, Prometheus(session, f"http://{host}:{port}")
    await runner.cleanup()


async def test_raw_samples_of_fresh_checks_are_asked_for_by_pod(server: tuple[FakePrometheus, Prometheus]) -> None:
    fake, prometheus = server
    fake.matrix = [a_series("a", "ok", [(NOW - 20 + 5 * step, str(step)) for step in range(4)])]
    replicas = [a_replica("a", container_started_at=NOW - 25), a_replica("b.c")]
    found, problem = await evidence(prometheus, "models", replicas, 30, NOW)
    assert problem is None
    assert totals(found["a"]) == (3, 0)
    assert found["b.c"] is None
    assert [each["query"][0] for each in fake.asked] == [
        'encoder_token_checks_total{namespace="models",pod=~"a|b\\\\.c",source="fresh"}[90s]',
        'encoder_mismatched_media_total{namespace="models",pod=~"a|b\\\\.c"}[90s]',
    ]


async def test_the_window_begins_at_the_release_that_the_record_tells(
    server: tuple[FakePrometheus, Prometheus],
) -> None:
    fake, prometheus = server
    fake.matrix = [a_series("a", "ok", [(NOW - 20 + 2 * step, str(10 * step)) for step in range(10)])]
    replica = a_replica("a", cordon=a_record(released_at=NOW - 11))
    found, _ = await evidence(prometheus, "models", [replica], 30, NOW)
    assert totals(found["a"]) == (40, 0)


@pytest.mark.parametrize(
    ("sentence", "answer"),
    [
        ("an error", web.Response(status=503, body=b"down")),
        ("no JSON", web.Response(body=b"<html>")),
        ("another type of result", web.Response(body=b'{"status":"success","data":{"resultType":"vector"}}')),
        (
            "series without a pod",
            web.Response(body=b'{"status":"success","data":{"resultType":"matrix","result":[{}]}}'),
        ),
        ("nested without end", web.Response(body=b"[" * 100_000)),
        ("more than is read", web.Response(body=b" " * (17 * 1024 * 1024))),
    ],
)
async def test_a_source_that_answers_badly_leaves_all_unknown(
    server: tuple[FakePrometheus, Prometheus], sentence: str, answer: web.Response
) -> None:
    fake, prometheus = server
    fake.answer = answer
    found, problem = await evidence(prometheus, "models", [a_replica()], 30, NOW)
    assert found == {}, sentence
    assert problem is not None
    assert problem.startswith("Prometheus answered")


async def test_a_source_that_knows_no_replica_at_all_says_so(server: tuple[FakePrometheus, Prometheus]) -> None:
    fake, prometheus = server
    fake.matrix = []
    found, problem = await evidence(prometheus, "models", [a_replica(container_started_at=NOW - 600)], 30, NOW)
    assert found == {}
    assert problem is not None
    assert "no encoder_token_checks_total of these pods" in problem
    young = a_replica(container_started_at=NOW - 10)
    assert await evidence(prometheus, "models", [young], 30, NOW) == ({"a": None}, None)


async def test_a_window_that_holds_too_few_scrapes_says_so(server: tuple[FakePrometheus, Prometheus]) -> None:
    fake, prometheus = server
    fake.matrix = [a_series("a", "ok", [(NOW - 85 + 30 * step, "9") for step in range(3)])]
    found, problem = await evidence(prometheus, "models", [a_replica(container_started_at=NOW - 600)], 60, NOW)
    assert found == {"a": None}
    assert problem == "Prometheus has too few samples of the last 60 s: a window must hold four scrapes"


async def test_a_source_that_is_down_leaves_all_unknown() -> None:
    async with aiohttp.ClientSession() as session:
        found, problem = await evidence(Prometheus(session, "http://127.0.0.1:1"), "models", [a_replica()], 30, NOW)
    assert found == {}
    assert problem == "Prometheus cannot be asked: ClientConnectorError"
