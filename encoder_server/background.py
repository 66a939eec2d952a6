"""Background: what runs beside the requests for as long as the app does.

Place: begun and ended by `app`. Must never: let one of its tasks die without a word.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

from aiohttp import web

from encoder_server import keys, tracing
from encoder_server.orders import Orders
from encoder_server.probes import Probes
from encoder_server.recall import Recall
from encoder_server.replica import Replica

_LOG = logging.getLogger(__name__)


async def tasks(app: web.Application) -> AsyncIterator[None]:
    """Run what runs beside the requests, from the app's start to its end."""
    settings, replica, engines, recall = (
        app[keys.SETTINGS],
        app[keys.REPLICA],
        app[keys.ENGINES],
        app[keys.PIPELINE].recall,
    )
    probes = Probes(settings, replica, app[keys.BATCHER], engines)
    running = [
        asyncio.create_task(engines.run(), name="engines"),
        asyncio.create_task(Orders(settings, replica, probes, recall.flush).run(), name="orders"),
        asyncio.create_task(probes.run(), name="probes"),
        asyncio.create_task(recall.run(), name="cache"),
        asyncio.create_task(_disown(replica, recall), name="disown"),
    ]
    for task in running:
        task.add_done_callback(_log_death)
    app[keys.TASKS].extend(running)
    yield
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


async def _disown(replica: Replica, recall: Recall) -> None:
    """Have what engines made that went wrong taken for nobody's hit: here at once, in the pool when it can be told."""
    async with asyncio.TaskGroup() as group:
        while await replica.strayed.wait():
            replica.strayed.clear()
            group.create_task(recall.disown())


async def traces(app: web.Application) -> AsyncIterator[None]:
    """Send spans while the app runs, where that is asked for."""
    settings = app[keys.SETTINGS]
    replica = {"service.instance.id": settings.pod_uid, "encoder.revision": settings.revision}
    app[keys.TRACING] = sender = tracing.begin(replica) if settings.traces else None
    yield
    if sender is not None:
        await asyncio.to_thread(sender.close)


def _log_death(task: asyncio.Task[None]) -> None:
    if not task.cancelled():
        _LOG.critical("task_died", extra={"task": task.get_name()}, exc_info=task.exception())
