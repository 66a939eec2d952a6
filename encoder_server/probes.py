"""Probes: run the golden probe when it is ordered and when it is due, one at a time, and tell the replica.

Place: beside the pipeline, for the server's whole life; `orders` brings what is ordered. Every engine is probed, for
each has its own memory to go bad. Must never: be counted with what callers sent, keep traffic waiting for more than a
batch, or let a probe that is due get into the way of one that is ordered.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
from collections.abc import Sequence

from encoder_server.batch import ProbeBatch
from encoder_server.batcher import Batcher
from encoder_server.downward import Order
from encoder_server.engine.messages import Probed, Size
from encoder_server.engines import Engines
from encoder_server.errors import EncoderServerError
from encoder_server.replica import Replica
from encoder_server.settings import Settings

_LOG = logging.getLogger(__name__)
_LOOK_SECONDS = 0.1
_JITTER = 0.1


class Probes:
    """The probes of one server; `run` has them run when they are due, until it is cancelled."""

    def __init__(self, settings: Settings, replica: Replica, batcher: Batcher, engines: Engines) -> None:
        self._settings = settings
        self._replica = replica
        self._batcher = batcher
        self._engines = engines
        self._running: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Probe every `probe_period_seconds`, a tenth more or less, so that a pool's replicas do not probe at once."""
        period = self._settings.probe_period_seconds or math.inf
        try:
            while True:
                await asyncio.sleep(period * random.uniform(1 - _JITTER, 1 + _JITTER))  # noqa: S311 - spreads load
                await self._wait_for_a_lull(period)
                if self._running is None or self._running.done():
                    self._running = asyncio.create_task(self._probe_in_time())
                    await asyncio.wait({self._running})
        finally:
            if self._running is not None:
                self._running.cancel()
                await asyncio.gather(self._running, return_exceptions=True)

    def obey(self, order: Order) -> None:
        """Run a probe as ordered, in place of whichever runs."""
        previous, self._running = self._running, asyncio.create_task(self._probe_as_ordered(order, self._running))
        if previous is not None:
            previous.cancel()

    async def _wait_for_a_lull(self, patience: float) -> None:
        """Wait until no engine has anything to do, or for `patience` seconds: the busiest replica is probed too."""
        try:
            async with asyncio.timeout(patience):
                while self._batcher.idle < max(1, self._engines.ready):  # noqa: ASYNC110 - of many things, none an event
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            _LOG.info("probe_without_lull")

    async def _probe_in_time(self) -> None:
        if self._engines.ready:
            probes, _ = await self._ask_each((), None)
            self._replica.end_timed_probe(probes)

    async def _probe_as_ordered(self, order: Order, previous: asyncio.Task[None] | None) -> None:
        if previous is not None:
            await asyncio.gather(previous, return_exceptions=True)
        self._replica.begin_probe(order.id)
        measured = self._replica.measured
        modalities, limits = None, self._settings.limits
        if measured is not None:
            modalities, limits = measured.declared.keys(), limits.within(measured.declared)
        sizes = order.sizes_for(modalities, limits)
        if len(sizes) < len(order.sizes):
            _LOG.warning("probe_sizes_left_out", extra={"order_id": order.id, "count": len(order.sizes) - len(sizes)})
        probes, whole = await self._ask_each(sizes, order.id)
        self._replica.end_probe(order.id, probes, whole=whole)

    async def _ask_each(self, sizes: Sequence[Size], order_id: str | None) -> tuple[list[Probed], bool]:
        """Have every engine probed; return what came back in twice a request's time, and whether that is all.

        Engines that are free take one probe each. `sizes` go to one alone: a size that kills an engine must not cost
        them all.
        """
        others = max(1, self._engines.ready) - 1
        batches = [self._batcher.probe(sizes), *(self._batcher.probe(()) for _ in range(others))]
        answers = await asyncio.gather(*(self._result(batch, order_id) for batch in batches))
        probes = [probed for probed in answers if probed is not None]
        return probes, len(probes) == len(answers)

    async def _result(self, batch: ProbeBatch, order_id: str | None) -> Probed | None:
        try:
            async with asyncio.timeout(2 * self._settings.limits.deadline_seconds):
                received = await batch.finished
        except (TimeoutError, EncoderServerError):
            _LOG.exception("probe_without_answer", extra={"order_id": order_id})
            return None
        finally:
            batch.abandon()
        return received.message if isinstance(received.message, Probed) else None
