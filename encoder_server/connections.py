"""Connections: which of them carry a request, and what is answered where no request could be read from one.

Place: around every request in `app`. Must never: cut a connection in the middle of an answer that is read, or
let the web framework answer in its own words, which quote the caller's bytes.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from encoder_server import errors, wire

_LOG = logging.getLogger(__name__)


class Connections:
    """The connections of one app that are busy."""

    def __init__(self) -> None:
        self._busy: set[RequestHandler] = set()

    @contextmanager
    def busy(self, connection: RequestHandler) -> Iterator[None]:
        """Hold `connection` busy until its answer is written."""
        self._busy.add(connection)
        try:
            yield
        finally:
            self._busy.discard(connection)

    def close_idle(self, connections: Iterable[RequestHandler]) -> None:
        """Close those of `connections` that are not busy.

        The web framework's own `close` leaves an idle connection open with nobody listening on it.
        """
        for connection in connections:
            if connection not in self._busy:
                connection.force_close()


class Runner(web.AppRunner):
    """Runs an app on connections that answer in this server's words, whatever arrives."""

    async def _make_server(self) -> web.Server:
        server = await super()._make_server()
        # The framework has no place to say which kind of connection a server makes.
        server.__class__ = _Server
        return server


class _Server(web.Server):
    def __call__(self) -> RequestHandler:
        return _Connection(self, loop=self._loop, **self._kwargs)


class _Connection(RequestHandler):
    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer what never became a request of the app, or left it without an answer."""
        if status < 500:
            error: errors.EncoderServerError = errors.BadRequestError("the request is not HTTP that is read here")
            _LOG.info("request_unreadable", extra={"status": status, "kind": type(exc).__name__})
        else:
            error = errors.InternalError("an internal fault; the log has more")
            _LOG.error("request_crashed", exc_info=exc)
        if request.writer.output_size > 0:
            raise ConnectionError
        body = wire.render_error(error, uuid.uuid4().hex)
        answer = web.Response(body=body, status=error.status, content_type="application/json")
        answer.force_close()
        return answer

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer; the framework's own refusals (of an Expect header) are put in our words."""
        if isinstance(resp, web.HTTPException):
            resp = self.handle_error(request, resp.status)
        return await super().finish_response(request, resp, start_time)
