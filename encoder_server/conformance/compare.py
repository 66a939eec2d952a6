"""Arrays to words: what became of an item's rows, told by finding each of them among the rows encoded alone.

Place: called by `verdicts` for every batch whose rows differ from those of its items alone. Pure.

Must never: look at counts that were promised: rows alone are compared here with rows alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoder_server.conformance.findings import Kind

Rows = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """What is wrong with one item's rows; `other` is the item whose rows it has instead."""

    kind: Kind
    detail: str
    distance: float | None = None
    other: int | None = None


def distance(rows: Rows, truth: Rows) -> float:
    """Largest distance of a row from its true one, as a share of the true rows' length (root mean square)."""
    if rows.shape != truth.shape:
        return float("inf")
    true = truth.astype(np.float64)
    apart = np.linalg.norm(rows.astype(np.float64) - true, axis=1)
    return float(apart.max(initial=0.0) / _length(true))


def explain(
    index: int, rows: Rows, alone: Sequence[Rows | None], same: Sequence[int], tolerance: float
) -> Difference | None:
    """Say what became of item `index` of a batch, or None where its rows are those that it has alone.

    `alone`: the rows of each item of the batch alone, None where there are none; `same`: the items that are the
    same medium as this one.
    """
    own = alone[index]
    # Values that are not finite are told of as such, and compare with nothing.
    if own is None or not np.isfinite(rows).all() or not np.isfinite(own).all():
        return None
    apart = distance(rows, own)
    if apart <= tolerance:
        return None
    others = [at for at in range(len(alone)) if at not in same]
    for at in others:
        truth = alone[at]
        if truth is not None and len(truth) and distance(rows, truth) <= tolerance:
            return Difference(kind=Kind.PERMUTES, detail=f"it has the rows of item {at}", other=at)
    if rows.shape[1] != own.shape[1]:
        return None
    return _by_rows(rows, own, [(at, alone[at]) for at in others], apart, tolerance, twins=len(same) > 1)


def _by_rows(
    rows: Rows, own: Rows, others: Sequence[tuple[int, Rows | None]], apart: float, tolerance: float, *, twins: bool
) -> Difference | None:
    here = _matches(rows, own, tolerance)
    if (here >= 0).all():
        return _own_rows(here, len(own), twins=twins)
    for at, truth in others:
        if truth is None or truth.shape[1] != own.shape[1]:
            continue
        there = np.where(here < 0, _matches(rows, truth, tolerance), -1)
        if (there >= 0).any():
            places = np.flatnonzero(there >= 0)
            verb = "is" if len(places) == 1 else "are"
            detail = f"its {_range(places)} {verb} item {at}'s {_range(there[there >= 0])}"
            return Difference(kind=Kind.CONCATENATES, detail=detail, other=at)
    shared = min(len(rows), len(own))
    if len(rows) != len(own):
        # Its count says it already; unless the rows that it has are not its own either.
        apart = distance(rows[:shared], own[:shared])
        if apart <= tolerance:
            return None
    detail = f"its rows are {apart:.2g} of their length from those it has alone"
    return Difference(kind=Kind.MATES, detail=detail, distance=apart)


def _own_rows(here: npt.NDArray[np.int64], count: int, *, twins: bool) -> Difference | None:
    """Say in what order an item has rows that are all its own; `twins`: its medium is in the batch again."""
    if len(here) == count and (here == np.arange(count)[::-1]).all():
        return Difference(kind=Kind.REVERSES, detail="its rows run from the last to the first")
    if len(here) == count and (np.sort(here) == np.arange(count)).all():
        return Difference(kind=Kind.SHUFFLES, detail="it has its own rows in another order")
    if twins and (len(here) == count or (here != np.arange(len(here))).any()):
        return Difference(kind=Kind.CONCATENATES, detail="its rows are mixed with those of the same medium beside it")
    if len(here) == count:
        return Difference(kind=Kind.SHUFFLES, detail="it has some of its own rows twice, and others not at all")
    return None


def _matches(rows: Rows, truth: Rows, tolerance: float) -> npt.NDArray[np.int64]:
    """For each of `rows`, the place of the nearest true row, or -1 where none is within the tolerance."""
    if not len(truth) or not len(rows):
        return np.full(len(rows), -1, dtype=np.int64)
    true = truth.astype(np.float64)
    nearest = np.empty(len(rows), dtype=np.int64)
    for start, part in _parts(rows):
        squares = (part**2).sum(axis=1)[:, None] + (true**2).sum(axis=1)[None, :] - 2 * part @ true.T
        # Its own place first: equal rows of a flat picture are not out of order.
        at = np.arange(start, start + len(part))
        kept = at[at < len(true)] - start
        squares[kept, kept + start] -= 1e-9
        nearest[start : start + len(part)] = squares.argmin(axis=1)
    apart = np.linalg.norm(rows.astype(np.float64) - true[nearest], axis=1)
    return np.where(apart <= tolerance * _length(true), nearest, -1)


def _parts(rows: Rows) -> Iterator[tuple[int, npt.NDArray[np.float64]]]:
    for start in range(0, len(rows), 512):
        yield start, rows[start : start + 512].astype(np.float64)


def _length(true: npt.NDArray[np.float64]) -> float:
    return float(np.sqrt((true**2).sum(axis=1).mean())) + 1e-12 if len(true) else 1.0


def _range(places: npt.NDArray[np.int64]) -> str:
    first, last = int(places.min()), int(places.max())
    if first == last:
        return f"row {first}"
    if len(places) == last - first + 1:
        return f"rows {first} to {last}"
    return f"{len(places)} rows from {first} to {last}"
