"""Sides: what a scenario compares. Each starts its processes in a folder, and can then be measured again and again."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from tests.bench.load import Load, post
from tests.bench.processes import ROOT, Program, free_port
from tests.bench.statistics import Measured

PROGRAMS = ROOT / "tests" / "bench" / "programs"
CONSTANT = ROOT / "tests" / "bench" / "constant_encoder"


class Running(Protocol):
    """A side that was started."""

    @property
    def programs(self) -> Sequence[Program]:
        """What runs for it."""
        ...

    def measure(self, seconds: float) -> Measured:
        """Work for so long."""
        ...


class Side(Protocol):
    """What can be started; `title` is for the report."""

    @property
    def title(self) -> str:
        """What it is, in a few words."""
        ...

    def start(self, folder: Path) -> AbstractContextManager[Running]:
        """Start it; its logs go into `folder`."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Posted:
    """A server that answers `load` at `url`."""

    program: Program
    url: str
    load: Load

    @property
    def programs(self) -> Sequence[Program]:
        """See `Running`."""
        return [self.program]

    def measure(self, seconds: float) -> Measured:
        """See `Running`."""
        return post(self.load, self.url, seconds, self.program)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """A server: `command` with {port} in its place, `ready` the path that answers once it serves."""

    title: str
    command: Sequence[str]
    path: str
    ready: str
    load: Load
    cpus: Sequence[int] | None
    environment: Mapping[str, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def start(self, folder: Path) -> Iterator[Running]:
        """See `Side`."""
        port = free_port()
        command = [part.replace("{port}", str(port)) for part in self.command]
        log = folder / f"{''.join(c if c.isalnum() else '-' for c in self.title)}.log"
        with Program(command, log, cpus=self.cpus, environment=self.environment) as program:
            program.wait_ready(f"http://127.0.0.1:{port}{self.ready}")
            yield Posted(program=program, url=f"http://127.0.0.1:{port}{self.path}", load=self.load)


def ours(
    title: str, checkpoint: Path, load: Load, cpus: Sequence[int] | None, *arguments: str, constant: bool = False
) -> Served:
    """This server with these arguments."""
    return Served(
        title=title,
        command=[
            *(sys.executable, "-m", "encoder_server", "serve", str(checkpoint), "--port={port}"),
            *("--log-level=warning", "--max-in-flight=256"),
            *(["--encoder=constant"] if constant else []),
            *arguments,
        ],
        path="/v1/encode",
        ready="/readyz",
        load=load,
        cpus=cpus,
        environment={"PYTHONPATH": f"{ROOT}:{CONSTANT}"} if constant else {},
    )


def echo(load: Load, reply_bytes: int, cpus: Sequence[int] | None) -> Served:
    """The ceiling that only reads and replies."""
    return Served(
        title="aiohttp that reads and replies",
        command=[sys.executable, str(PROGRAMS / "echo.py"), "{port}", str(reply_bytes)],
        path="/",
        ready="/readyz",
        load=load,
        cpus=cpus,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    """`count` processes that run a loop at the same time; what they do together is what is measured."""

    title: str
    kind: str
    checkpoint: Path
    picture: Path
    batch: int
    count: int
    cpus: Sequence[int] | None

    @contextlib.contextmanager
    def start(self, folder: Path) -> Iterator[Running]:
        """See `Side`."""
        arguments = [self.kind, str(self.checkpoint), str(self.picture), str(self.batch)]
        command = [sys.executable, str(PROGRAMS / "loops.py"), *arguments]
        with ExitStack() as stack:
            programs = [
                stack.enter_context(
                    Program(
                        command,
                        folder / f"{self.kind}-loop.log",
                        cpus=self.cpus,
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                    )
                )
                for _ in range(self.count)
            ]
            for program in programs:
                _line(program)
            yield Looping(programs=programs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Looping:
    """Loops that wait to be told for how long."""

    programs: Sequence[Program]

    def measure(self, seconds: float) -> Measured:
        """See `Running`; rates are added up, so that who ends a little later is not held against the others."""
        for program in self.programs:
            assert program.process.stdin is not None
            program.process.stdin.write(f"{seconds}\n".encode())
            program.process.stdin.flush()
        told = [Measured(**json.loads(_line(program))) for program in self.programs]
        items = sum(each.items for each in told)
        rate = sum(each.rate for each in told)
        return replace(told[0], items=items, seconds=items / rate, cpu_seconds=sum(each.cpu_seconds for each in told))


def _line(program: Program) -> bytes:
    assert program.process.stdout is not None
    line = program.process.stdout.readline()
    if not line:
        raise RuntimeError("a loop ended; see its log")
    return line
