"""Operation: what runs beside kopf for as long as the process does.

Place: handlers start and stop it. Must never: outlive a part of itself: where a loop ends that should not, the
whole process does, so that Kubernetes starts it anew.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack

import aiohttp

from encoder_operator import vocabulary
from encoder_operator.cluster import Cluster, JsonObject, PodChanged, PodsListed
from encoder_operator.direct import Direct
from encoder_operator.errors import ClusterError
from encoder_operator.events import Recorder
from encoder_operator.evidence import Counters, Prometheus
from encoder_operator.health import Heartbeats, serve
from encoder_operator.identities import HttpIdentities
from encoder_operator.kube_cluster import connect
from encoder_operator.metrics import Metrics
from encoder_operator.observe import Sources
from encoder_operator.pools import Pools
from encoder_operator.reconcile import World
from encoder_operator.settings import Settings

_log = logging.getLogger(__name__)

_RELIST_SECONDS = 30.0
_RELIST_LATE_SECONDS = 180.0
_CONNECTIONS = 100


class Operation:
    """All loops and connections of the operator; `on_failure` is called when one of them has ended."""

    def __init__(self, settings: Settings, on_failure: Callable[[], None]) -> None:
        self._settings = settings
        self._on_failure = on_failure
        self._stack = AsyncExitStack()
        self._pools: Pools | None = None

    async def start(self) -> None:
        """Open connections, answer /healthz, and start the loops."""
        metrics, heartbeats = Metrics(), Heartbeats(time.monotonic)
        cluster = await connect(self._settings.watch_namespaces)
        self._stack.push_async_callback(cluster.close)
        session = await self._stack.enter_async_context(
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=_CONNECTIONS, force_close=True))
        )
        sources = Sources(cluster=cluster, identities=HttpIdentities(session), counters=self._counters(session))
        world = World(sources=sources, recorder=Recorder(cluster), metrics=metrics, clock=time.time)
        self._pools = pools = Pools(world)
        self._stack.push_async_callback(pools.close)
        runner = await serve(self._settings.http_port, heartbeats, metrics.registry)
        self._stack.push_async_callback(runner.cleanup)
        heartbeats.expect("relist", _RELIST_LATE_SECONDS)
        self._run("relist", _relist(cluster, pools, heartbeats))
        for namespace in self._settings.watch_namespaces or (None,):
            self._run(f"pods in {namespace or 'all namespaces'}", _watch(cluster, pools, namespace))

    async def stop(self) -> None:
        """Stop the loops, then close what they used."""
        await self._stack.aclose()

    def wake(self, namespace: str, name: str) -> None:
        """Look at this pool soon."""
        if self._pools is not None:
            self._pools.wake(namespace, name)

    def _counters(self, session: aiohttp.ClientSession) -> Counters:
        address = self._settings.prometheus_address
        if address is not None:
            return Prometheus(session, address)
        direct = Direct(session, clock=time.time, pause=asyncio.sleep)
        self._stack.push_async_callback(direct.close)
        return direct

    def _run(self, name: str, loop: Coroutine[None, None, None]) -> None:
        task = asyncio.create_task(loop, name=name)
        task.add_done_callback(self._ended)
        self._stack.push_async_callback(_cancelled, task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            return
        _log.critical("loop %s ended, the operator ends too", task.get_name(), exc_info=task.exception())
        self._on_failure()


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _relist(cluster: Cluster, pools: Pools, heartbeats: Heartbeats) -> None:
    """Find the pools that no event told of: a watch may be silent without being closed."""
    while True:
        try:
            pools.found(_key(each) for each in await cluster.list_pools())
        except ClusterError as error:
            _log.warning("pools not listed: %s", error)
        heartbeats.beat("relist")
        await asyncio.sleep(_RELIST_SECONDS)


async def _watch(cluster: Cluster, pools: Pools, namespace: str | None) -> None:
    """Wake a pool when one of its pods changes."""
    async for event in cluster.watch_pods(namespace):
        match event:
            case PodsListed():
                pools.wake_all()
            case PodChanged(pod=pod):
                labels = pod["metadata"].get("labels") or {}
                pools.wake_known(pod["metadata"]["namespace"], labels.get(vocabulary.LABEL_POOL, ""))


def _key(pool: JsonObject) -> tuple[str, str]:
    return pool["metadata"]["namespace"], pool["metadata"]["name"]
