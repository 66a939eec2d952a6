"""What an encoder did with one batch: the outcome of each item, and a finding on one of them.

Place: `sweep` makes them, `verdicts` and `reading` judge them. Pure.

Must never: judge.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from encoder_server.conformance.cases import Case, Specimen
from encoder_server.conformance.findings import Finding, Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One item of one run. `rows` are widened to float32; None, as `shape` and `dtype`, where there are none:
    `refused` is then the encoder's own reason, `crash` the error's."""

    specimen: Specimen
    promised: int | None = None
    rows: npt.NDArray[np.float32] | None = None
    dtype: str | None = None
    refused: str | None = None
    crash: str | None = None

    @property
    def produced(self) -> int | None:
        """Rows that came out."""
        return None if self.rows is None else len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One batch. `troubles`: calls of several items that failed, in words; `shared`: pairs of items whose rows lay
    in the same memory; `overwritten`: whether the rows of the call before changed under this one."""

    outcomes: tuple[Outcome, ...]
    troubles: tuple[str, ...] = ()
    shared: tuple[tuple[int, int], ...] = ()
    overwritten: bool = False


def finding(
    case: Case, run: Run, index: int, kind: Kind, detail: str, *, apart: float | None = None, note: bool = False
) -> Finding:
    """Say `kind` and `detail` of item `index` of a run of `case`; `apart` is the distance of its rows."""
    outcome = run.outcomes[index]
    promises = [other.promised for other in run.outcomes if other.promised is not None]
    return Finding(
        kind=kind,
        detail=detail,
        group=case.group,
        batch=tuple(str(each.specimen) for each in run.outcomes),
        index=index,
        pixels=outcome.specimen.pixels,
        promised=outcome.promised,
        produced=outcome.produced,
        longest=max(promises, default=None),
        distance=apart,
        note=note,
        seeded=case.seeded,
    )
