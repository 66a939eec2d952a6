"""What is kept of a request: one line of the log, and spans at a collector where one is named."""

import asyncio
import json
import logging
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from encoder_server import metrics, tracing
from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Start, items, serving, until

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
STAGES = {"body", "media", "cache", "promise", "queue", "engine", "encode", "check", "deliver"}


def lines(caplog: pytest.LogCaptureFixture, path: str = "/v1/encode") -> list[Any]:
    """The lines about requests for one path."""
    found = [vars(record) for record in caplog.records if record.message == "request"]
    return [line for line in found if line["path"] == path]


@pytest.fixture(autouse=True)
def every_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "encoder_server")


async def test_each_stage_is_timed_once_for_each_request_that_comes_to_it(start: Start) -> None:
    server = await start("--cache-bytes=1000000")
    for _ in range(2):
        await server.encode(items((56, 56)))
    timed = {stage: await server.metric("encoder_stage_seconds_count", stage=stage) for stage in metrics.STAGES}
    short = {"body", "media", "cache", "total"}  # What is known comes to these alone.
    assert timed == {stage: 2.0 if stage in short else 1.0 for stage in metrics.STAGES}


async def test_each_request_has_one_line_with_what_it_was_and_cost(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    server = await start("--cache-bytes=1000000")
    headers = {"X-Request-Id": "mine-1", "traceparent": TRACEPARENT}
    for _ in range(2):
        answer = await server.encode(items((56, 56), (112, 56)), **headers)
    first, second = lines(caplog)
    assert (first["request_id"], first["trace_id"], first["status"], first["code"]) == ("mine-1", TRACE, 200, "ok")
    assert (first["items"], first["cached"], first["fresh"], first["tokens"]) == (2, 0, 2, 12)
    assert (second["items"], second["cached"], second["fresh"], second["tokens"]) == (2, 2, 0, 12)
    assert first["bytes_in"] == len(json.dumps(items((56, 56), (112, 56))))
    assert 0 < first["bytes_out"] - len(answer.body) < 1000  # The head is counted too.
    assert first["ms"].keys() == STAGES | {"total"}
    # Known, it waits for nothing, and its check is a part of `cache`.
    assert second["ms"].keys() == {"body", "media", "cache", "total"}
    assert all(0 <= spent <= first["ms"]["total"] for spent in first["ms"].values())
    assert first["levelname"] == "INFO"
    assert all(line["levelname"] == "DEBUG" for line in lines(caplog, "/readyz"))


@pytest.mark.parametrize(
    ("body", "accept", "status", "code"),
    [
        (b"{", "application/json", 400, "bad_request"),
        (items((56, 56), expected_tokens=5), "application/json", 422, "promise_mismatch"),
        (items((56, 56)), "text/html", 406, "not_acceptable"),
        (items((112, 56)), "application/json", 502, "token_mismatch"),
        (items((112, 56)), "multipart/mixed", 200, "token_mismatch"),
    ],
)
async def test_the_line_says_how_a_request_failed(
    start: Start,
    checkpoint: Checkpoint,
    caplog: pytest.LogCaptureFixture,
    body: Any,
    accept: str,
    status: int,
    code: str,
) -> None:
    checkpoint.write(sizes={"112x56": "short"})
    server = await start()
    await server.encode(body, accept=accept)
    (line,) = lines(caplog)
    assert (line["status"], line["code"]) == (status, code)


async def test_one_who_leaves_has_a_line_too(
    start: Start, checkpoint: Checkpoint, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start()
    request = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_load(inFlight=1)
    request.cancel()
    await server.until_load(inFlight=0)
    await open_gate(server.model)
    (line,) = lines(caplog)
    assert (line["status"], line["code"]) == (None, "cancelled")


@pytest.mark.parametrize(
    "given",
    [
        "",
        "00-0-0-00",
        f"ff-{TRACE}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{PARENT}-01\u00e9",
        "x" * 5000,
    ],
)
async def test_a_traceparent_that_cannot_be_read_and_a_strange_path_leave_nothing_of_theirs(
    start: Start, caplog: pytest.LogCaptureFixture, given: str
) -> None:
    server = await start()
    async with server.session.get(f"{server.url}/secret/{'y' * 500}", headers={"traceparent": given}) as answer:
        assert answer.status == 404
    (line,) = lines(caplog, "unknown")
    assert (line["trace_id"], line["code"]) == (None, "not_found")


@asynccontextmanager
async def collector() -> AsyncIterator[tuple[str, list[Any]]]:
    """A receiver of OTLP over HTTP; the spans that came, each with its resource's attributes."""
    spans: list[Any] = []

    async def take(request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for group in sent.resource_spans:
            about = {each.key: each.value.string_value for each in group.resource.attributes}
            spans.extend((span, about) for scope in group.scope_spans for span in scope.spans)
        return web.Response(content_type="application/x-protobuf")

    app = web.Application()
    app.router.add_post("/v1/traces", take)
    runner = web.AppRunner(app)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}", spans
    finally:
        await runner.cleanup()


def values(span: Any) -> dict[str, Any]:
    return {each.key: each.value.string_value or each.value.int_value for each in span.attributes}


async def test_spans_of_a_request_and_its_stages_come_to_the_collector_in_the_callers_trace(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with collector() as (url, spans):
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_BSP_SCHEDULE_DELAY": "50"}
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        async with serving(tmp_path, checkpoint, environment=environment) as server:
            await server.encode(items((56, 56)), traceparent=TRACEPARENT)

            async def arrived() -> bool:
                return any(span.name == "POST /v1/encode" for span, _ in spans)

            await until(arrived)
        roots = [(span, about) for span, about in spans if span.name == "POST /v1/encode"]
        ((root, about),) = roots
        assert (root.trace_id.hex(), root.parent_span_id.hex()) == (TRACE, PARENT)
        assert about["service.name"] == "encoder-server"
        assert about["encoder.revision"] == "5d41402abc"
        found = values(root)
        assert (found["http.response.status_code"], found["encoder.code"], found["encoder.tokens"]) == (200, "ok", 4)
        inside = {span.name: span for span, _ in spans if span.parent_span_id == root.span_id}
        assert inside.keys() == STAGES
        for span in inside.values():
            assert root.start_time_unix_nano <= span.start_time_unix_nano <= span.end_time_unix_nano
            assert span.end_time_unix_nano <= root.end_time_unix_nano
        assert inside["queue"].end_time_unix_nano == inside["engine"].start_time_unix_nano


async def test_a_failed_request_is_an_error_span_and_its_own_trace_is_in_the_log(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    checkpoint.write(sizes={"112x56": "short"})
    async with collector() as (url, spans):
        environment = {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{url}/v1/traces"}
        monkeypatch.setenv(*next(iter(environment.items())))
        async with serving(tmp_path, checkpoint, environment=environment) as server:
            await server.encode(items((112, 56)), accept="multipart/mixed")
            await server.encode(b"{")
        # What is left is sent as the server leaves.
        wrong, unreadable = (span for span, _ in spans if span.name == "POST /v1/encode")
        assert (values(wrong)["encoder.code"], wrong.status.code) == ("token_mismatch", 2)
        assert (values(unreadable)["encoder.code"], unreadable.status.code) == ("bad_request", 0)
        assert [line["trace_id"] for line in lines(caplog)] == [wrong.trace_id.hex(), unreadable.trace_id.hex()]


async def test_a_collector_that_is_not_there_costs_no_answer(
    tmp_path: Path, checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    monkeypatch.setenv(*next(iter(environment.items())))
    async with serving(tmp_path, checkpoint, environment=environment) as server:
        assert (await server.encode(items((56, 56)))).status == 200


def test_traces_are_sent_only_where_the_environment_asks_for_them() -> None:
    named = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}
    assert tracing.asked_for(named)
    assert not tracing.asked_for({})
    assert not tracing.asked_for(named | {"OTEL_SDK_DISABLED": "true"})
    assert not tracing.asked_for(named | {"OTEL_TRACES_EXPORTER": "none"})


def test_without_the_extra_the_server_says_so_and_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.resources", None)
    assert tracing.begin({}) is None
    assert "tracing_not_installed" in caplog.messages
