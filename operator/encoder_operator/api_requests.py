"""Requests to the API server: time limits, waiting when told to, and one table from statuses to errors.

Place: below kube_cluster and pod_watch, above the official async client. Must never: run without a time
limit, repeat a request that may have been carried out, or log a header.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager

import aiohttp
from kubernetes.aio.client import ApiClient
from kubernetes.aio.client.rest import RESTResponse

from encoder_operator.cluster import JsonObject
from encoder_operator.errors import (
    ClusterError,
    ConflictError,
    ForbiddenError,
    GoneError,
    RejectedError,
    ThrottledError,
    UnavailableError,
)

APPLY = "application/apply-patch+yaml"
MERGE = "application/merge-patch+json"
JSON = "application/json"

_LIMIT = aiohttp.ClientTimeout(total=30, sock_connect=10)
_PAGE = "500"
_THROTTLED_TRIES = 4
_LONGEST_WAIT = 15.0
_LIST_TRIES = 3


class ApiRequests:
    """Requests by path, through the official client: its addresses, certificates and tokens."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()  # type: ignore[no-untyped-call]

    async def send(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonObject | None = None,
        content_type: str = JSON,
        throttled_tries: int = _THROTTLED_TRIES,
    ) -> JsonObject | None:
        """The answer's object, None for 404; anything else that is not a success is a ClusterError."""
        for tries_left in reversed(range(throttled_tries)):
            try:
                return await self._send_once(method, path, query, body, content_type)
            except ThrottledError as error:
                # Refused before it was carried out: the one answer after which any request may be repeated.
                if not tries_left:
                    raise
                await asyncio.sleep(min(error.retry_after, _LONGEST_WAIT))
        raise AssertionError("unreachable")

    async def list_all(self, path: str, selector: str | None = None) -> tuple[list[JsonObject], str]:
        """All items of a list, page by page, and the version at which they were read."""
        for tries_left in reversed(range(_LIST_TRIES)):
            try:
                return await self._pages(path, selector)
            except GoneError:
                # A page's continuation is too old: only a list from the beginning is a whole one.
                if not tries_left:
                    raise
        raise AssertionError("unreachable")

    @asynccontextmanager
    async def stream(self, path: str, query: Mapping[str, str], silence: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """The lines of an answer without end; UnavailableError after `silence` seconds without any."""
        limit = aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=silence)
        with _no_answer():
            response = await self._request("GET", path, query, None, JSON, limit)
            try:
                if response.status >= 400:
                    raise _error(response, await response.response.read())
                yield response.response.content
            finally:
                # Closed, not released: what is left of a stream is never read.
                response.response.close()

    async def _pages(self, path: str, selector: str | None) -> tuple[list[JsonObject], str]:
        query = {"limit": _PAGE} | ({"labelSelector": selector} if selector else {})
        items: list[JsonObject] = []
        while True:
            page = await self.send("GET", path, query=query)
            if page is None:
                raise RejectedError(404, f"the API server has no {path}: is the CRD installed?")
            items += page["items"]
            proceed = page["metadata"].get("continue")
            if not proceed:
                return items, page["metadata"]["resourceVersion"]
            query["continue"] = proceed

    async def _send_once(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: JsonObject | None,
        content_type: str,
    ) -> JsonObject | None:
        with _no_answer():
            response = await self._request(method, path, query, body, content_type, _LIMIT)
            content = await response.response.read()
        if response.status == 404:
            return None
        if response.status >= 400:
            raise _error(response, content)
        try:
            answer: JsonObject = json.loads(content)
        except ValueError as error:
            raise UnavailableError(response.status, f"{method} {path}: the answer is not JSON") from error
        return answer

    async def _request(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None,
        body: JsonObject | None,
        content_type: str,
        limit: aiohttp.ClientTimeout,
    ) -> RESTResponse:
        method, url, headers, sent, _ = await self._client.param_serialize(
            method,
            path,
            query_params=list((query or {}).items()),
            header_params={"Content-Type": content_type, "Accept": JSON},
            body=body,
            auth_settings=["BearerToken"],
        )
        return await self._client.call_api(method, url, headers, sent, _request_timeout=limit)


@contextmanager
def _no_answer() -> Iterator[None]:
    try:
        yield
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise UnavailableError(0, f"no answer from the API server: {type(error).__name__}") from error


def _error(response: RESTResponse, content: bytes) -> ClusterError:
    status, message = response.status, _message(content) or str(response.reason)
    match status:
        case 401 | 403:
            return ForbiddenError(status, message)
        case 409:
            return ConflictError(status, message)
        case 410:
            return GoneError(status, message)
        case 429:
            return ThrottledError(status, message, _retry_after(response.headers))
    return UnavailableError(status, message) if status >= 500 else RejectedError(status, message)


def _message(content: bytes) -> str:
    try:
        status = json.loads(content)
    except ValueError:
        return ""
    return str(status.get("message") or "") if isinstance(status, dict) else ""


def _retry_after(headers: Mapping[str, str]) -> float:
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdigit() else 1.0
