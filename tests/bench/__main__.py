"""`make bench-server`: run the scenarios that are asked for, and write the report."""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.bench import growth, memory, report, rounds, scenarios
from tests.bench.kit import Kit
from tests.bench.processes import ROOT, NotStartedError

NAMES = [*scenarios.MAKERS, *(f"growth-{name}" for name in growth.AXES), "memory"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; returns 0 where every target was reached, 1 where one was missed or could not be measured."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # So that what was started is stopped.
    options.out.mkdir(parents=True, exist_ok=True)
    wanted = [name for name in NAMES if not options.only or name.startswith(tuple(options.only))]
    run = report.Run(machine=_machine(options), by=options.by)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bench-") as folder:
        kit = Kit(folder=Path(folder), peers=options.peers.resolve())
        for name in wanted:
            print(f"==> {name} ({time.monotonic() - begun:.0f} s)", flush=True)
            try:
                _measure(name, kit, options, run)
            except (RuntimeError, OSError, subprocess.SubprocessError, NotStartedError, rounds.SideError) as error:
                run.failed[name] = f"{type(error).__name__}: {error}"
                print(f"    not measured: {run.failed[name]}", flush=True)
            report.write(run, options.out, [])  # A run that is broken off keeps what it has.
        python = kit.python("bench")
    if python.exists():
        subprocess.run([str(python), "-m", "tests.bench.plots", str(options.out.resolve())], cwd=ROOT, check=True)
    report.write(run, options.out, sorted(each.name for each in options.out.glob("*.svg")))
    print(options.out / "report.md")
    return 0 if run.passed else 1


def _measure(name: str, kit: Kit, options: argparse.Namespace, run: report.Run) -> None:
    if name in scenarios.MAKERS:
        scenario = scenarios.MAKERS[name](kit, name)
        run.results.append(rounds.run(scenario, options.rounds, options.seconds, options.out, _say))
    elif name == "memory":
        run.memory.append(memory.run(kit, options.memory_seconds, options.out, _say))
    else:
        axis = name.removeprefix("growth-")
        run.curves.append(growth.run(kit, axis, options.requests, options.points, options.out, _say))


def _say(text: str) -> None:
    print(f"    {text}", flush=True)


def _machine(options: argparse.Namespace) -> dict[str, object]:
    return {
        "Made": time.strftime("%Y-%m-%d", time.gmtime()),
        "cores": os.cpu_count(),
        "Python": platform.python_version(),
        "load before": round(os.getloadavg()[0], 1),
        "rounds": options.rounds,
        "seconds a round": options.seconds,
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench-server", description="Measure this server beside ceilings and peers.")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help=f"beginnings of: {', '.join(NAMES)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="of one side in one round (whole ones, at least 1)")
    parser.add_argument("--requests", type=int, default=40, help="for each point of a curve of growth")
    parser.add_argument("--points", type=int, help="of each curve (default: all)")
    parser.add_argument("--memory-seconds", type=float, default=600.0)
    parser.add_argument("--by", choices=["rate", "cpu"], default="rate", help="what is judged; cpu on a busy machine")
    parser.add_argument("--peers", type=Path, default=Path(".bench"), help="folder of the peers' environments")
    parser.add_argument("--out", type=Path, default=Path(".bench/report"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
