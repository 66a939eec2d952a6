"""Connections: how many there are, which of them carry a request, and what is answered where none could be read.

Place: told of connections by the web framework, of requests by `answering`. A connection on which no whole head comes
is closed by the web framework's own clock (`--idle-seconds`). Must never: cut a connection in the middle of an answer
that is read, or let the web framework answer in its own words, which quote the caller's bytes.
"""

from __future__ import annotations

import asyncio
import logging
import resource
import uuid
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, Protocol, cast

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from encoder_server import errors, wire

_LOG = logging.getLogger(__name__)
SERVER = "encoder-server"
"""What every answer says that it is from."""
_NAME = {"Server": SERVER}


def raise_file_limit() -> None:
    """Let this process open as many files as its hard limit says: the soft one (often 1024) is less than a crowd takes,
    and where there are none left, what an engine sends cannot be received, so that it is lost."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Connections:
    """The connections of one app: those that are busy with a request, and those that wait for one.

    More than `most` are not kept: for each one more, the one that has waited longest is closed, however much of a
    request's head it has sent. Where none waits, the new one is heard, and `crowded` says that it is one too many:
    a probe of the server's health is answered all the same.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._busy: set[RequestHandler] = set()
        self._waiting: dict[RequestHandler, None] = {}

    @property
    def crowded(self) -> str | None:
        """A sentence, where more connections are open than should be."""
        count = len(self._busy) + len(self._waiting)
        return None if count <= self._most else f"{count} connections are open; the limit is {self._most}"

    def opened(self, connection: RequestHandler) -> None:
        """Hear of a new connection, and make room for it."""
        self._waiting[connection] = None
        longest = next(iter(self._waiting))
        if self.crowded is not None and longest is not connection:
            del self._waiting[longest]
            longest.force_close()

    def closed(self, connection: RequestHandler) -> None:
        """Hear that a connection is no more."""
        self._busy.discard(connection)
        self._waiting.pop(connection, None)

    def begin(self, connection: RequestHandler) -> None:
        """Hold `connection` busy with a request, until `end`."""
        if connection in self._waiting:
            del self._waiting[connection]
            self._busy.add(connection)

    def end(self, connection: RequestHandler) -> None:
        """Hear that the answer on `connection` is written, or will not be."""
        if connection in self._busy:
            self._busy.discard(connection)
            self._waiting[connection] = None

    def close_idle(self, connections: Iterable[RequestHandler]) -> None:
        """Close those of `connections` that are not busy.

        The web framework's own `close` leaves an idle connection open with nobody listening on it.
        """
        for connection in connections:
            if connection not in self._busy:
                connection.force_close()


class Around(Protocol):
    """What serves each request."""

    def serve(
        self, request: web.Request, handler: Callable[[Any], Awaitable[web.StreamResponse]]
    ) -> Coroutine[Any, Any, web.StreamResponse]:
        """Answer `request` by what `handler` makes of it."""
        ...


class Runner(web.AppRunner):
    """Runs an app on connections that answer in this server's words, whatever arrives, and are counted; each request
    is served by `around`, which is given the app's own handler."""

    def __init__(self, app: web.Application, connections: Connections, around: Around, **options: Any) -> None:
        super().__init__(app, **options)
        self._connections = connections
        self._around = around
        app.on_response_prepare.append(_sign)

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        # The framework has no place to say which kind of connection a server makes.
        server.__class__ = _Server
        cast(_Server, server).counted = self._connections
        handler = server.request_handler
        server.request_handler = lambda request: self._around.serve(cast(web.Request, request), handler)
        return server


async def _sign(request: web.Request, answer: web.StreamResponse) -> None:
    """Say whose answer it is; the framework would name itself, the language and their versions."""
    answer.headers.update(_NAME)


class _Server(web.Server):
    counted: Connections

    def __call__(self) -> RequestHandler:
        return _Connection(self, self.counted, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ("_counted",)

    def __init__(self, server: web.Server, counted: Connections, **options: Any) -> None:
        super().__init__(server, **options)
        self._counted = counted

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count it, and have every write wait until all is sent: what is idle then has nothing to be flushed, which
        a caller who does not read could put off for ever."""
        super().connection_made(transport)
        if isinstance(transport, asyncio.Transport):
            transport.set_write_buffer_limits(0)
        self._counted.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Count it no more."""
        self._counted.closed(self)
        super().connection_lost(exc)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never became a request of the app, or left it without an answer; not who has left."""
        if isinstance(exc, ConnectionError):
            raise exc
        request_id = uuid.uuid4().hex
        if status < 500:
            error: errors.EncoderServerError = errors.BadRequestError("the request is not HTTP that is read here")
            extra = {"request_id": request_id, "status": status, "kind": type(exc).__name__}
            _LOG.info("request_unreadable", extra=extra)
        else:
            error = errors.InternalError("an internal fault; the log has more")
            _LOG.error("request_crashed", extra={"request_id": request_id}, exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError
        headers = {**_NAME, "X-Request-Id": request_id}
        body = wire.render_error(error, request_id)
        answer = web.Response(body=body, status=error.status, content_type="application/json", headers=headers)
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; the framework's own refusals (of an Expect header) are put in our words."""
        if isinstance(resp, web.HTTPException):
            resp = self.handle_error(request, resp.status)
        return await super().finish_response(request, resp, start_time)
