"""Answering: around every request: whatever its handler does becomes an answer, which is written in time and told.

Place: between the web framework's connections and its router; the one place that turns errors into answers. Not a
middleware: the framework wraps each of those for each request.
Must never: hold logic of a stage, or leave a request without an answer, a line in the log, or its place given back.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import web

from encoder_server import access, errors, keys, routes, wire
from encoder_server.admission import Held
from encoder_server.reply import Reply
from encoder_server.stream import STREAM, Stream

_LOG = logging.getLogger(__name__)
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Answering:
    """Serves the requests of `app`, whose parts are all there."""

    def __init__(self, app: web.Application) -> None:
        self._app = app
        self._connections = app[keys.CONNECTIONS]
        self._metrics = app[keys.METRICS]
        self._seconds = app[keys.SETTINGS].limits.deadline_seconds

    async def serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer `request` by `handler`, while its connection counts as busy; return what was written."""
        connection, held = request.protocol, Held()
        trail = access.begin(request, self._metrics)
        request[keys.HELD] = held
        answer: web.StreamResponse | None = None
        self._connections.begin(connection)
        try:
            answer = await _handle(request, handler)
            if not (isinstance(answer, Reply) and answer.send(request)):
                answer = await self._write(request, answer)
            return answer
        except (asyncio.CancelledError, ConnectionError):
            trail.cut_off()
            answer = None
            raise
        except Exception:
            trail.failed(errors.InternalError("the answer could not be written"))
            answer = None
            raise
        finally:
            if trail.is_counted:
                self._metrics.requests.add((trail.code,))
            held.release()
            self._connections.end(connection)
            access.tell(request, trail, self._app[keys.TRACING], answer)

    async def _write(self, request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
        """Write the answer, and return what was written: itself, or the stream whose last part it became."""
        try:
            async with asyncio.timeout(self._seconds):
                stream: Stream | None = request.get(STREAM)
                if stream is not None and stream.opened:
                    await _end(stream, answer)
                    return stream.response
                if isinstance(answer, Reply):
                    await request.writer.drain()
                    return answer
                answer.headers[keys.REQUEST_ID_HEADER] = request[keys.REQUEST_ID]
                if routes.must_close(self._app):
                    answer.force_close()
                await answer.prepare(request)
                await answer.write_eof()
        except TimeoutError:
            # Who does not read an answer within a request's time is cut off, for it is held until then.
            _LOG.warning("answer_not_read", extra={"request_id": request[keys.REQUEST_ID]})
            request[keys.TRAIL].cut_off()
            if request.transport is not None:
                request.transport.abort()
        return answer


async def _end(stream: Stream, answer: web.StreamResponse) -> None:
    """End an answer whose promises were sent; `answer` has the rows, or is the error that came after the promises."""
    failed = answer.status >= 400
    try:
        if isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            await stream.finish(answer.content_type, answer.body, answer.status if failed else None)
        await stream.response.write_eof()
    except ConnectionError:
        # Of a caller who left before an error was written, the error is what is told.
        if not failed:
            raise


async def _handle(request: web.Request, handler: Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except errors.EncoderServerError as error:
        return _render(request, error)
    except web.HTTPNotFound:
        return _render(request, errors.NotFoundError("no such path"))
    except web.HTTPMethodNotAllowed as refused:
        answer = _render(request, errors.MethodNotAllowedError("no such method for this path"))
        answer.headers["Allow"] = refused.headers["Allow"]
        return answer
    except web.HTTPException as refused:
        return _render(request, errors.BadRequestError(f"the request cannot be read ({refused.status})"))
    except ConnectionError:
        raise
    except Exception:
        _LOG.exception("request_crashed", extra={"request_id": request[keys.REQUEST_ID]})
        return _render(request, errors.InternalError("an internal fault; the log has more"))


def _render(request: web.Request, error: errors.EncoderServerError) -> web.Response:
    request_id = request[keys.REQUEST_ID]
    request[keys.TRAIL].failed(error)
    extra = {"request_id": request_id, "code": error.code, "status": error.status, "detail": error.message}
    _LOG.log(error.level, "request_failed", extra=extra)
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    body = wire.render_error(error, request_id)
    answer = web.Response(body=body, status=error.status, content_type="application/json", headers=headers)
    if error.closes:
        answer.force_close()
    return answer
