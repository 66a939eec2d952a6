"""Tracing: a request's trail as OpenTelemetry spans, sent to a collector by OTLP over HTTP.

Place: asked by `access` when an answer is written; the environment (OTEL_*) says whether, where to and how much. The
spans are made from the trail in one go, so that the stages know nothing of them, and a server without the `tracing`
extra, or without the variables, imports nothing and pays nothing. Must never: fail a request, wait for a collector,
or put anything of a caller's in a span but its trace's ids.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from encoder_server.trail import Trail

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_LOG = logging.getLogger(__name__)
_CLOSE_SECONDS = 3.0


def asked_for(environment: Mapping[str, str]) -> bool:
    """Return whether the environment names a collector of traces, and does not say no."""
    named = any(environment.get(f"OTEL_EXPORTER_OTLP_{kind}ENDPOINT") for kind in ("", "TRACES_"))
    disabled = environment.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return named and not disabled and environment.get("OTEL_TRACES_EXPORTER", "otlp").strip() == "otlp"


def begin(replica: Mapping[str, str]) -> Tracing | None:
    """Return what sends spans, `replica` being their resource; None, and a line of the log, without the extra."""
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        _LOG.warning("tracing_not_installed", extra={"hint": "pip install 'encoderpool[tracing]'"})
        return None
    resource = Resource.create(replica)
    if str(resource.attributes["service.name"]).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "encoder-server"}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return Tracing(provider)


class Tracing:
    """The spans of one server."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("encoder_server")

    def tell(self, trail: Trail, headers: Mapping[str, str], method: str, path: str, status: int | None) -> str:
        """Hand a request's spans over to be sent; return its trace's id, which is the caller's where it has one."""
        from opentelemetry import trace
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        lower = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        root = self._tracer.start_span(
            f"{method} {path}",
            context=TraceContextTextMapPropagator().extract(lower),
            kind=trace.SpanKind.SERVER,
            start_time=trail.began_ns,
            attributes=_attributes(trail, method, path, status),
        )
        if trail.at_fault:
            root.set_status(trace.StatusCode.ERROR)
        whole = trace.set_span_in_context(root)
        for stage in trail.stages:
            if stage.name != "total":
                start, end = (trail.began_ns + int(at * 1e9) for at in (stage.start, stage.end))
                self._tracer.start_span(stage.name, context=whole, start_time=start).end(end)
        root.end(trail.began_ns + int(trail.elapsed * 1e9))
        return trace.format_trace_id(root.get_span_context().trace_id)

    def close(self) -> None:
        """Send what is left, for some seconds at most. Blocking."""
        # The library waits ten times as long for a collector that does not answer.
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_CLOSE_SECONDS)


def _attributes(trail: Trail, method: str, path: str, status: int | None) -> dict[str, str | int]:
    attributes: dict[str, str | int] = {
        "http.request.method": method,
        "http.route": path,
        "encoder.request_id": trail.request_id,
        "encoder.code": trail.code,
        "encoder.items": trail.items,
        "encoder.cached": trail.cached,
        "encoder.tokens": trail.tokens,
    }
    return attributes if status is None else attributes | {"http.response.status_code": status}
