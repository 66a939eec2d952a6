"""Pools: one task for each pool, woken by what happens, looking again by itself.

Place: handlers and the pod watch wake it; it calls reconcile. Must never: run two passes over one pool at once,
or let one pool's failure reach another.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from encoder_operator.errors import OperatorError, ThrottledError, metric_label
from encoder_operator.reconcile import World, reconcile

_log = logging.getLogger(__name__)

# A burst of pod events becomes one pass.
_PAUSE_SECONDS = 0.25
_FIRST_BACKOFF, _LAST_BACKOFF = 1.0, 60.0
_UNCHANGED_SECONDS = 300.0
_LONGEST_PASS_SECONDS = 120.0

Key = tuple[str, str]
"""A pool's namespace and name."""


@dataclass(slots=True)
class _Runner:
    task: asyncio.Task[None]
    woken: asyncio.Event = field(default_factory=asyncio.Event)


class Pools:
    """The pools that are looked after."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._runners: dict[Key, _Runner] = {}

    def wake(self, namespace: str, name: str) -> None:
        """Look at this pool soon; one that was not known is looked after from now on."""
        key = (namespace, name)
        runner = self._runners.get(key)
        if runner is None:
            woken = asyncio.Event()
            task = asyncio.create_task(self._look_after(key, woken), name=f"pool {namespace}/{name}")
            self._runners[key] = _Runner(task=task, woken=woken)
        else:
            runner.woken.set()

    def wake_known(self, namespace: str, name: str) -> None:
        """Look at this pool soon, if it is one: a label alone does not make it so."""
        runner = self._runners.get((namespace, name))
        if runner is not None:
            runner.woken.set()

    def wake_all(self) -> None:
        """Look at all pools soon: what happened meanwhile is not known."""
        for runner in self._runners.values():
            runner.woken.set()

    def found(self, keys: Iterable[Key]) -> None:
        """These pools exist, by a list: look after those that no event told of."""
        for key in keys:
            if key not in self._runners:
                self.wake(*key)

    async def close(self) -> None:
        """Stop all tasks, wherever they are: a pass may end after any line."""
        tasks = [runner.task for runner in self._runners.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_after(self, key: Key, woken: asyncio.Event) -> None:
        failures = 0
        try:
            while True:
                woken.clear()
                try:
                    wait = await self._pass(key)
                    failures = 0
                except Exception as error:
                    failures += 1
                    wait = self._after_failure(key, error, failures)
                if wait is not None:
                    await _sleep_unless(woken, wait)
                elif not woken.is_set():
                    return
                await asyncio.sleep(_PAUSE_SECONDS)
        finally:
            self._runners.pop(key, None)
            self._world.metrics.forget(*key)

    async def _pass(self, key: Key) -> float | None:
        with self._world.metrics.reconcile_seconds.time():
            async with asyncio.timeout(_LONGEST_PASS_SECONDS):
                return await reconcile(*key, self._world)

    def _after_failure(self, key: Key, error: Exception, failures: int) -> float:
        label = metric_label(error)
        self._world.metrics.reconcile_errors.labels(label).inc()
        expected = isinstance(error, OperatorError)
        _log.log(
            logging.WARNING if expected else logging.ERROR,
            "%s: %s",
            label,
            error,
            exc_info=None if expected else error,
            extra={"namespace": key[0], "pool": key[1], "reason": getattr(error, "reason", None) or label},
        )
        if isinstance(error, OperatorError) and not error.retryable:
            return _UNCHANGED_SECONDS
        asked = error.retry_after if isinstance(error, ThrottledError) else 0.0
        return max(asked, min(_FIRST_BACKOFF * 2.0 ** min(failures - 1, 10), _LAST_BACKOFF))


async def _sleep_unless(woken: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await woken.wait()
    except TimeoutError:
        return
