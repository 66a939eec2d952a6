"""The client for event loops (asyncio).

Place: the shell around the pure modules; `synchronous` is the same for programs that wait. Must never: decide anything.
"""

from __future__ import annotations

import asyncio
import inspect
import random
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TypeVar

import httpx
import pydantic

from encoder_server.answers import Identity, Limits, Promises, Readiness
from encoder_server.client.bodies import Body
from encoder_server.client.calls import ENCODE, Call, Document, EncodeCall, Options
from encoder_server.client.failures import EncoderPoolError
from encoder_server.client.media import Item
from encoder_server.client.results import Embeddings
from encoder_server.client.retries import Retries

T = TypeVar("T")
M = TypeVar("M", bound=pydantic.BaseModel)


class AsyncClient:
    """Speaks with a server, or with a pool's Service, at `url`; tasks may share it. Close it, or use `async with`.

    A call with all its tries ends within `deadline_seconds`. `headers` go with
    every request. An answer of more than `most_answer_bytes` is not read. Every method raises EncoderPoolError.
    """

    def __init__(
        self,
        url: str,
        *,
        deadline_seconds: float = 120.0,
        connect_seconds: float = 5.0,
        retries: Retries | None = None,
        headers: Mapping[str, str] | None = None,
        verify: ssl.SSLContext | bool = True,
        most_answer_bytes: int = 2**30,
    ) -> None:
        self._options = Options(
            url=url,
            deadline_seconds=deadline_seconds,
            connect_seconds=connect_seconds,
            retries=retries or Retries(),
            headers=headers or {},
            most_answer_bytes=most_answer_bytes,
        )
        # Read once, and not at each new connection.
        self._tls = httpx.create_ssl_context(verify=verify)
        self._pool = self._connections()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.aclose()

    async def encode(
        self,
        items: Sequence[Item],
        *,
        on_promise: Callable[[Promises], Awaitable[None] | None] | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Return the items' embeddings, in their order.

        `on_promise` is called once, and awaited, when the number of tokens of each item is known: before the model
        runs. A later try must promise the same.
        """
        call = Call() if request_id is None else Call(request_id)
        promises = on_promise is not None
        encode = EncodeCall(items, call, promises=promises, most_bytes=self._options.most_answer_bytes)

        async def attempt(http: httpx.AsyncClient, left: float) -> Embeddings:
            async with self._answer(http, encode, left) as response:
                reading = encode.reading(response)
                async for piece in response.aiter_raw():
                    told = reading.feed(piece)
                    if told is not None and on_promise is not None:
                        encode.promised = told
                        waited = on_promise(told)
                        if inspect.isawaitable(waited):
                            await waited
                return reading.finish().after(call.tries)

        return await self._call(call, attempt)

    async def identity(self) -> Identity:
        """Return what a replica measured itself to be; through a Service, whichever answers."""
        return await self._get("/v1/identity", Identity)

    async def limits(self) -> Limits:
        """Return what a request may cost."""
        return await self._get("/v1/limits", Limits)

    async def ready(self) -> Readiness:
        """Return where a replica stands; `state` is READY where it serves. One that does not serve is no error."""
        return await self._get("/readyz", Readiness, 200, 503)

    async def _get(self, path: str, model: type[M], *statuses: int) -> M:
        call = Call()

        async def attempt(http: httpx.AsyncClient, left: float) -> M:
            timeout = self._options.timeout(left)
            async with http.stream("GET", self._options.at(path), headers=call.headers, timeout=timeout) as response:
                document = Document(response, call, model, statuses or (200,))
                async for piece in response.aiter_raw():
                    document.feed(piece)
                return document.finish()

        return await self._call(call, attempt)

    @asynccontextmanager
    async def _answer(self, http: httpx.AsyncClient, encode: EncodeCall, left: float) -> AsyncIterator[httpx.Response]:
        timeout = self._options.timeout(left)
        url, pieces = self._options.at(ENCODE), _pieces(encode.body)
        async with http.stream("POST", url, content=pieces, headers=encode.headers, timeout=timeout) as response:
            try:
                yield response
            except EncoderPoolError as error:
                if error.again:
                    # The replica behind it may be at fault: who comes next should meet another.
                    await response.extensions["network_stream"].aclose()
                raise

    async def _call(self, call: Call, attempt: Callable[[httpx.AsyncClient, float], Awaitable[T]]) -> T:
        clock = asyncio.get_running_loop().time
        ends = clock() + self._options.deadline_seconds
        while True:
            call.tries += 1
            try:
                return await self._try(call, attempt, max(0.001, ends - clock()), fresh=call.tries > 1)
            except EncoderPoolError as error:
                error.tries = call.tries
                left = ends - clock()
                pause = self._options.retries.pause(error, call.tries, left, random.random())  # noqa: S311 - no secret
                if pause is None:
                    raise
            await asyncio.sleep(pause)

    async def _try(
        self, call: Call, attempt: Callable[[httpx.AsyncClient, float], Awaitable[T]], left: float, *, fresh: bool
    ) -> T:
        try:
            async with asyncio.timeout(left) as limit:
                with call.told():
                    async with self._connected(fresh=fresh) as http:
                        return await attempt(http, left)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise call.out_of_time() from error

    @asynccontextmanager
    async def _connected(self, *, fresh: bool) -> AsyncIterator[httpx.AsyncClient]:
        """Give connections: the shared ones, or new ones for one try."""
        if not fresh:
            yield self._pool
            return
        async with self._connections() as http:
            yield http

    def _connections(self) -> httpx.AsyncClient:
        options = self._options
        return httpx.AsyncClient(verify=self._tls, headers=dict(options.headers), cookies=options.cookies)


async def _pieces(body: Body) -> AsyncIterator[bytes]:
    for piece in body.pieces:
        yield piece
