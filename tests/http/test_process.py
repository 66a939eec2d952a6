"""The real command as a process: signals, orders to restart, and bad usage."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.http.test_engine_faults import open_gate
from tests.http.under_test import Checkpoint, Client, Pod, items, until

PROGRAM = str(Path(__file__).with_name("serve_stand_in.py"))
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}


@dataclass
class Process(Client):
    """A server in a process of its own."""

    process: subprocess.Popen[bytes]
    pod: Pod

    async def ended(self) -> int:
        async def has_ended() -> bool:
            return self.process.poll() is not None

        await until(has_ended)
        return self.process.returncode


def spawn(command: list[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    with open(log, "wb") as file:
        return subprocess.Popen(command, stderr=file, env={**ENVIRONMENT, **environment})


@asynccontextmanager
async def running(
    tmp_path: Path,
    checkpoint: Checkpoint,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    before: str = "true",
) -> AsyncIterator[Process]:
    """A server that a shell starts, after this command of the shell's."""
    log = tmp_path / "log"
    pod = Pod(tmp_path / "pod")
    command = [sys.executable, PROGRAM, "serve", str(checkpoint.directory), "--port=0", "--engines=1"]
    command += [f"--pod-directory={pod.directory}", *arguments]
    process = spawn(["sh", "-c", f'{before} && exec "$@"', "sh", *command], log, environment or {})
    try:
        async with aiohttp.ClientSession() as session:

            async def listening() -> Any:
                assert process.poll() is None, log.read_text()
                lines = [json.loads(line) for line in log.read_text().splitlines(keepends=True) if line.endswith("\n")]
                return next((line["addresses"] for line in lines if line["message"] == "listening"), None)

            ((host, port),) = await until(listening)
            server = Process(url=f"http://{host}:{port}", session=session, process=process, pod=pod)
            await server.until_state("READY")
            yield server
    finally:
        process.kill()
        process.wait()


async def test_sigterm_finishes_what_was_accepted_and_exits_with_zero(tmp_path: Path, checkpoint: Checkpoint) -> None:
    checkpoint.write(sizes={"112x56": "gate"})
    async with running(tmp_path, checkpoint) as server:
        accepted = asyncio.create_task(server.encode(items((112, 56))))
        await server.until_load(inFlight=1, queued=0)
        server.process.send_signal(signal.SIGTERM)
        await server.until_state("DRAINING", "Draining")
        refused = await server.encode(items((56, 56)))
        assert (refused.status, refused.code, refused.headers["Connection"]) == (503, "draining", "close")
        assert (await server.get("/readyz")).status == 503
        await open_gate(checkpoint.directory)
        assert (await accepted).status == 200
        assert await server.ended() == 0


async def test_an_ordered_restart_exits_with_zero(tmp_path: Path, checkpoint: Checkpoint) -> None:
    async with running(tmp_path, checkpoint) as server:
        boot = (await server.identity())["bootId"]
        server.pod.cordon(**{"encoderpool.io/order-restart": {"id": "restart-2-1", "bootId": boot}})
        assert await server.ended() == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["serve", "/nowhere"], "argument DIR: /nowhere is not a directory"),
        (["serve", "/tmp", "--max-items=0"], "argument --max-items: '0' is not a whole number of at least 1"),
        (["serve", "/tmp", "--cache-bytes=1Gi"], "argument --cache-bytes: '1Gi' is not a whole number of bytes"),
        (["serve", "/tmp", "--port=x"], "argument --port: 'x' is not a port"),
        (["serve", "/tmp", "--expected-identity=/tmp"], "argument --expected-identity: /tmp is not a file"),
        (
            ["serve", "/tmp", "--max-pixels=100", "--max-request-pixels=99"],
            "argument --max-request-pixels: must not be less than --max-pixels",
        ),
        (
            ["serve", "/tmp", "--max-pixels=100", "--max-decoded-pixels=399"],
            "argument --max-decoded-pixels: must not be less than --max-request-pixels",
        ),
        (["serve"], "the following arguments are required: DIR"),
        ([], "the following arguments are required: command"),
    ],
)
def test_bad_usage_is_told_in_one_line(arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]) -> None:
    from encoder_server import cli

    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    error = capsys.readouterr().err
    assert left.value.code == 2
    assert text in error
    assert error.count("\n") == 1
