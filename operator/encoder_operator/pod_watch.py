"""The pods' list and watch: one stream of events that does not end and hides no gap.

Place: below kube_cluster. Must never: end, raise for what a new list repairs, or wait without a limit for an
API server that has gone silent.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any

from encoder_operator.api_requests import ApiRequests
from encoder_operator.cluster import PodChanged, PodEvent, PodsListed
from encoder_operator.errors import ClusterError, GoneError, UnavailableError

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 300
# Bookmarks come about once a minute, so silence of this length is a lost connection.
_SILENCE_SECONDS = 90.0
_FIRST_BACKOFF, _LAST_BACKOFF = 0.5, 30.0


async def watch_pods(requests: ApiRequests, path: str, selector: str) -> AsyncGenerator[PodEvent, None]:
    """List, then watch, the pods at `path` with these labels; after each gap, list again."""
    backoff = _FIRST_BACKOFF
    while True:
        try:
            pods, version = await requests.list_all(path, selector)
            yield PodsListed(pods=tuple(pods))
            backoff = _FIRST_BACKOFF
            # Closed here, so that the connection is gone as soon as nobody listens.
            async with aclosing(_until_gap(requests, path, selector, version)) as changes:
                async for change in changes:
                    yield change
        except ClusterError as error:
            # A watch that is too old is part of the protocol: list again at once.
            wait = 0.0 if isinstance(error, GoneError) else backoff * random.uniform(0.5, 1.5)  # noqa: S311
            _log.warning("pods are listed again in %.1f s: %s", wait, error)
            await asyncio.sleep(wait)
            backoff = min(backoff * 2, _LAST_BACKOFF)


async def _until_gap(requests: ApiRequests, path: str, selector: str, version: str) -> AsyncGenerator[PodChanged, None]:
    while True:
        query = {
            "watch": "1",
            "labelSelector": selector,
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(_WATCH_SECONDS),
        }
        async with requests.stream(path, query, _SILENCE_SECONDS) as lines:
            async for line in lines:
                event = _event(line)
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield PodChanged(deleted=event["type"] == "DELETED", pod=event["object"])


def _event(line: bytes) -> Mapping[str, Any]:
    try:
        event: Mapping[str, Any] = json.loads(line)
    except ValueError as error:
        raise UnavailableError(0, "a watch event was cut off") from error
    if event["type"] != "ERROR":
        return event
    status = event["object"]
    if status.get("code") == 410:
        raise GoneError(410, str(status.get("message")))
    raise UnavailableError(int(status.get("code") or 0), str(status.get("message")))
