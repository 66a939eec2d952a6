"""Keys: under which an app holds its parts.

Place: between `app`, which fills them, and `routes` and `answering`, which read them. Must never: hold a value.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from encoder_server.admission import Admission, Held
from encoder_server.batcher import Batcher
from encoder_server.connections import Connections
from encoder_server.engines import Engines
from encoder_server.metrics import Metrics
from encoder_server.pipeline import Pipeline
from encoder_server.replica import Replica
from encoder_server.settings import Settings
from encoder_server.tracing import Tracing
from encoder_server.trail import Trail

SETTINGS = web.AppKey("settings", Settings)
METRICS = web.AppKey("metrics", Metrics)
REPLICA = web.AppKey("replica", Replica)
ENGINES = web.AppKey("engines", Engines)
ADMISSION = web.AppKey("admission", Admission)
BATCHER = web.AppKey("batcher", Batcher)
PIPELINE = web.AppKey("pipeline", Pipeline)
TASKS = web.AppKey("tasks", list[asyncio.Task[None]])
CONNECTIONS = web.AppKey("connections", Connections)
TRACING = web.AppKey[Tracing | None]("tracing")
DOCUMENT = web.AppKey("document", bytes)
REQUEST_ID_HEADER = "X-Request-Id"
CALLER_HEADER = "X-Caller-Id"
HELD = web.RequestKey("held", Held)
"""What a request holds until its answer is written."""
TRAIL = web.RequestKey("trail", Trail)
REQUEST_ID = web.RequestKey("request_id", str)
