"""A server under test: its checkpoint, its pod, its files, and a client for it."""

import asyncio
import base64
import io
import json
import os
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import aiohttp
from aiohttp import web
from PIL import Image
from prometheus_client.parser import text_string_to_metric_families

from encoder_server import app, cli

ENGINE = (sys.executable, str(Path(__file__).with_name("stand_in_engine.py")))
REVISION = "5d41402abc"
Change = Callable[[web.Application], None]


def picture(width: int = 56, height: int = 56, form: str = "PNG", shade: int = 0) -> str:
    """A picture in base64."""
    file = io.BytesIO()
    Image.new("RGB", (width, height), (shade, 0, 0)).save(file, form)
    return base64.b64encode(file.getvalue()).decode()


def items(*sizes: tuple[int, int], **fields: Any) -> dict[str, Any]:
    return {"items": [{"modality": "image", "data": picture(*size), **fields} for size in sizes]}


async def until(condition: Callable[[], Awaitable[Any]], seconds: float = 15) -> Any:
    """Return the condition's first true value; fails when there is none in time."""
    async with asyncio.timeout(seconds):
        while not (value := await condition()):  # noqa: ASYNC110 - what is awaited is another process
            await asyncio.sleep(0.01)
        return value


class Pod:
    """A pod's downwardAPI volume, written as the kubelet writes it: a new folder, then one swapped link."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._count = 0
        directory.mkdir()
        self.write({"encoderpool.io/serving": "true"}, {})
        for name in ("labels", "annotations"):
            (directory / name).symlink_to(f"..data/{name}")

    def write(self, labels: dict[str, str], annotations: dict[str, Any]) -> None:
        self._count += 1
        folder = self.directory / f"..2026_{self._count}"
        folder.mkdir()
        notes = {key: json.dumps(value) for key, value in annotations.items()}
        for name, pairs in (("labels", labels), ("annotations", notes)):
            lines = (f"{key}={json.dumps(value)}" for key, value in pairs.items())
            (folder / name).write_text("\n".join(lines))
        (self.directory / "..data_tmp").symlink_to(folder.name)
        os.replace(self.directory / "..data_tmp", self.directory / "..data")

    def cordon(self, **annotations: Any) -> None:
        self.write({"encoderpool.io/serving": "false"}, annotations)


@dataclass
class Answer:
    status: int
    headers: Any
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])

    @property
    def message(self) -> str:
        return str(self.json["error"]["message"])

    @property
    def blamed(self) -> list[int]:
        """The items that a program is told of."""
        return [item["index"] for item in self.json["error"]["items"]]

    @property
    def named(self) -> list[int]:
        """The item that a person is told of first, if any."""
        found = re.search(r"items\[(\d+)\]|\(item (\d+),", self.message)
        return [] if found is None else [int(found[1] or found[2])]


@dataclass
class Client:
    """Talks to a server at `url`."""

    url: str
    session: aiohttp.ClientSession

    async def get(self, path: str) -> Answer:
        async with self.session.get(self.url + path) as response:
            return Answer(response.status, response.headers, await response.read())

    async def encode(self, body: Any, accept: str = "application/json", **headers: str) -> Answer:
        headers = {"Accept": accept, **headers}
        data = json.dumps(body).encode() if isinstance(body, dict | list) else body
        async with self.session.post(self.url + "/v1/encode", data=data, headers=headers) as response:
            return Answer(response.status, response.headers, await response.read())

    async def identity(self) -> Any:
        return (await self.get("/v1/identity")).json

    async def until_state(self, state: str, reason: str | None = None, seconds: float = 15) -> Any:
        async def reached() -> Any:
            identity = await self.identity()
            return identity["state"] == state and reason in (None, identity["reason"]) and identity

        return await until(reached, seconds)

    async def until_load(self, **values: int) -> Any:
        async def reached() -> bool:
            load = (await self.get("/v1/load")).json
            return all(load[name] == value for name, value in values.items())

        return await until(reached)

    async def metric(self, name: str, **labels: str) -> float:
        """The value of one sample."""
        text = (await self.get("/metrics")).body.decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                if sample.name == name and sample.labels == labels:
                    return sample.value
        raise AssertionError(f"no sample {name} {labels}")


@dataclass
class Server(Client):
    """The app in this process, with its checkpoint, its pod and its expected-identity file."""

    model: Path
    pod: Pod
    expected: Path
    app: web.Application

    @property
    def batches(self) -> list[list[str]]:
        """The sizes in each batch that an engine was given."""
        return self._noted("batches")

    @property
    def encoded(self) -> list[list[str]]:
        """The sizes in each batch for which an engine ran its model."""
        return self._noted("encoded")

    def _noted(self, name: str) -> list[list[str]]:
        log = self.model / name
        return [line.split() for line in log.read_text().splitlines()] if log.exists() else []

    async def until_taken(self) -> None:
        """Wait until an engine has been given a batch: what is sent from then on waits behind it."""

        async def taken() -> bool:
            return bool(self.batches)

        await until(taken)


class Start(Protocol):
    """Starts a server: see `serving` for the arguments."""

    async def __call__(self, *arguments: str, in_pool: bool = False, state: str = "READY") -> Server: ...


@dataclass
class Checkpoint:
    """A directory whose script tells stand-in engines what to do."""

    directory: Path
    script: dict[str, Any] = field(default_factory=dict)

    def write(self, **script: Any) -> Path:
        self.directory.mkdir(exist_ok=True)
        self.script = script
        (self.directory / "script.json").write_text(json.dumps(script))
        if not (self.directory / "gate").exists():
            os.mkfifo(self.directory / "gate")
        return self.directory


@asynccontextmanager
async def serving(
    folder: Path,
    checkpoint: Checkpoint,
    *arguments: str,
    in_pool: bool = False,
    state: str = "READY",
    before: Change | None = None,
    environment: Mapping[str, str] | None = None,
    engine: Sequence[str] = ENGINE,
    seconds: float = 15,
) -> AsyncIterator[Server]:
    """A server with these arguments; outside a pool it serves once it is probed. `before` may add to the app,
    `engine` is the engine program, which may take `seconds` to load."""
    pod, expected = Pod(folder / "pod"), folder / f"{REVISION}.json"
    options = ["serve", str(checkpoint.directory), "--port=0", "--engines=1", f"--revision={REVISION}"]
    options += ["--backoff-seconds=0.05", "--evidence-seconds=3600", f"--pod-directory={pod.directory}", *arguments]
    if in_pool:
        options.append(f"--expected-identity={expected}")
    settings = cli.read_settings(options, {"POD_NAME": "vision-1", "POD_UID": "0b6b", **(environment or {})})
    application = app.build(settings, engine)
    if before is not None:
        before(application)
    runner = await app.start(application)
    try:
        await web.TCPSite(runner, settings.host, 0).start()
        async with aiohttp.ClientSession() as session:
            server = Server(
                url=f"http://127.0.0.1:{runner.addresses[0][1]}",
                session=session,
                model=checkpoint.directory,
                pod=pod,
                expected=expected,
                app=application,
            )
            await server.until_state(state, seconds=seconds)
            yield server
    finally:
        await app.leave(application, runner)
