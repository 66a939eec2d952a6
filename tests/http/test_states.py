"""From starting to draining: what the replica says of itself, and whom it serves."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

from tests.http.test_engine_faults import open_gate
from tests.http.under_test import REVISION, Checkpoint, Server, Start, items, until

CONTRACT = Path(__file__).parents[1] / "contract"
IDENTITY = json.loads((CONTRACT / "identity.json").read_text())
ORDERS = json.loads((CONTRACT / "orders.json").read_text())


def expect(server: Server, **changes: str) -> None:
    """Write the expected-identity file as the operator does."""
    learned = json.loads((CONTRACT / "expected.json").read_text())["learned"]
    server.expected.write_text(json.dumps(learned | {"signature": None} | changes))


async def test_a_replica_in_a_pool_is_held_until_it_is_what_the_file_says(start: Start) -> None:
    server = await start(in_pool=True, state="HELD")
    identity = await server.identity()
    assert (identity["reason"], identity["expected"], identity["probe"]["result"]) == ("Learning", None, "passed")
    held = await server.encode(items((56, 56)))
    assert (held.status, held.code, held.headers["Connection"]) == (503, "held", "close")
    expect(server, fingerprint="0" * 64)
    await server.until_state("HELD", "FingerprintDrift")
    expect(server, fingerprint=identity["fingerprint"])
    await server.until_state("READY", "AsExpected")
    assert (await server.encode(items((56, 56)))).status == 200
    server.expected.unlink()
    server.expected.write_text("not json")
    expect(server, fingerprint=identity["fingerprint"], signature="AAAA" * 21 + "AA==")
    await server.until_state("HELD", "SignatureDrift")


async def test_an_expected_file_that_vanishes_takes_no_serving_replica_down(start: Start) -> None:
    server = await start(in_pool=True, state="HELD")
    expect(server, fingerprint=(await server.identity())["fingerprint"])
    await server.until_state("READY")
    server.expected.write_text("{")
    server.pod.cordon()
    await server.until_state("CORDONED")
    server.pod.write({}, {})
    await server.until_state("READY")


async def test_what_is_no_file_in_place_of_the_expected_one_is_not_waited_for(start: Start) -> None:
    server = await start(in_pool=True, state="HELD")
    expect(server, fingerprint=(await server.identity())["fingerprint"])
    await server.until_state("READY")
    server.expected.unlink()
    os.mkfifo(server.expected)
    for _ in range(2):
        server.pod.cordon()
        await server.until_state("CORDONED")
        server.pod.write({}, {})
        await server.until_state("READY")


async def test_a_replica_whose_probe_fails_is_held_whatever_is_expected(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(golden="count")
    server = await start(state="HELD")
    identity = await server.identity()
    assert (identity["reason"], identity["probe"]["result"]) == ("ProbeFailed", "failed")
    assert identity["message"] == (
        "Encoder produced 3 tokens, but preprocessor metadata expected 4 (image 56x56, item 0)"
    )
    assert len(identity["fingerprint"]) == 64
    assert await server.metric("encoder_token_checks_total", modality="image", source="probe", result="count") == 1


async def test_the_identity_has_the_contracts_shape_in_every_state(start: Start) -> None:
    server = await start()
    answer = await server.get("/v1/identity")
    assert answer.headers["Cache-Control"] == "no-store"
    example = IDENTITY["admitted"]
    assert list(answer.json) == list(example)
    assert answer.json["exact"].keys() == example["exact"].keys()
    assert answer.json["exact"]["probe"] == example["exact"]["probe"]
    assert answer.json["probe"].keys() == example["probe"].keys()
    assert answer.json["probe"]["items"] == example["probe"]["items"]
    assert answer.json["check"] == example["check"]


async def test_a_cordon_answers_open_connections_with_503_and_closes_them(start: Start) -> None:
    server = await start()
    host, port = server.url.removeprefix("http://").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b"GET /v1/limits HTTP/1.1\r\nHost: x\r\n\r\n")
    assert b" 200 " in await reader.readline()
    length = int((await reader.readuntil(b"\r\n\r\n")).lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    await reader.readexactly(length)
    server.pod.cordon()
    await server.until_state("CORDONED")
    writer.write(b"POST /v1/encode HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
    async with asyncio.timeout(10):
        refusal = await reader.read()  # To the end: the server closes the connection after its answer.
    assert refusal.startswith(b"HTTP/1.1 503 ")
    assert b"connection: close" in refusal.lower()
    assert b'"cordoned"' in refusal
    writer.close()
    await writer.wait_closed()
    ready = await server.get("/readyz")
    assert (ready.status, ready.json["state"], ready.json["reason"]) == (503, "CORDONED", "Cordoned")
    refused = await server.encode(items((56, 56)))
    assert (refused.status, refused.code) == (503, "cordoned")
    assert (refused.headers["Connection"], refused.headers["Retry-After"]) == ("close", "1")
    assert await server.metric("encoder_ready", reason="Cordoned") == 0
    server.pod.write({"encoderpool.io/serving": "true"}, {})
    await server.until_state("READY")


async def test_a_request_that_was_admitted_before_the_cordon_is_answered_and_then_closed(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start()
    accepted = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_load(inFlight=1, queued=0)
    server.pod.cordon()
    await server.until_state("CORDONED")
    await open_gate(server.model)
    assert ((await accepted).status, (await accepted).headers["Connection"]) == (200, "close")


def probe_order(boot_id: str, sizes: list[dict[str, Any]], order_id: str = "probe-2-1") -> dict[str, Any]:
    value = ORDERS["probe"]["value"] | {"bootId": boot_id, "sizes": sizes, "id": order_id}
    return {ORDERS["probe"]["annotation"]: value}


async def test_an_ordered_probe_runs_on_a_cordoned_replica_and_is_reported(
    start: Start, checkpoint: Checkpoint
) -> None:
    checkpoint.write(sizes={"640x480": "short"})
    server = await start()
    boot = (await server.identity())["bootId"]
    server.pod.cordon(**probe_order(boot, ORDERS["probe"]["value"]["sizes"]))

    async def done() -> Any:
        identity = await server.identity()
        order = identity["orders"]["probe"]
        return order and order["result"] != "running" and identity

    identity = await until(done)
    assert identity["state"] == "CORDONED"
    assert identity["orders"]["probe"] == {"id": "probe-2-1", "result": "failed"}
    assert (identity["probe"]["orderId"], identity["probe"]["result"]) == ("probe-2-1", "failed")
    assert [item["result"] for item in identity["probe"]["items"]] == ["ok", "count"]
    assert identity["recentViolations"] == []
    labels = {"modality": "image", "result": "count"}
    assert await server.metric("encoder_token_checks_total", source="probe", **labels) == 1
    assert await server.metric("encoder_token_checks_total", source="fresh", **labels) == 0
    server.pod.cordon(**probe_order(boot, [], "probe-2-2"))
    await until(lambda: _probe_is(server, {"id": "probe-2-2", "result": "passed"}))


async def test_a_serving_replica_answers_what_it_is_asked_and_serves_on(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"640x480": "short"})
    server = await start()
    boot = (await server.identity())["bootId"]
    question = ORDERS["question"]["value"] | {"bootId": boot}
    server.pod.write({"encoderpool.io/serving": "true"}, {ORDERS["question"]["annotation"]: question})
    await until(lambda: _probe_is(server, {"id": question["id"], "result": "failed"}))
    identity = await server.identity()
    assert (identity["state"], identity["reason"]) == ("READY", "AsExpected")
    failed = [item for item in identity["probe"]["items"] if item["result"] != "ok"]
    assert [(item["width"], item["height"], item["result"]) for item in failed] == [(640, 480, "count")]
    assert (await server.get("/readyz")).status == 200


async def _probe_is(server: Server, wanted: dict[str, str]) -> bool:
    return bool((await server.identity())["orders"]["probe"] == wanted)


async def test_an_order_for_another_boot_or_without_sense_is_ignored(start: Start) -> None:
    server = await start()
    other = probe_order("0" * 32, []) | {ORDERS["restart"]["annotation"]: ORDERS["restart"]["value"]}
    server.pod.cordon(**other)
    await server.until_state("CORDONED")
    server.pod.write({}, {ORDERS["probe"]["annotation"]: "nonsense", ORDERS["restart"]["annotation"]: [1]})
    identity = await server.until_state("READY")
    assert identity["orders"] == {"probe": None, "restart": None, "flush": None}


async def test_a_probe_that_was_done_is_not_done_again_though_another_came_between(start: Start) -> None:
    server = await start()
    boot = (await server.identity())["bootId"]
    server.pod.cordon(**probe_order(boot, [], "first"))
    await until(lambda: _probe_is(server, {"id": "first", "result": "passed"}))
    server.pod.cordon(**probe_order(boot, [], "second"))
    await until(lambda: _probe_is(server, {"id": "second", "result": "passed"}))
    server.pod.write({"encoderpool.io/serving": "true"}, probe_order(boot, [], "first"))
    await server.until_state("READY")
    assert await _probe_is(server, {"id": "second", "result": "passed"})


async def test_a_probe_that_kills_its_engine_has_failed(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"640x480": "die"})
    server = await start()
    boot = (await server.identity())["bootId"]
    server.pod.cordon(**probe_order(boot, ORDERS["probe"]["value"]["sizes"]))
    await until(lambda: _probe_is(server, {"id": "probe-2-1", "result": "failed"}))
    await server.until_state("CORDONED")


async def test_the_front_answers_limits_and_load(start: Start) -> None:
    server = await start()
    limits = (await server.get("/v1/limits")).json
    assert (limits["modalities"], limits["maxItems"], limits["maxPixels"]) == (["image"], 16, 16777216)
    assert limits["maxRequestPixels"] == 4 * 16777216
    load = (await server.get("/v1/load")).json
    assert load == {"inFlight": 0, "inFlightBytes": 0, "queued": 0, "batchBudget": 0, "enginesReady": 1, "engines": 1}
    info = {"fingerprint": (await server.identity())["fingerprint"], "revision": REVISION, "pod_uid": "0b6b"}
    boot = (await server.identity())["bootId"]
    assert await server.metric("encoder_identity_info", **info, boot_id=boot) == 1
