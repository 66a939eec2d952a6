"""Report: one JSON document with all that was measured, and its Markdown. Pure but for writing the two."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.growth import Curve
from tests.bench.memory import Memory
from tests.bench.rounds import Result
from tests.bench.statistics import Spread


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One run, which grows scenario by scenario; `by` says whether rates or CPU times are judged, `failed` names what
    could not be measured."""

    machine: dict[str, Any]
    by: str
    results: list[Result] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    memory: list[Memory] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether every target was reached."""
        fast = all(result.passed(self.by) for result in self.results) and not self.failed
        return fast and all(curve.passed for curve in self.curves) and all(each.passed for each in self.memory)


def document(run: Run) -> dict[str, Any]:
    """Return the JSON document."""
    scenarios = [
        asdict(result)
        | {"rate": asdict(result.rate), "cpu": asdict(result.cpu), "passed": result.passed(run.by)}
        | {"cpu_ms": {"ours": [m.cpu_ms for m in result.ours], "other": [m.cpu_ms for m in result.other]}}
        for result in run.results
    ]
    return {
        "machine": run.machine,
        "judged_by": run.by,
        "passed": run.passed,
        "scenarios": scenarios,
        "growth": [asdict(curve) | {"passed": curve.passed} for curve in run.curves],
        "memory": [asdict(memory) | {"passed": memory.passed} for memory in run.memory],
        "failed": run.failed,
    }


def markdown(run: Run, plots: Sequence[str]) -> str:
    """Return the report; `plots` are file names beside it."""
    about = "; ".join(f"{name} {value}" for name, value in run.machine.items())
    lines = [
        "# How fast the encoder server is",
        "",
        f"Written by `make bench-server`. {about}.",
        "",
        "Ratios of one run: the two sides take turns, round by round, so that whatever else the machine does, it does",
        "to both. *rate*: our items a second as a share of the other side's. *CPU*: the other side's CPU time for an",
        f"item as a share of ours, which holds on a busy machine too. Judged by {run.by}. Medians, least and greatest.",
        "",
        "| scenario | target | rate | CPU | ours, items/s | CPU ms/item | p50 / p99 ms | |",
        "|---|---|---|---|---|---|---|---|",
        *(_row(result, run.by) for result in run.results),
        "",
    ]
    if run.curves:
        lines += ["| CPU time of a request over | exponent | may be | fixed ms | each | |", "|---|---|---|---|---|---|"]
        for curve in run.curves:
            fit = curve.fit
            cells = [curve.of, f"{fit.exponent:.2f}", f"{curve.most:g}", f"{fit.fixed:.2f}", f"{fit.each:.3g} ms"]
            lines.append(f"| {' | '.join([*cells, _mark(curve.passed)])} |")
        lines.append("")
    for memory in run.memory:
        lines += [_about_memory(memory), ""]
    lines += [f"- {name} was not measured: {why}" for name, why in run.failed.items()]
    lines += [f"![{Path(plot).stem}]({plot})" for plot in plots]
    return "\n".join(lines).rstrip() + "\n"


def _row(result: Result, by: str) -> str:
    mine = sorted(result.ours, key=lambda each: each.rate)[len(result.ours) // 2]
    latency = "" if mine.p50_ms is None or mine.p99_ms is None else f"{mine.p50_ms:.1f} / {mine.p99_ms:.1f}"
    cells = [
        *(result.title, f"≥ {result.target:g}", _spread(result.rate), _spread(result.cpu)),
        *(f"{mine.rate:.0f}", f"{mine.cpu_ms:.2f}", latency, _mark(result.passed(by))),
    ]
    return f"| {' | '.join(cells)} |"


def _spread(ratio: Spread) -> str:
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"  # noqa: RUF001 - the dash of a range


def _mark(passed: bool) -> str:
    return "reached" if passed else "**missed**"


def _about_memory(memory: Memory) -> str:
    judged, total = memory.judged, sum(memory.answered.values())
    left, verdict = memory.answered.get("left", 0), "flat" if memory.passed else "**not flat**"
    return (
        f"Memory over {memory.samples[-1][0]:.0f} s of mixed traffic, {total} requests ({left} callers left):"
        f" {judged.middle:.0f} MB in the second third, {judged.last:.0f} MB in the last,"
        f" {judged.per_minute:+.2f} MB a minute: {verdict}."
    )


def write(run: Run, folder: Path, plots: Sequence[str]) -> None:
    """Write report.json and report.md."""
    (folder / "report.json").write_text(json.dumps(document(run), indent=1) + "\n")
    (folder / "report.md").write_text(markdown(run, plots))
