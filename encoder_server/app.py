"""The app: put the parts together, serve them, and leave in good order.

Place: started by `cli`. Must never: hold logic of a stage, or state outside the app.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from collections.abc import Sequence

from aiohttp import web

from encoder_server import background, keys, routes, times
from encoder_server.admission import Admission
from encoder_server.answering import Answering
from encoder_server.batcher import Batcher
from encoder_server.connections import Connections, Runner, raise_file_limit
from encoder_server.engines import Engines
from encoder_server.evidence import Evidence
from encoder_server.fetch import fetching
from encoder_server.flights import Flights
from encoder_server.intake import Intake
from encoder_server.metrics import Metrics
from encoder_server.pipeline import Pipeline
from encoder_server.recall import Recall
from encoder_server.replica import Replica
from encoder_server.settings import Settings

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
    app = web.Application(client_max_size=limits.max_body_bytes)
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
    return times.to_text(time.time())


def serve(settings: Settings, engine_command: Sequence[str]) -> int:
    """Serve until SIGTERM, SIGINT or an order to restart, then finish what was accepted; returns 0.

    Raises ListenError where the address cannot be listened on.
    """
    raise_file_limit()
    asyncio.run(_serve(settings, engine_command))
    return 0


async def start(app: web.Application) -> web.AppRunner:
    """Start `app` and return its runner, which listens nowhere yet.

    A handler is cancelled when its caller leaves, so that its place is free.
    """
    runner = Runner(
        app,
        app[keys.CONNECTIONS],
        Answering(app),
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
