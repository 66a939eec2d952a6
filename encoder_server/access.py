"""Access: one line of the log for every request, and its spans, once its answer is written.

Place: called by `answering`, first and last for each request; it takes or makes the request's id. Must never: write
anything of a caller's but ids that were validated, or change an answer.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from aiohttp import hdrs, web

from encoder_server import ids, keys
from encoder_server.metrics import Metrics
from encoder_server.tracing import Tracing
from encoder_server.trail import Trail

_LOG = logging.getLogger(__name__)
_TRACEPARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
# Asked every few seconds by machines, for as long as a server lives.
_QUIET = ("/healthz", "/readyz", "/metrics")


def begin(request: web.Request, metrics: Metrics) -> Trail:
    """Give the request its id, and the trail that is told in the end."""
    given = request.headers.get(keys.REQUEST_ID_HEADER)
    request_id = given if given is not None and ids.SAFE.fullmatch(given) else ids.fresh()
    request[keys.REQUEST_ID] = request_id
    trail = request[keys.TRAIL] = Trail(request_id, metrics)
    return trail


def tell(request: web.Request, trail: Trail, tracing: Tracing | None, answer: web.StreamResponse | None) -> None:
    """Say in one line of the log what became of the request; `answer` None: nothing was sent."""
    if tracing is None and not _LOG.isEnabledFor(logging.INFO):
        return
    resource = request.match_info.route.resource
    path = "unknown" if resource is None else resource.canonical
    method = request.method if request.method in hdrs.METH_ALL else "unknown"
    status = None if answer is None else answer.status
    parent = _TRACEPARENT.fullmatch(request.headers.get("traceparent", ""))
    trace_id = None if parent is None else parent[1]
    if tracing is not None and path not in _QUIET:
        trace_id = tracing.tell(trail, request.headers, method, path, status)
    level = logging.DEBUG if path in _QUIET else logging.INFO
    if not _LOG.isEnabledFor(level):
        return
    line: dict[str, Any] = {
        "request_id": trail.request_id,
        "trace_id": trace_id,
        "method": method,
        "path": path,
        "status": status,
        "code": trail.code,
        "items": trail.items,
        "cached": trail.cached,
        "fresh": trail.items - trail.cached,
        "tokens": trail.tokens,
        "bytes_in": request.content.total_bytes,
        "bytes_out": 0 if answer is None else answer.body_length,
        "ms": {stage.name: _ms(stage.end - stage.start) for stage in trail.stages} | {"total": _ms(trail.elapsed)},
    }
    _LOG.log(level, "request", extra=line)


def _ms(seconds: float) -> float:
    return round(1000 * seconds, 2)
