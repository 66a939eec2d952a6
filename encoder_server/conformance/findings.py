"""The words of the sweep: rules, kinds of faults, and one finding.

Place: what `compare` and `verdicts` say and `report` and `plugin` tell. Pure, and cheap to import.

Must never: hold arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Rule(StrEnum):
    """What is asked of an encoder; one line of the report and one test of the plugin each."""

    PROMISE = "promise"
    DECLARED = "declared"
    FINITE = "finite"
    REFUSALS = "refusals"
    REPEATABLE = "repeatable"
    CONTENT = "content"
    BATCH = "batch"
    ORDER = "order"
    BOUNDARIES = "boundaries"


MEANINGS: Mapping[Rule, str] = {
    Rule.PROMISE: "as many rows as the processor promised, for every item",
    Rule.DECLARED: "rows as wide and of the dtype that the encoder declares",
    Rule.FINITE: "no value that is not finite",
    Rule.REFUSALS: "every size is encoded, or refused as unfit",
    Rule.REPEATABLE: "the same medium gives the same rows again, whatever came between",
    Rule.CONTENT: "other content gives other rows",
    Rule.BATCH: "an item's rows are the same alone and in any batch",
    Rule.ORDER: "each item gets its own rows, in their order",
    Rule.BOUNDARIES: "no row of an item among its neighbours' rows",
}


class Kind(StrEnum):
    """What is wrong, in the words that the report uses."""

    PADS = "pads"
    TRUNCATES = "truncates"
    WIDTH = "of another width"
    DTYPE = "of another dtype"
    DESCRIPTION = "changes its description"
    NONFINITE = "not finite"
    CRASHES = "crashes"
    RANDOM = "non-deterministic"
    STATE = "keeps state"
    BLIND = "blind to content"
    RESAMPLES = "samples chosen frames again"
    MATES = "depends on batch mates"
    FAILS_IN_BATCH = "fails in a batch"
    BUFFER = "reuses its output buffer"
    PERMUTES = "permutes items"
    REVERSES = "reverses rows"
    SHUFFLES = "shuffles rows"
    CONCATENATES = "concatenates wrongly"


RULES: Mapping[Kind, Rule] = {
    Kind.PADS: Rule.PROMISE,
    Kind.TRUNCATES: Rule.PROMISE,
    Kind.WIDTH: Rule.DECLARED,
    Kind.DTYPE: Rule.DECLARED,
    Kind.DESCRIPTION: Rule.DECLARED,
    Kind.NONFINITE: Rule.FINITE,
    Kind.CRASHES: Rule.REFUSALS,
    Kind.RANDOM: Rule.REPEATABLE,
    Kind.STATE: Rule.REPEATABLE,
    Kind.BLIND: Rule.CONTENT,
    Kind.RESAMPLES: Rule.CONTENT,
    Kind.MATES: Rule.BATCH,
    Kind.FAILS_IN_BATCH: Rule.BATCH,
    Kind.BUFFER: Rule.BATCH,
    Kind.PERMUTES: Rule.ORDER,
    Kind.REVERSES: Rule.ORDER,
    Kind.SHUFFLES: Rule.ORDER,
    Kind.CONCATENATES: Rule.BOUNDARIES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One item that something is wrong with: item `index` of a run of `batch`, sizes in words.

    `distance` is the largest of its rows', as a share of the rows' own length. `note`: worth knowing, no fault.
    `seeded`: found though random numbers started anew at each run.
    """

    kind: Kind
    detail: str
    group: str
    batch: tuple[str, ...]
    index: int
    pixels: int
    promised: int | None = None
    produced: int | None = None
    longest: int | None = None
    distance: float | None = None
    note: bool = False
    seeded: bool = False

    @property
    def place(self) -> str:
        """The item in words."""
        if len(self.batch) == 1:
            return f"{self.batch[0]}, alone"
        return f"{self.batch[self.index]}, item {self.index} of {len(self.batch)}"
