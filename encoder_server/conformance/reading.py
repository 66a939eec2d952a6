"""Where rows answer to what: a medium's parts painted over in turn, and the rows that move by it.

Place: called by `verdicts` for the cases of reading order and of order in time. Pure.

Must never: say of rows without a place, pooled or of another order by design, that they are out of it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from encoder_server.conformance.cases import Case, Specimen
from encoder_server.conformance.compare import Rows, distance
from encoder_server.conformance.findings import Finding, Kind, Rule
from encoder_server.conformance.outcomes import Run, finding

# In order, the parts of a video come out evenly spread; closer than this, its rows have no order in time.
_APART = 0.1


def by_place(
    case: Case, runs: Sequence[Run], alone: Mapping[Specimen, Rows], tested: Counter[Rule]
) -> Iterator[Finding]:
    """Hold a medium against itself with its first and its last corner painted over: each must answer at its end."""
    arrays = [alone.get(run.outcomes[0].specimen) for run in runs]
    plain, first, last = arrays
    if plain is None or first is None or last is None:
        return
    backwards = fault_of_reading(plain, first, last)
    if backwards is not None:
        tested[Rule.ORDER] += 1
    if backwards:
        detail = "its last rows are of the picture's first corner, and its first rows of the last"
        yield finding(case, runs[0], 0, Kind.REVERSES, detail)


def by_time(
    case: Case,
    runs: Sequence[Run],
    alone: Mapping[Specimen, Rows],
    tolerance: float,
    tested: Counter[Rule],
) -> Iterator[Finding]:
    """Hold a video, or a sound, against itself with parts painted over: each must answer, in its turn."""
    known = [(run, alone.get(run.outcomes[0].specimen)) for run in runs]
    plain, parts = known[0][1], [(run, rows) for run, rows in known[1:] if rows is not None]
    if plain is None or len(parts) < len(runs) - 1:
        return
    for run, rows in parts:
        tested[Rule.CONTENT] += 1
        first, behind = run.outcomes[0].specimen.repainted or (0, 0)
        if distance(rows, plain) <= tolerance:
            # One frame may be left out by choice, a part of the video not.
            detail = f"other content of {_part(run, first, behind)} changes none of its rows"
            yield finding(case, run, 0, Kind.BLIND, detail, note=behind - first == 1 and len(parts) == 1)
    order = order_in_time(plain, [rows for _, rows in parts])
    if order is None:
        return
    tested[Rule.ORDER] += 1
    turned = tuple(reversed(range(len(parts))))
    if order != turned[::-1]:
        spans = [run.outcomes[0].specimen.repainted or (0, 0) for run, _ in parts]
        told = ", then ".join(_part(runs[0], *spans[part]) for part in order)
        kind = Kind.REVERSES if order == turned else Kind.SHUFFLES
        yield finding(case, runs[0], 0, kind, f"its rows are in the order of {told}")


def by_choice(
    case: Case,
    runs: Sequence[Run],
    alone: Mapping[Specimen, Rows],
    tolerance: float,
    tested: Counter[Rule],
) -> Iterator[Finding]:
    """Hold a video file against itself with a frame painted over that the encoder chose: its rows must answer."""
    plain = alone.get(runs[0].outcomes[0].specimen)
    for run in runs[1:]:
        specimen = run.outcomes[0].specimen
        rows = alone.get(specimen)
        if plain is None or rows is None:
            continue
        tested[Rule.CONTENT] += 1
        if distance(rows, plain) <= tolerance:
            first, _ = specimen.repainted or (0, 0)
            detail = f"other content of frame {first}, which it chose, changes none of its rows"
            yield finding(case, run, 0, Kind.RESAMPLES, detail)


def _part(run: Run, first: int, behind: int) -> str:
    kind = "sample" if run.outcomes[0].specimen.rate else "frame"
    return f"{kind} {first}" if behind - first == 1 else f"{kind}s {first} to {behind - 1}"


def fault_of_reading(plain: Rows, first: Rows, last: Rows) -> bool | None:
    """Whether rows run backwards: painting over the first corner moves the last rows most, and the other way round.

    None where it cannot be told: rows with no place in the picture.
    """
    places = [_place(plain, marked) for marked in (first, last)]
    if None in places:
        return None
    at_first, at_last = (place for place in places if place is not None)
    if at_first < 0.35 and at_last > 0.65:
        return False
    return True if at_first > 0.65 and at_last < 0.35 else None


def _place(plain: Rows, marked: Rows) -> float | None:
    if plain.shape != marked.shape or len(plain) < 4:
        return None
    moved = np.linalg.norm(marked.astype(np.float64) - plain, axis=1)
    # Where the whole picture answers to a corner, the row that answers most says nothing.
    if moved.max() < 1.5 * np.median(moved) or moved.max() == 0:
        return None
    return float(moved.argmax()) / (len(plain) - 1)


def order_in_time(plain: Rows, painted: Sequence[Rows]) -> tuple[int, ...] | None:
    """Give the parts of a video in the order of the rows that answer to them; `painted` has each part painted over.

    None where it cannot be told.
    """
    if len(painted) < 2 or any(rows.shape != plain.shape for rows in painted) or len(plain) < len(painted):
        return None
    moved = [np.square(rows.astype(np.float64) - plain).sum(axis=1) for rows in painted]
    if any(each.sum() == 0 for each in moved):
        return None
    at = np.arange(len(plain)) / (len(plain) - 1)
    places = [float((each * at).sum() / each.sum()) for each in moved]
    order = sorted(range(len(places)), key=places.__getitem__)
    steps = np.diff([places[part] for part in order])
    return tuple(order) if steps.min() > _APART else None
