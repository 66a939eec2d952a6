"""Routes: one short handler for each endpoint: parse, ask, render.

Place: between aiohttp and everything else. Must never: hold logic, or read a body that was not admitted.
"""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from encoder_server import ids, inflate, keys, openapi
from encoder_server.arrival import Arrival
from encoder_server.errors import CrowdedError, LimitExceededError
from encoder_server.lifecycle import State
from encoder_server.pipeline import Call
from encoder_server.reply import Reply
from encoder_server.stated import stated
from encoder_server.stream import STREAM, Stream

_NEVER_CACHED = {"Cache-Control": "no-store"}


def add_routes(app: web.Application) -> None:
    """Add every endpoint to `app`, and the document that describes them."""
    routes: dict[tuple[str, str], Handler] = {
        ("POST", "/v1/encode"): _encode,
        ("GET", "/v1/identity"): _identity,
        ("GET", "/v1/limits"): _limits,
        ("GET", "/v1/load"): _load,
        ("GET", "/healthz"): _healthz,
        ("GET", "/readyz"): _readyz,
        ("GET", "/metrics"): _metrics,
        ("GET", "/openapi.json"): _openapi,
    }
    for (method, path), handler in routes.items():
        (app.router.add_get if method == "GET" else app.router.add_post)(path, handler)
    app[keys.DOCUMENT] = orjson.dumps(openapi.describe(routes, version("encoderpool")))


async def _openapi(request: web.Request) -> web.Response:
    return web.Response(body=request.app[keys.DOCUMENT], content_type="application/json", headers=_NEVER_CACHED)


async def _encode(request: web.Request) -> web.StreamResponse:
    app = request.app
    request[keys.TRAIL].is_counted = True
    stream = request[STREAM] = Stream(request)
    crowded = app[keys.CONNECTIONS].crowded
    if crowded is not None:
        raise CrowdedError(crowded)
    answer = await app[keys.PIPELINE].encode(_call(request, app[keys.SETTINGS].limits.max_body_bytes, stream))
    if not stream.opened and Reply.fits(request) and not must_close(app):
        return Reply(answer.body, answer.content_type, request[keys.REQUEST_ID])
    return web.Response(body=b"".join(answer.body), content_type=answer.content_type)


def must_close(app: web.Application) -> bool:
    """Return whether a connection is closed after its answer, so that its caller goes elsewhere."""
    return app[keys.REPLICA].standing.state is not State.READY or app[keys.CONNECTIONS].crowded is not None


def _call(request: web.Request, most: int, stream: Stream) -> Call:
    length = request.content_length
    if length is not None and length > most:
        raise LimitExceededError(f"body: {length} bytes; the limit is {most}")
    headers = request.headers
    encoding = ", ".join(headers.getall("Content-Encoding", ())).strip().lower()
    return Call(
        request_id=request[keys.REQUEST_ID],
        trail=request[keys.TRAIL],
        caller=_caller(request),
        accept=", ".join(headers.getall("Accept", ())),
        content_type=headers.get("Content-Type"),
        # Compressed, or sent in chunks: the length says nothing of what will be held.
        most_bytes=length if length is not None and encoding in inflate.PLAIN else most,
        body=Arrival(request, encoding, most),
        tell=stream.promise,
        held=request[keys.HELD],
    )


def _caller(request: web.Request) -> str:
    """Say whose turn a request takes: its peer's, or that of whom a router named for it.

    Nobody checks the name. Who makes up names has more turns, as who opens more connections from more addresses has;
    the places of admission bound both.
    """
    named = request.headers.get(keys.CALLER_HEADER)
    return named if named is not None and ids.SAFE.fullmatch(named) else request.remote or ""


async def _identity(request: web.Request) -> web.Response:
    sharing = request.app[keys.PIPELINE].recall.report()
    return _json({**request.app[keys.REPLICA].report(), "sharing": sharing})


async def _limits(request: web.Request) -> web.Response:
    settings, measured = request.app[keys.SETTINGS], request.app[keys.REPLICA].measured
    declared = {} if measured is None else measured.declared
    return _json(stated(settings.limits, declared, fetches=settings.fetch is not None))


async def _load(request: web.Request) -> web.Response:
    admission, engines = request.app[keys.ADMISSION], request.app[keys.ENGINES]
    return _json(
        {
            "inFlight": admission.in_flight,
            "inFlightBytes": admission.bytes_in_flight,
            "queued": request.app[keys.BATCHER].queued,
            "batchBudget": request.app[keys.BATCHER].budget,
            "enginesReady": engines.ready,
            "engines": engines.total,
        }
    )


async def _healthz(request: web.Request) -> web.Response:
    """Alive: the front's own tasks run, no engine is beyond killing, and engines that served are not lost for good.

    An engine that loads for the first time, or for long, is no death, and neither is one that is busy.
    """
    engines = request.app[keys.ENGINES]
    dead = [task.get_name() for task in request.app[keys.TASKS] if task.done()]
    if dead:
        return _json({"alive": False, "message": f"ended: {', '.join(dead)}"}, 503)
    if engines.stuck:
        return _json({"alive": False, "message": "an engine is stuck"}, 503)
    if engines.lost is not None:
        return _json({"alive": False, "message": engines.lost}, 503)
    return _json({"alive": True})


async def _readyz(request: web.Request) -> web.Response:
    replica = request.app[keys.REPLICA]
    return _json(replica.readiness(), 200 if replica.standing.state is State.READY else 503)


async def _metrics(request: web.Request) -> web.Response:
    metrics = request.app[keys.METRICS]
    metrics.in_flight.set(request.app[keys.ADMISSION].in_flight)
    metrics.queued.set(request.app[keys.BATCHER].queued)
    headers = {"Content-Type": "text/plain; version=0.0.4; charset=utf-8"}
    return web.Response(body=metrics.render(), headers=headers)


def _json(body: dict[str, Any], status: int = 200) -> web.Response:
    return web.Response(body=orjson.dumps(body), status=status, content_type="application/json", headers=_NEVER_CACHED)
