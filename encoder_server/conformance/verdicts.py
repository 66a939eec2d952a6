"""What an encoder did, judged: a case's runs to findings.

Place: between `sweep`, which has the cases encoded, and `report`; `reading` has the order of rows. Pure.

Must never: see the encoder, or call good what was not looked at: every rule counts what it judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoder_server.conformance.cases import Case, Specimen
from encoder_server.conformance.compare import distance, explain
from encoder_server.conformance.findings import Finding, Kind, Rule
from encoder_server.conformance.outcomes import Run, finding
from encoder_server.conformance.reading import by_choice, by_place, by_time
from encoder_server.engine.messages import Declared


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """What a case showed, and how often each rule was put to the test."""

    findings: tuple[Finding, ...]
    tested: Mapping[Rule, int]


def judge(case: Case, runs: Sequence[Run], declared: Mapping[str, Declared], tolerance: float) -> Judged:
    """Judge the runs of `case`, in their order."""
    tested: Counter[Rule] = Counter()
    findings: list[Finding] = []
    alone: dict[Specimen, npt.NDArray[np.float32]] = {}
    for run in runs:
        for index in range(len(run.outcomes)):
            findings += _one(case, run, index, declared, tested)
        findings += _together(case, run, alone, tolerance, tested)
        if len(run.outcomes) == 1:
            findings += _again(case, run, alone, tolerance, tested)
    if case.places:
        findings += by_place(case, runs, alone, tested)
    if case.times:
        findings += by_time(case, runs, alone, tolerance, tested)
    if case.chosen:
        findings += by_choice(case, runs, alone, tolerance, tested)
    findings += _content(case, runs, alone, tolerance, tested)
    return Judged(findings=tuple(findings), tested=tested)


def _one(
    case: Case, run: Run, index: int, declared: Mapping[str, Declared], tested: Counter[Rule]
) -> Iterator[Finding]:
    """Hold one item against its promise and the declaration."""
    outcome = run.outcomes[index]
    tested[Rule.REFUSALS] += 1
    if outcome.crash is not None:
        yield finding(case, run, index, Kind.CRASHES, outcome.crash)
    rows, expected = outcome.rows, declared.get(outcome.specimen.modality)
    if rows is None or expected is None:
        return
    tested.update((Rule.PROMISE, Rule.DECLARED, Rule.FINITE))
    promised, produced = outcome.promised or 0, len(rows)
    if produced != promised:
        kind = Kind.PADS if produced > promised else Kind.TRUNCATES
        yield finding(case, run, index, kind, f"rows promised: {promised}, produced: {produced}")
    width = rows.shape[1]
    if width != expected.width:
        items = len(run.outcomes)
        if items > 1 and width == items * expected.width:
            detail = f"rows are {width} wide: the {items} items of the batch lie side by side"
            yield finding(case, run, index, Kind.CONCATENATES, detail)
        else:
            detail = f"rows are {width} wide, {expected.width} is declared"
            yield finding(case, run, index, Kind.WIDTH, detail)
    if outcome.dtype != expected.dtype:
        yield finding(case, run, index, Kind.DTYPE, f"rows are {outcome.dtype}, {expected.dtype} is declared")
    if not np.isfinite(rows).all():
        yield finding(case, run, index, Kind.NONFINITE, "its rows hold NaN or infinity")


def _together(
    case: Case,
    run: Run,
    alone: Mapping[Specimen, npt.NDArray[np.float32]],
    tolerance: float,
    tested: Counter[Rule],
) -> Iterator[Finding]:
    """Hold each item of a batch against its rows alone."""
    if run.overwritten:
        detail = "the rows of the call before are written over: an engine has copied them, others may not have"
        yield finding(case, run, 0, Kind.BUFFER, detail, note=True)
    if len(run.outcomes) == 1:
        return
    for left, right in run.shared[:1]:
        # An engine sees it, and runs them again one by one: no row is wrong, and no batch ever gains.
        detail = f"its rows lie in the same memory as item {right}'s: an engine takes them one by one"
        yield finding(case, run, left, Kind.BUFFER, detail)
    sound = all(outcome.crash is None for outcome in run.outcomes)
    for trouble in run.troubles if sound else ():
        yield finding(case, run, 0, Kind.FAILS_IN_BATCH, trouble)
    truths = [alone.get(outcome.specimen) for outcome in run.outcomes]
    for index, outcome in enumerate(run.outcomes):
        if outcome.rows is None or truths[index] is None:
            continue
        tested.update((Rule.BATCH, Rule.ORDER, Rule.BOUNDARIES))
        same = [at for at, other in enumerate(run.outcomes) if other.specimen == outcome.specimen]
        found = explain(index, outcome.rows, truths, same, tolerance)
        if found is not None:
            yield finding(case, run, index, found.kind, found.detail, apart=found.distance)


def _again(
    case: Case,
    run: Run,
    alone: dict[Specimen, npt.NDArray[np.float32]],
    tolerance: float,
    tested: Counter[Rule],
) -> Iterator[Finding]:
    """Hold a medium alone against its own first time, or make this its first time."""
    (outcome,) = run.outcomes
    if outcome.rows is None:
        return
    first = alone.setdefault(outcome.specimen, outcome.rows)
    if first is outcome.rows or not np.isfinite(outcome.rows).all() or not np.isfinite(first).all():
        return
    tested[Rule.REPEATABLE] += 1
    apart = distance(outcome.rows, first)
    if apart > tolerance:
        other = next((each for each, rows in alone.items() if distance(outcome.rows, rows) <= tolerance), None)
        detail = f"its rows are {apart:.2g} of their length from those of its first time"
        if other is not None:
            detail = "it has the rows of an earlier medium"
        yield finding(case, run, 0, Kind.STATE, detail, apart=apart)


def _content(
    case: Case,
    runs: Sequence[Run],
    alone: Mapping[Specimen, npt.NDArray[np.float32]],
    tolerance: float,
    tested: Counter[Rule],
) -> Iterator[Finding]:
    """Look for media of one size and other content that have the same rows."""
    firsts = {run.outcomes[0].specimen: run for run in reversed(runs) if len(run.outcomes) == 1}
    known = [specimen for specimen in alone if specimen.whole]
    for at, one in enumerate(known):
        for other in known[:at]:
            if not one.alike(other):
                continue
            tested[Rule.CONTENT] += 1
            if distance(alone[one], alone[other]) <= tolerance:
                detail = "it has the rows of another medium of its size"
                yield finding(case, firsts[one], 0, Kind.BLIND, detail)
