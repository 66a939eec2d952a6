"""Evidence: replicas' counters as counts of each replica's own window, and Prometheus as a source of them.

Place: called by observe; `direct` is the other source, `window` counts. Must never: let a source that is down, slow
or wrong pass for evidence: what is not known is None, and why is told.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import aiohttp

from encoder_operator.answers import TooLargeError, read_bounded
from encoder_operator.metrics_page import CHECKS, JUDGED_SOURCE, MEDIA
from encoder_operator.observation import Counts, Replica
from encoder_operator.window import Bounds, PodSamples, Sample, Series, counts

# A baseline lies before the window: this much more is asked for.
LOOK_BACK_SECONDS = 60
_PODS_IN_ONE_QUERY = 50
# A replica that runs for so long is known to a Prometheus that was told of it.
_SCRAPED_BY_SECONDS = 120
_LARGEST_ANSWER = 16 * 1024 * 1024
_TIMEOUT = aiohttp.ClientTimeout(total=10.0, connect=3.0)


class EvidenceError(Exception):
    """The source of counters gave no usable answer; the message says why, the same for the same cause."""


class Counters(Protocol):
    """Where counters are read from. `sparse` is what to say where replicas run for long and a window of so many
    seconds is still short of samples; None where it only has to fill."""

    sparse: str | None

    async def samples(
        self, namespace: str, replicas: Sequence[Replica], window_seconds: int, now: float
    ) -> Mapping[str, PodSamples]:
        """Raw samples of these replicas' counters by pod name, over their window and some time before it;
        EvidenceError where there can be none."""


class Prometheus:
    """Asks Prometheus for raw samples: increases are counted here, resets and windows being each replica's own."""

    sparse: str | None = "Prometheus has too few samples of the last {} s: a window must hold four scrapes"

    def __init__(self, session: aiohttp.ClientSession, address: str) -> None:
        self._session = session
        self._url = f"{address}/api/v1/query"

    async def samples(
        self, namespace: str, replicas: Sequence[Replica], window_seconds: int, now: float
    ) -> Mapping[str, PodSamples]:
        """See `Counters`."""
        checks: list[Any] = []
        media: list[Any] = []
        pods, seconds = [each.name for each in replicas], window_seconds + LOOK_BACK_SECONDS
        for first in range(0, len(pods), _PODS_IN_ONE_QUERY):
            some = pods[first : first + _PODS_IN_ONE_QUERY]
            where = f"namespace={_quoted(namespace)},pod=~{_quoted('|'.join(map(re.escape, some)))}"
            source = _quoted(JUDGED_SOURCE)
            checks += await self._query(f"{CHECKS}{{{where},source={source}}}[{seconds}s]", now)
            media += await self._query(f"{MEDIA}{{{where}}}[{seconds}s]", now)
        if not checks and _run_for(replicas, now, 0):
            where = "is it to scrape them, with labels namespace and pod?"
            raise EvidenceError(f"Prometheus has no {CHECKS} of these pods: {where}")
        try:
            return pod_samples(checks, media)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise EvidenceError("Prometheus answered in a form that is not its own") from error

    async def _query(self, expression: str, now: float) -> list[Any]:
        form = {"query": expression, "time": f"{now:.3f}"}
        try:
            async with self._session.post(self._url, data=form, timeout=_TIMEOUT, allow_redirects=False) as answer:
                body = await read_bounded(answer.content, _LARGEST_ANSWER)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise EvidenceError(f"Prometheus cannot be asked: {type(error).__name__}") from error
        except TooLargeError as error:
            raise EvidenceError(f"Prometheus answered {error}") from error
        if status != 200:
            raise EvidenceError(f"Prometheus answered {status}")
        return _matrix(body)


async def evidence(
    counters: Counters, namespace: str, replicas: Sequence[Replica], window_seconds: int, now: float
) -> tuple[Mapping[str, Counts | None], str | None]:
    """Each replica's counts by pod name, and why there are none at all (None: there are)."""
    started = [each for each in replicas if each.container_started_at is not None]
    if not started:
        return {}, None
    try:
        found = await counters.samples(namespace, started, window_seconds, now)
    except EvidenceError as error:
        return {}, str(error)
    read: dict[str, Counts | None] = {}
    for replica in started:
        bounds = _bounds(replica, now - window_seconds)
        known = found.get(replica.name)
        read[replica.name] = None if known is None or bounds is None else counts(known, bounds)
    if found and counters.sparse and not any(read.values()) and _run_for(started, now, window_seconds):
        return read, counters.sparse.format(window_seconds)
    return read, None


def _run_for(replicas: Sequence[Replica], now: float, seconds: int) -> bool:
    """Whether one of them has run long enough for its counters of so many seconds to be known."""
    longest = max((now - (each.container_started_at or now) for each in replicas), default=0.0)
    return longest > seconds + _SCRAPED_BY_SECONDS


def pod_samples(checks: Sequence[Mapping[str, Any]], media: Sequence[Mapping[str, Any]]) -> Mapping[str, PodSamples]:
    """Prometheus' matrices by pod. Where two scrapes of one counter exist, the one with more samples speaks:
    the same checks must not count twice."""
    by_pod: dict[str, dict[tuple[str, str], Series]] = defaultdict(dict)
    failed: dict[str, Series] = {}
    for each in checks:
        metric, series = each["metric"], _series(each["values"])
        key = (str(metric.get("modality", "")), str(metric["result"]))
        known = by_pod[str(metric["pod"])]
        known[key] = max(known.get(key, ()), series, key=len)
    for each in media:
        pod = str(each["metric"]["pod"])
        failed[pod] = max(failed.get(pod, ()), _series(each["values"]), key=len)
    return {pod: PodSamples(checks=known, media=failed.get(pod, ())) for pod, known in by_pod.items()}


def _bounds(replica: Replica, opened: float) -> Bounds | None:
    if replica.container_started_at is None:
        return None
    released = replica.cordon.released_at if replica.cordon is not None else None
    return Bounds(container_started_at=replica.container_started_at, released_at=released, opened=opened)


def _series(values: Sequence[Sequence[Any]]) -> Series:
    return tuple(Sample(at=float(at), value=float(text)) for at, text in values)


def _matrix(body: bytes) -> list[Any]:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise EvidenceError("Prometheus answered something that is not JSON") from error
    match document:
        case {"status": "success", "data": {"resultType": "matrix", "result": list(result)}}:
            return result
        case _:
            raise EvidenceError("Prometheus answered in a form that is not its own")


def _quoted(text: str) -> str:
    """A PromQL string literal."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
