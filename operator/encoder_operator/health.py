"""Health: /healthz and /metrics of the operator.

Place: started by handlers, read by the kubelet and by Prometheus. Must never: say that all is well because only
this server still answers.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

from encoder_operator import vocabulary


class Heartbeats:
    """When each of the operator's loops was last seen to run, and how old that may be."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._beats: dict[str, float] = {}
        self._limits: dict[str, float] = {}

    def expect(self, loop: str, within: float) -> None:
        """From now on, this loop must beat at least every `within` seconds."""
        self._limits[loop] = within
        self.beat(loop)

    def beat(self, loop: str) -> None:
        """This loop runs."""
        self._beats[loop] = self._clock()

    def late(self) -> tuple[str, ...]:
        """The loops that have not been seen for too long."""
        now = self._clock()
        return tuple(sorted(loop for loop, within in self._limits.items() if now - self._beats[loop] > within))


async def serve(port: int, heartbeats: Heartbeats, registry: CollectorRegistry) -> web.AppRunner:
    """Start answering on all addresses; the caller cleans the runner up."""

    async def healthz(request: web.Request) -> web.Response:
        late = heartbeats.late()
        return web.Response(status=503 if late else 200, text=f"late: {', '.join(late)}" if late else "ok")

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get(vocabulary.PATH_HEALTHZ, healthz)
    app.router.add_get(vocabulary.PATH_METRICS, metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, None, port).start()
    return runner
