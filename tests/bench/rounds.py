"""Rounds: the other side, ours, the other side, ours: whatever the machine does meanwhile, it does to both."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.bench.scenarios import Scenario
from tests.bench.sides import Running
from tests.bench.statistics import Measured, Spread, cpu_ratios, rate_ratios

_WARM_SECONDS = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one scenario, round by round."""

    name: str
    title: str
    target: float
    ours_title: str
    other_title: str
    ours: list[Measured]
    other: list[Measured]

    @property
    def rate(self) -> Spread:
        """Our rate, as a share of the other's."""
        return rate_ratios(self.ours, self.other)

    @property
    def cpu(self) -> Spread:
        """The other's CPU time for an item, as a share of ours."""
        return cpu_ratios(self.ours, self.other)

    @property
    def errors(self) -> int:
        """Answers that were errors, on either side."""
        return sum(each.errors for each in (*self.ours, *self.other))

    def passed(self, by: str) -> bool:
        """Whether the median reaches the target, by `rate` or by `cpu`, and nothing failed."""
        return (self.cpu if by == "cpu" else self.rate).median >= self.target and not self.errors


class SideError(Exception):
    """A side answers with errors, or not at all."""


def run(scenario: Scenario, rounds: int, seconds: float, folder: Path, say: Callable[[str], None]) -> Result:
    """Start both sides, and measure them in turn. While one starts or is measured the other is stopped: there are
    programs that are busy when they have nothing to do."""
    ours: list[Measured] = []
    other: list[Measured] = []
    with contextlib.ExitStack() as stack:
        theirs = stack.enter_context(scenario.other.start(folder))
        _warm_up(theirs)
        with _paused(theirs):
            mine = stack.enter_context(scenario.ours.start(folder))
            _warm_up(mine)
        for number in range(rounds):
            with _paused(mine):
                other.append(theirs.measure(seconds))
            with _paused(theirs):
                ours.append(mine.measure(seconds))
            say(f"round {number + 1}: {ours[-1].rate:.0f}/s of {other[-1].rate:.0f}/s")
    return Result(
        name=scenario.name,
        title=scenario.title,
        target=scenario.target,
        ours_title=scenario.ours.title,
        other_title=scenario.other.title,
        ours=ours,
        other=other,
    )


@contextlib.contextmanager
def _paused(side: Running) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for program in side.programs:
            stack.enter_context(program.paused())
        yield


def _warm_up(side: Running) -> None:
    """Send until all is answered: some peers accept before their model is loaded."""
    end = time.monotonic() + _WARM_SECONDS
    while time.monotonic() < end:
        measured = side.measure(1)
        if measured.items and not measured.errors:
            return
    raise SideError("it answers with errors; see the logs")
