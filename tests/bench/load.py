"""Load: `wrk` on a core of its own posts one body over and over; a generator in C is not what is measured."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.processes import Program
from tests.bench.statistics import Measured

SCRIPT = Path(__file__).with_name("post.lua")


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What is sent: the body in a file, its type, what is asked for, by so many clients at a time.

    `items` are in one body; `cpus` pins the generator.
    """

    body: Path
    content_type: str
    accept: str = "*/*"
    clients: int
    items: int = 1
    cpus: Sequence[int] | None = None


class NoGeneratorError(Exception):
    """`wrk` is missing."""


def post(load: Load, url: str, seconds: float, program: Program) -> Measured:
    """Send `load` to `url` for so long, and measure `program`, which answers it."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise NoGeneratorError("wrk is missing on this machine (Debian package: wrk)")
    pin = ["taskset", "--cpu-list", ",".join(map(str, load.cpus))] if load.cpus is not None else []
    command = [
        *pin,
        wrk,
        "-t1",
        f"-c{load.clients}",
        f"-d{max(1, round(seconds))}s",
        "--timeout=30s",
        f"-s{SCRIPT}",
        url,
    ]
    before = program.cpu_seconds()
    done = subprocess.run(
        [*command, "--", str(load.body), load.content_type, load.accept], capture_output=True, text=True, check=True
    )
    cpu = program.cpu_seconds() - before
    told = json.loads(done.stdout.strip().splitlines()[-1])
    return Measured(
        items=told["requests"] * load.items,
        seconds=told["seconds"],
        cpu_seconds=cpu,
        errors=told["errors"],
        p50_ms=told["p50_ms"],
        p99_ms=told["p99_ms"],
    )
