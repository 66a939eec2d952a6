"""The app: put the parts together, serve them, and leave in good order.

Place: started by `cli`; the one place that turns errors into answers. Must never: hold logic of a stage, or
state outside the app.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Sequence
from datetime import UTC, datetime

from aiohttp import web
from aiohttp.typedefs import Handler

from encoder_server import access, background, errors, keys, routes, wire
from encoder_server.admission import Admission, Held
from encoder_server.batcher import Batcher
from encoder_server.connections import Connections, Runner
from encoder_server.engines import Engines
from encoder_server.evidence import Evidence
from encoder_server.fetch import fetching
from encoder_server.flights import Flights
from encoder_server.intake import Intake
from encoder_server.metrics import Metrics
from encoder_server.pipeline import Pipeline
from encoder_server.recall import Recall
from encoder_server.replica import Replica
from encoder_server.reply import Reply
from encoder_server.settings import Settings
from encoder_server.stream import STREAM, Stream

_LOG = logging.getLogger(__name__)
_WRITE_SECONDS = 10.0


class ListenError(Exception):
    """The address cannot be listened on; the message says why."""


def build(settings: Settings, engine_command: Sequence[str]) -> web.Application:
    """Return the app; its engines start with it. To be called where an event loop runs."""
    limits = settings.limits
    metrics = Metrics()
    evidence = Evidence(metrics, _now)
    replica = Replica(settings, metrics, evidence, _now)
    batcher = Batcher(settings.batch_budget, metrics)
    engines = Engines(engine_command, settings.engines, limits.deadline_seconds, replica, batcher)
    admission = Admission(limits.max_in_flight, limits.max_in_flight_bytes, replica.refusal)
    app = web.Application(middlewares=[_answer], client_max_size=limits.max_body_bytes)
    app[keys.SETTINGS] = settings
    app[keys.METRICS] = metrics
    app[keys.REPLICA] = replica
    app[keys.BATCHER] = batcher
    app[keys.ENGINES] = engines
    app[keys.ADMISSION] = admission
    app[keys.CONNECTIONS] = Connections(settings.max_connections)
    app[keys.TASKS] = []
    app[keys.PIPELINE] = Pipeline(
        limits=limits,
        revision=settings.revision,
        admission=admission,
        intake=Intake(limits, fetching(settings.fetch, limits.max_body_bytes)),
        recall=Recall(settings, Flights(batcher), metrics.cache, evidence, replica.boot_id),
        replica=replica,
        evidence=evidence,
    )
    app.cleanup_ctx.extend((background.tasks, background.traces))
    routes.add_routes(app)
    return app


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@web.middleware
async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Turn whatever a handler does into an answer, write it while the connection counts as busy, and tell the log."""
    app, connection = request.app, request.protocol
    connections, held = app[keys.CONNECTIONS], Held()
    trail = access.begin(request, app[keys.METRICS])
    request[keys.HELD] = held
    answer: web.StreamResponse | None = None
    connections.begin(connection)
    try:
        answer = await _handle(request, handler)
        if not (isinstance(answer, Reply) and answer.send(request)):
            answer = await _write_in_time(request, answer)
        return answer
    except (asyncio.CancelledError, ConnectionError):
        trail.code = "cancelled"
        raise
    finally:
        held.release()
        connections.end(connection)
        access.tell(request, trail, app[keys.TRACING], answer)


async def _write_in_time(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    try:
        async with asyncio.timeout(request.app[keys.SETTINGS].limits.deadline_seconds):
            return await _write(request, answer)
    except TimeoutError:
        # Who does not read an answer within a request's time is cut off, for it is held until then.
        _LOG.warning("answer_not_read", extra={"request_id": request[keys.REQUEST_ID]})
        if request.transport is not None:
            request.transport.abort()
    return answer


async def _write(request: web.Request, answer: web.StreamResponse) -> web.StreamResponse:
    """Write the answer, and return what was written: itself, or the stream whose last part it became."""
    if isinstance(answer, Reply):
        await request.writer.drain()
        return answer
    stream: Stream | None = request.get(STREAM)
    if stream is not None and stream.opened:
        await _end(stream, answer)
        return stream.response
    answer.headers[keys.REQUEST_ID_HEADER] = request[keys.REQUEST_ID]
    if routes.is_last(request.app):
        answer.force_close()
    await answer.prepare(request)
    await answer.write_eof()
    return answer


async def _end(stream: Stream, answer: web.StreamResponse) -> None:
    """End an answer whose promises were sent; `answer` is the stream's own, or the error that came after them."""
    # A caller who left while it was written needs no answer, and there is nobody else to tell.
    with contextlib.suppress(ConnectionError):
        if isinstance(answer, web.Response) and isinstance(answer.body, bytes):
            await stream.finish(answer.content_type, answer.body, answer.status)
        await stream.response.write_eof()


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


def serve(settings: Settings, engine_command: Sequence[str]) -> int:
    """Serve until SIGTERM, SIGINT or an order to restart, then finish what was accepted; returns 0.

    Raises ListenError where the address cannot be listened on.
    """
    asyncio.run(_serve(settings, engine_command))
    return 0


async def start(app: web.Application) -> web.AppRunner:
    """Start `app` and return its runner, which listens nowhere yet.

    A handler is cancelled when its caller leaves, so that its place is free.
    """
    runner = Runner(
        app,
        app[keys.CONNECTIONS],
        access_log=None,
        auto_decompress=False,  # `inflate` does it, off the event loop.
        handler_cancellation=True,
        keepalive_timeout=app[keys.SETTINGS].idle_seconds,
        shutdown_timeout=_WRITE_SECONDS,
    )
    await runner.setup()
    return runner


async def leave(app: web.Application, runner: web.AppRunner) -> None:
    """Close the idle connections, then the others after their answer, and stop what `app` runs.

    Until here an idle connection stays open, whatever the replica's state: its next request is told with a 503
    to go elsewhere, where a connection that breaks under a request would tell its caller nothing.
    """
    if runner.server is not None:
        app[keys.CONNECTIONS].close_idle(runner.server.connections)
    await runner.cleanup()


async def _serve(settings: Settings, engine_command: Sequence[str]) -> None:
    app = build(settings, engine_command)
    replica, admission = app[keys.REPLICA], app[keys.ADMISSION]
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, replica.drain, f"signal {number.name}")
    runner = await start(app)
    try:
        site = web.TCPSite(runner, settings.host, settings.port)
        try:
            await site.start()
        except OSError as failed:
            raise ListenError(os.strerror(failed.errno or 0)) from failed
        _LOG.info("listening", extra={"addresses": [list(address[:2]) for address in runner.addresses]})
        await replica.leaving.wait()
        # The door stays open meanwhile: who comes now is told to go elsewhere, which beats a refused connection.
        async with asyncio.timeout(settings.limits.deadline_seconds):
            await admission.wait_until_idle()
    except TimeoutError:
        _LOG.error("drain_cut_short", extra={"in_flight": admission.in_flight})
    finally:
        await leave(app, runner)
    _LOG.info("left")
