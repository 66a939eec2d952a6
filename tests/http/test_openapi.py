"""The document of the interface: it is what the routes do, and a fuzzer finds no answer that it does not say."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31_VALIDATOR

from encoder_server.answers import Identity
from tests.http.test_process import running
from tests.http.under_test import Checkpoint, Server, Start, items

CONTRACT = Path(__file__).parents[1] / "contract"
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "negative_data_rejection",
    "unsupported_method",
    "allow_header_conformance",
)
CASES = 15


async def fuzz(url: str, folder: Path) -> tuple[int, str, Any]:
    """Run the fuzzer as one would by hand, always the same cases; its exit status, what it prints and its report."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "schemathesis.cli", "--no-color", "run", f"{url}/openapi.json"]
    command += [f"--checks={','.join(CHECKS)}", f"--max-examples={CASES}", "--phases=examples,coverage,fuzzing"]
    command += ["--generation-deterministic", "--header=Accept: application/json", f"--report-json-path={report}"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "tests.http.fuzzer_hooks"}
    environment["PYTHONPATH"] = str(Path(__file__).parents[2])
    process = await asyncio.create_subprocess_exec(
        *command, cwd=folder, env=environment, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        printed, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    return process.returncode or 0, printed.decode(), json.loads(report.read_text()) if report.exists() else None


async def test_a_fuzzer_meets_no_answer_that_the_document_does_not_say(tmp_path: Path, checkpoint: Checkpoint) -> None:
    async with running(tmp_path, checkpoint) as server:
        document = (await server.get("/openapi.json")).json
        status, printed, report = await fuzz(server.url, tmp_path)
        assert status == 0, printed
        # All but the one that it read the document from.
        assert report["operations"]["tested"] == len(document["paths"]) - 1
        assert report["test_cases"]["errored"] == 0
        for code in ("ok", "bad_request", "bad_media", "unsupported_modality"):
            assert await server.metric("encoder_requests_total", code=code) > 0
        assert await server.metric("encoder_requests_total", code="internal") == 0


async def test_the_document_is_openapi_and_has_every_route(start: Start) -> None:
    server = await start()
    document = (await server.get("/openapi.json")).json
    OPENAPI_31_VALIDATOR.validate(document)
    routes = {(route.method, route.resource.canonical) for route in server.app.router.routes() if route.resource}
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(method, path) for method, path in routes if method != "HEAD"}


def closed(schema: Any) -> Any:
    """The schema with no room for a field that it does not name."""
    if isinstance(schema, list):
        return [closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    tight = {name: closed(each) for name, each in schema.items()}
    if isinstance(schema.get("properties"), dict):
        tight["additionalProperties"] = False
    return tight


def fields(document: Any, name: str) -> set[str]:
    return set(document["components"]["schemas"][name]["properties"])


async def test_every_answer_has_the_fields_of_the_document_and_no_others(start: Start) -> None:
    server = await start()
    document = (await server.get("/openapi.json")).json
    answers = {
        "Limits": (await server.get("/v1/limits")).json,
        "Load": (await server.get("/v1/load")).json,
        "Readiness": (await server.get("/readyz")).json,
        "Encoded": (await server.encode(items((56, 56)))).json,
        "ErrorAnswer": (await server.encode(items((56, 56), expected_tokens=5))).json,
    }
    for name, answer in answers.items():
        schema = {"$ref": f"#/components/schemas/{name}", "components": closed(document["components"])}
        jsonschema.Draft202012Validator(schema).validate(answer)
        assert answer.keys() == fields(document, name)
    assert answers["ErrorAnswer"]["error"]["items"]
    assert (await server.get("/v1/identity")).json.keys() == fields(document, "Identity")
    assert (await server.get("/healthz")).json.keys() < fields(document, "Alive")


@pytest.mark.parametrize("state", ["starting", "admitted", "probeFailed", "cordonedAfterOrderedProbe"])
def test_every_identity_of_the_contract_fits_the_document(state: str) -> None:
    identity = json.loads((CONTRACT / "identity.json").read_text())[state]
    read = Identity.model_validate(identity)
    assert read.model_dump(mode="json", by_alias=True) == identity


async def test_an_error_is_documented_with_the_codes_of_its_status(start: Start) -> None:
    wire = json.loads((CONTRACT / "wire.json").read_text())
    server: Server = await start()
    responses = (await server.get("/openapi.json")).json["paths"]["/v1/encode"]["post"]["responses"]
    for code, status in wire["statusByCode"].items():
        if code in ("not_found", "method_not_allowed"):
            continue
        answer = responses[str(status)]
        assert code in json.dumps(answer["content"]["application/json"]["schema"])
        waits = code in wire["retryAfter"]
        assert ("Retry-After" in answer["headers"]) == waits
        assert "X-Request-Id" in answer["headers"]
