"""Plots, from report.json alone: a program of its own, because only the peers' environment can draw.

`python -m tests.bench.plots FOLDER` writes one SVG for each kind of figure beside the report.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
from matplotlib import pyplot


def ratios(scenarios: list[dict[str, Any]], by: str, file: Path) -> None:
    """Each scenario's ratio as a share of its target, with its spread."""
    figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(scenarios) + 1.2), layout="constrained")
    for place, each in enumerate(reversed(scenarios)):
        ratio, target = each["cpu" if by == "cpu" else "rate"], each["target"]
        axes.plot([ratio["low"] / target, ratio["high"] / target], [place, place], color="grey")
        axes.plot(ratio["median"] / target, place, "o", color="tab:green" if each["passed"] else "tab:red")
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(scenarios)), [each["name"] for each in reversed(scenarios)])
    axes.set_xlabel("ratio as a share of its target (median, least and greatest)")
    figure.savefig(file)


def curves(growth: list[dict[str, Any]], file: Path) -> None:
    """CPU time over each quantity, on logarithmic axes, with the fitted line."""
    figure, all_axes = pyplot.subplots(
        1, len(growth), figsize=(4 * len(growth), 3.2), layout="constrained", squeeze=False
    )
    for axes, curve in zip(all_axes[0], growth, strict=True):
        xs, ys = zip(*curve["points"], strict=True)
        axes.loglog(xs, ys, "o")
        axes.loglog(xs, [max(curve["fit"]["fixed"] + curve["fit"]["each"] * x, min(ys) / 4) for x in xs], linewidth=0.8)
        axes.set_xlabel(curve["of"])
        axes.set_ylabel("CPU ms a request")
        axes.set_title(f"exponent {curve['fit']['exponent']:.2f}")
    figure.savefig(file)


def memory(samples: list[list[float]], file: Path) -> None:
    """What is held over time."""
    figure, axes = pyplot.subplots(figsize=(8, 3), layout="constrained")
    axes.plot([at for at, _ in samples], [size for _, size in samples], linewidth=0.8)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("seconds")
    axes.set_ylabel("MB, front and engines")
    figure.savefig(file)


def main() -> None:
    folder = Path(sys.argv[1])
    told = json.loads((folder / "report.json").read_text())
    matplotlib.rcParams.update({"svg.hashsalt": "bench", "font.size": 9})
    if told["scenarios"]:
        ratios(told["scenarios"], told["judged_by"], folder / "ratios.svg")
    if told["growth"]:
        curves(told["growth"], folder / "growth.svg")
    for each in told["memory"]:
        memory(each["samples"], folder / "memory.svg")


if __name__ == "__main__":
    main()
