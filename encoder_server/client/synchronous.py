"""The client for programs that wait.

Place: the shell around the pure modules; `asynchronous` is the same for event loops. Must never: decide anything.
"""

from __future__ import annotations

import random
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import TracebackType
from typing import TypeVar

import httpx
import pydantic

from encoder_server.answers import Identity, Limits, Promises, Readiness
from encoder_server.client.calls import ENCODE, Call, Document, EncodeCall, Options
from encoder_server.client.deadlines import bounded, until
from encoder_server.client.failures import EncoderPoolError
from encoder_server.client.media import Item
from encoder_server.client.results import Embeddings
from encoder_server.client.retries import Retries

T = TypeVar("T")
M = TypeVar("M", bound=pydantic.BaseModel)


class Client:
    """Speaks with a server, or with a pool's Service, at `url`; threads may share it. Close it, or use it in `with`.

    A call with all its tries ends within `deadline_seconds` (and the time that a name takes to be looked up). `headers`
    go with every request. An answer of more than `most_answer_bytes` is not read. Every method raises EncoderPoolError.
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

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def encode(
        self,
        items: Sequence[Item],
        *,
        on_promise: Callable[[Promises], object] | None = None,
        request_id: str | None = None,
    ) -> Embeddings:
        """Return the items' embeddings, in their order.

        `on_promise` is called once, when the number of tokens of each item is known: before the model runs. A later
        try must promise the same.
        """
        call = Call() if request_id is None else Call(request_id)
        promises = on_promise is not None
        encode = EncodeCall(items, call, promises=promises, most_bytes=self._options.most_answer_bytes)

        def attempt(http: httpx.Client, ends: float) -> Embeddings:
            with self._answer(http, encode, ends) as response:
                reading = encode.reading(response)
                for piece in response.iter_raw():
                    told = reading.feed(piece)
                    if told is not None and on_promise is not None:
                        encode.promised = told
                        on_promise(told)
                    if time.monotonic() > ends:
                        raise call.out_of_time()
                return reading.finish().after(call.tries)

        return self._call(call, attempt)

    def identity(self) -> Identity:
        """Return what a replica measured itself to be; through a Service, whichever answers."""
        return self._get("/v1/identity", Identity)

    def limits(self) -> Limits:
        """Return what a request may cost."""
        return self._get("/v1/limits", Limits)

    def ready(self) -> Readiness:
        """Return where a replica stands; `state` is READY where it serves. One that does not serve is no error."""
        return self._get("/readyz", Readiness, 200, 503)

    def _get(self, path: str, model: type[M], *statuses: int) -> M:
        call = Call()

        def attempt(http: httpx.Client, ends: float) -> M:
            timeout = self._options.timeout(max(0.001, ends - time.monotonic()))
            with http.stream("GET", self._options.at(path), headers=call.headers, timeout=timeout) as response:
                document = Document(response, call, model, statuses or (200,))
                for piece in response.iter_raw():
                    document.feed(piece)
                return document.finish()

        return self._call(call, attempt)

    @contextmanager
    def _answer(self, http: httpx.Client, encode: EncodeCall, ends: float) -> Iterator[httpx.Response]:
        timeout = self._options.timeout(max(0.001, ends - time.monotonic()))
        url, pieces = self._options.at(ENCODE), iter(encode.body.pieces)
        with http.stream("POST", url, content=pieces, headers=encode.headers, timeout=timeout) as response:
            try:
                yield response
            except EncoderPoolError as error:
                if error.again:
                    # The replica behind it may be at fault: who comes next should meet another.
                    response.extensions["network_stream"].close()
                raise

    def _call(self, call: Call, attempt: Callable[[httpx.Client, float], T]) -> T:
        ends = time.monotonic() + self._options.deadline_seconds
        while True:
            call.tries += 1
            try:
                with call.told(), until(ends), self._connected(fresh=call.tries > 1) as http:
                    return attempt(http, ends)
            except EncoderPoolError as error:
                error.tries = call.tries
                left = ends - time.monotonic()
                pause = self._options.retries.pause(error, call.tries, left, random.random())  # noqa: S311 - no secret
                if pause is None:
                    raise
            time.sleep(pause)

    @contextmanager
    def _connected(self, *, fresh: bool) -> Iterator[httpx.Client]:
        """Give connections: the shared ones, or new ones for one try."""
        if not fresh:
            yield self._pool
            return
        with self._connections() as http:
            yield http

    def _connections(self) -> httpx.Client:
        options = self._options
        return bounded(httpx.Client(verify=self._tls, headers=dict(options.headers), cookies=options.cookies))
