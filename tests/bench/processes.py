"""Processes: start what is measured, pin it to a core, wait until it is ready, and count its CPU time and memory.

CPU time and memory are of the process and all below it, read from /proc, so that engines count with their front.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 600.0  # LitServe and infinity-emb load torch several times over, here on one core that may be busy.
_STOP_SECONDS = 20.0


def free_port() -> int:
    """Return a port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port


class NotStartedError(Exception):
    """A program ended, or was not ready in time; its output is in the log that the message names."""


class Program:
    """A program that runs until the context ends; `cpus` pins it and all that it starts."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        cpus: Sequence[int] | None = None,
        environment: Mapping[str, str] | None = None,
        stdin: int | None = subprocess.DEVNULL,
        stdout: int | None = None,
    ) -> None:
        pinned = ["taskset", "--cpu-list", ",".join(map(str, cpus)), *command] if cpus is not None else [*command]
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(
                pinned,
                stdin=stdin,
                stdout=file if stdout is None else stdout,
                stderr=file,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1", **(environment or {})},
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_STOP_SECONDS)
        # Its session: a peer may leave processes behind.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def wait_ready(self, url: str) -> None:
        """Wait until `url` answers with success; raises NotStartedError."""
        end = time.monotonic() + _START_SECONDS
        while time.monotonic() < end:
            if self.process.poll() is not None:
                raise NotStartedError(f"ended with {self.process.returncode}; see {self._log}")
            try:
                with urllib.request.urlopen(url, timeout=2):
                    return
            except (urllib.error.URLError, OSError):
                time.sleep(0.1)
        raise NotStartedError(f"{url} did not answer within {_START_SECONDS:g} s; see {self._log}")

    def tree(self) -> list[int]:
        """Return the process and all below it."""
        found = [self.process.pid]
        for pid in found:
            for task in _tasks(pid):
                found += [int(child) for child in task.split()]
        return found

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the tree meanwhile: some programs are busy when they have nothing to do."""
        tree = self.tree()
        _signal(tree, signal.SIGSTOP)
        try:
            yield
        finally:
            _signal(tree, signal.SIGCONT)

    def cpu_seconds(self) -> float:
        """Return the CPU seconds of the tree until now."""
        return sum(_cpu_seconds(pid) for pid in self.tree())

    def memory(self) -> dict[int, float]:
        """Return the MB that each process of the tree holds: its own pages, and its share of memory that it shares.

        Pages of files are left out: a library's are shared with whoever else runs here, so that its share changes by
        tens of MB with processes that are none of ours.
        """
        return {pid: _held(pid) for pid in self.tree()}


def _signal(pids: Sequence[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _tasks(pid: int) -> list[str]:
    try:
        return [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []


def _cpu_seconds(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _held(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith(("Pss_Anon:", "Pss_Shmem:"))) / 1024
