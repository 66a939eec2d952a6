"""The scenarios: two sides, what is sent, and the ratio that this server is to reach against the other.

One core each for the server and for the load, as the targets have it; two engines have the machine to themselves.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.bench.bodies import FORM
from tests.bench.kit import Kit
from tests.bench.load import Load
from tests.bench.sides import PROGRAMS, Loop, Served, Side, echo, ours

SERVER, CLIENT = (0,), (1,)
_ROW_BYTES, _HEAD_BYTES = 256, 450  # Of the tiny checkpoint's rows, and of an answer beside them.
_CACHE = "--cache-bytes=536870912"
_RAW = "image/jpeg"
_JSON = "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """`target`: the least ratio of this server's rate to the other side's."""

    name: str
    title: str
    target: float
    ours: Side
    other: Side


def build(kit: Kit, only: Sequence[str]) -> list[Scenario]:
    """Return the scenarios whose names begin with one of `only` (empty: all), in order."""
    wanted = [name for name in MAKERS if not only or name.startswith(tuple(only))]
    return [MAKERS[name](kit, name) for name in wanted]


def _cached(kit: Kit, name: str) -> Scenario:
    large = name.endswith("231k")
    picture, tokens = (kit.large, 999) if large else (kit.small, 64)
    load = Load(body=kit.form(picture), content_type=FORM, clients=16, cpus=CLIENT)
    return Scenario(
        name=name,
        title=f"cached, a body of {'231' if large else '15'} kB, against aiohttp that only reads and replies",
        target=0.75 if large else 0.85,
        ours=ours("cached", kit.checkpoint, load, SERVER, "--engines=1", _CACHE),
        other=echo(load, tokens * _ROW_BYTES + _HEAD_BYTES, SERVER),
    )


def _fresh_one(kit: Kit, name: str) -> Scenario:
    return Scenario(
        name=name,
        title="fresh, one engine on one core, 32 clients, against the bare batched loop",
        target=0.9,
        ours=_fresh(kit),
        other=_loop(kit, "bare", "the bare loop, batches of 8", count=1, cpus=SERVER),
    )


def _fresh_two(kit: Kit, name: str) -> Scenario:
    load = Load(body=kit.form(kit.small), content_type=FORM, clients=16)
    return Scenario(
        name=name,
        title="fresh, two engines on two cores, 16 clients, against two bare loops",
        target=0.9,
        ours=ours("two engines", kit.checkpoint, load, None, "--engines=2"),
        other=_loop(kit, "bare", "two bare loops", count=2, cpus=None),
    )


def _users_loop(kit: Kit, name: str) -> Scenario:
    return Scenario(
        name=name,
        title="fresh, one engine on one core, 32 clients, against the loop that users write",
        target=2.0,
        ours=_fresh(kit),
        other=_loop(kit, "users", "transformers, PIL backend, Conv3d, one by one", count=1, cpus=SERVER),
    )


def _batched(kit: Kit, name: str) -> Scenario:
    load = Load(body=kit.form(kit.tiny), content_type=FORM, clients=32, cpus=CLIENT)
    return Scenario(
        name=name,
        title="56-pixel items, 32 clients, batched against one by one",
        target=2.5,
        ours=ours("batched", kit.checkpoint, load, SERVER, "--engines=1"),
        other=ours("unbatched", kit.checkpoint, load, SERVER, "--engines=1", "--batch-budget=1"),
    )


def _constant(kit: Kit, name: str) -> Scenario:
    load = Load(body=kit.form(kit.tiny), content_type=FORM, clients=32, cpus=CLIENT)
    return Scenario(
        name=name,
        title="a constant model, 32 clients, against aiohttp that only reads and replies",
        target=0.45,
        ours=ours("constant", kit.checkpoint, load, SERVER, "--engines=1", constant=True),
        other=echo(load, 4 * 64 + _HEAD_BYTES, SERVER),
    )


def _mosec(kit: Kit, name: str) -> Scenario:
    load = Load(body=kit.small, content_type=_RAW, clients=32, cpus=CLIENT)
    mosec = Served(
        title="mosec",
        command=[str(kit.python("bench")), str(PROGRAMS / "mosec_server.py"), "--port={port}"],
        path="/inference",
        ready="/",
        load=load,
        cpus=SERVER,
        environment={"CHECKPOINT": str(kit.checkpoint)},
    )
    return Scenario(name=name, title="fresh, 32 clients, against mosec", target=0.95, ours=_fresh(kit), other=mosec)


def _litserve(kit: Kit, name: str) -> Scenario:
    """On CLIP, whose own work is little, so that the servers' shows."""
    data = base64.b64encode(kit.small.read_bytes()).decode()
    body = kit.written("litserve.json", json.dumps({"data": data}).encode())
    program = PROGRAMS / "litserve_server.py"
    litserve = Served(
        title="LitServe",
        command=[str(kit.python("bench")), str(program), "{port}", str(kit.clip)],
        path="/predict",
        ready="/health",
        load=Load(body=body, content_type=_JSON, clients=32, cpus=CLIENT),
        cpus=SERVER,
    )
    return Scenario(
        name=name, title="fresh, CLIP, 32 clients, against LitServe", target=1.5, ours=_clip(kit), other=litserve
    )


def _infinity(kit: Kit, name: str) -> Scenario:
    """On CLIP's pooled rows, which is what infinity-emb serves."""
    data = base64.b64encode(kit.small.read_bytes()).decode()
    asked = {"model": "clip", "input": [f"data:image/jpeg;base64,{data}"], "modality": "image"}
    body = kit.written("infinity.json", json.dumps(asked).encode())
    infinity = Served(
        title="infinity-emb",
        command=[
            *(str(kit.python("bench-infinity").with_name("infinity_emb")), "v2", "--model-id", str(kit.clip)),
            *("--served-model-name", "clip", "--engine", "torch", "--device", "cpu", "--port", "{port}"),
            *("--batch-size", "8", "--no-bettertransformer", "--no-model-warmup", "--host", "127.0.0.1"),
        ],
        path="/embeddings",
        ready="/health",
        load=Load(body=body, content_type=_JSON, clients=32, cpus=CLIENT),
        cpus=SERVER,
        environment={"DO_NOT_TRACK": "1"},
    )
    return Scenario(
        name=name, title="fresh, CLIP, 32 clients, against infinity-emb", target=1.5, ours=_clip(kit), other=infinity
    )


def _clip(kit: Kit) -> Served:
    load = Load(body=kit.form(kit.small), content_type=FORM, clients=32, cpus=CLIENT)
    return ours("CLIP, pooled", kit.clip, load, SERVER, "--engines=1", "--encoder=clip_pooled")


def _fresh(kit: Kit) -> Served:
    load = Load(body=kit.form(kit.small), content_type=FORM, clients=32, cpus=CLIENT)
    return ours("one engine", kit.checkpoint, load, SERVER, "--engines=1")


def _loop(kit: Kit, kind: str, title: str, *, count: int, cpus: Sequence[int] | None) -> Loop:
    return Loop(title=title, kind=kind, checkpoint=kit.checkpoint, picture=kit.small, batch=8, count=count, cpus=cpus)


MAKERS: dict[str, Callable[[Kit, str], Scenario]] = {
    "cached-15k": _cached,
    "cached-231k": _cached,
    "fresh-one": _fresh_one,
    "fresh-two": _fresh_two,
    "users-loop": _users_loop,
    "batched": _batched,
    "constant": _constant,
    "mosec": _mosec,
    "litserve": _litserve,
    "infinity": _infinity,
}
