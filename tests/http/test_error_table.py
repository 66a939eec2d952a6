"""The error table of the design, row by row: what the caller is told, and what is held against the replica."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio

from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Answer, Checkpoint, Server, Start, items, serving

ACTIONS = ["short", "surplus", "wide", "half", "nan", "missing", "layout", "early-layout", "unpromised", "stray"]
# Pictures of these sizes are promised 16 tokens, and the stand-in engine does something with each.
SIZES = {action: (112, 100 + place) for place, action in enumerate([*ACTIONS, "bad", "no-memory"])}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row, or a part of one. `evidence` is the result that is counted against the replica, if any."""

    name: str
    body: Any
    status: int
    code: str
    text: str
    evidence: str | None = None
    produced: int | None = None


def check(name: str, action: str, code: str, text: str, evidence: str, produced: int | None = None) -> Row:
    body = items((56, 56), SIZES[action])
    return Row(name=name, body=body, status=502, code=code, text=text, evidence=evidence, produced=produced)


def caller(name: str, body: Any, code: str, text: str, status: int = 400) -> Row:
    return Row(name=name, body=body, status=status, code=code, text=text)


def medium(**fields: Any) -> dict[str, Any]:
    return {"items": [{"modality": "image"} | fields]}


SEED = "Encoder produced {} tokens, but preprocessor metadata expected 16 (item 1, image)"
ROWS = [
    check("rows below the promise", "short", "token_mismatch", SEED.format(15), "count", 15),
    check("rows above the promise", "surplus", "token_mismatch", SEED.format(19), "count", 19),
    check("width", "wide", "width_mismatch", "65 wide", "width", 16),
    check("dtype", "half", "dtype_mismatch", "float16", "dtype", 16),
    check("not finite", "nan", "nonfinite", "not finite", "nonfinite", 16),
    check("layout in the model", "layout", "layout", "position ids do not match", "layout"),
    check("layout in the processor", "early-layout", "layout", "do not fit in the processor", "layout"),
    check("fewer grids than items", "unpromised", "layout", "0 promises came back", "layout"),
    check("fewer rows than items", "missing", "layout", "0 embeddings came back", "layout"),
    check("rows of no item", "stray", "layout", "belong to no item", "layout"),
    caller(
        "unsupported modality", {"items": [{"modality": "smell", "data": "aGk="}]}, "unsupported_modality", "items[0]"
    ),
    caller("bad media at the front", medium(data=base64.b64encode(b"hello").decode()), "bad_media", "items[0]"),
    caller("bad media in the engine", items((56, 56), SIZES["bad"]), "bad_media", "items[1]: the picture is cut off"),
    caller("over a limit of pixels", items((56, 56), (300, 300)), "limit_exceeded", "items[1]: 300x300"),
    caller(
        "over a limit of pixels together",
        items((200, 200), (200, 200)),
        "limit_exceeded",
        "items[1]: image 200x200 brings",
    ),
    caller("over a limit of items", items(*[(56, 56)] * 4), "limit_exceeded", "limit is 3"),
    caller("over a limit of bytes", b" " * 100_001, "limit_exceeded", "100000"),
    caller("the caller's own count", items((56, 56), expected_tokens=5), "promise_mismatch", "items[0]", 422),
    Row(
        name="out of memory alone",
        body=items((56, 56), SIZES["no-memory"]),
        status=500,
        code="internal",
        text="items[1]: out of memory",
    ),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    checkpoint = Checkpoint(folder / "model")
    checkpoint.write(sizes={f"{width}x{height}": action for action, (width, height) in SIZES.items()})
    limits = ("--max-items=3", "--max-pixels=50000", "--max-request-pixels=70000", "--max-body-bytes=100000")
    async with serving(folder, checkpoint, *limits) as serving_one:
        yield serving_one


async def held_against(server: Server) -> dict[str, float]:
    labels = {"modality": "image", "source": "fresh"}
    return {
        result: await server.metric("encoder_token_checks_total", result=result, **labels)
        for result in ("count", "width", "dtype", "nonfinite", "layout")
    }


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
async def test_a_row(server: Server, row: Row) -> None:
    before, media = await held_against(server), await server.metric("encoder_mismatched_media_total")
    answer = await server.encode(row.body)
    assert (answer.status, answer.code) == (row.status, row.code)
    assert row.text in answer.message
    assert answer.blamed == answer.named
    after = await held_against(server)
    assert {result for result in after if after[result] > before[result]} == ({row.evidence} - {None})
    assert await server.metric("encoder_mismatched_media_total") == media + (row.evidence is not None)
    if row.evidence is not None:
        (culprit,) = answer.json["error"]["items"]
        assert (culprit["index"], culprit["produced"]) == (1, row.produced)
        assert culprit["model_revision"] == "b3" * 32
        assert culprit["processor_revision"] == "77" * 32
    assert (await server.encode(items((56, 56)))).status == 200


async def unharmed(server: Server, answer: Answer, status: int, code: str) -> None:
    """The answer is this one, and nothing is held against the replica."""
    assert (answer.status, answer.code) == (status, code)
    assert not any((await held_against(server)).values())


async def test_promise_not_ready_by_the_deadline(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "hang"})
    server = await start("--deadline-seconds=0.4", "--grace-seconds=0.1")
    answers = await asyncio.gather(*(server.encode(items((112, 56))) for _ in range(2)))
    for answer in answers:
        await unharmed(server, answer, 504, "promise_timeout")
    await server.until_load(inFlight=0, queued=0)


async def test_full(start: Start, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    server = await start("--max-in-flight=1")
    first = asyncio.create_task(server.encode(items((112, 56))))
    await server.until_load(inFlight=1, queued=0)
    full = await server.encode(items((56, 56)))
    await unharmed(server, full, 429, "overloaded")
    assert full.headers["Retry-After"]
    await open_gate(server.model)
    assert (await first).status == 200


async def test_cordoned(start: Start) -> None:
    server = await start()
    server.pod.cordon()
    await server.until_state("CORDONED")
    answer = await server.encode(items((56, 56)))
    await unharmed(server, answer, 503, "cordoned")
    assert answer.headers["Connection"] == "close"


async def test_held(start: Start) -> None:
    server = await start(in_pool=True, state="HELD")
    answer = await server.encode(items((56, 56)))
    await unharmed(server, answer, 503, "held")
    assert answer.headers["Connection"] == "close"


async def test_draining(start: Start, checkpoint: Checkpoint) -> None:
    server = await start()
    boot = (await server.identity())["bootId"]
    server.pod.write({}, {"encoderpool.io/order-restart": {"id": "restart-1-1", "bootId": boot}})
    await server.until_state("DRAINING")
    answer = await server.encode(items((56, 56)))
    await unharmed(server, answer, 503, "draining")
    assert answer.headers["Connection"] == "close"


@pytest.mark.parametrize("action", ["die", "crash-late"])
async def test_engine_lost_twice(start: Start, checkpoint: Checkpoint, action: str) -> None:
    checkpoint.write(sizes={"112x56": action})
    server = await start()
    answer = await server.encode(items((112, 56)))
    await unharmed(server, answer, 503, "engine_lost")
    assert answer.headers["Retry-After"]
    assert server.batches == [["112x56"], ["112x56"]]
