"""Findings to one audit: kinds settled and named, a verdict for each rule.

Place: after all cases; `report` and `plugin` tell what is said here. Pure.

Must never: call a rule good that was not put to the test, or blame batch mates for what also happens alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from encoder_server.conformance.findings import RULES, Finding, Kind, Rule

COMPARED = frozenset({Rule.CONTENT, Rule.BATCH, Rule.ORDER, Rule.BOUNDARIES})
"""Rules judged by holding rows of one run against those of another."""


class State(StrEnum):
    """How a rule came out."""

    GOOD = "good"
    FAULT = "FAULT"
    NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One kind of fault, or one note: its name in full, its first place (the smallest) and how often it was seen."""

    kind: Kind
    summary: str
    first: Finding
    places: int
    distance: float | None
    note: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A rule's outcome: how often it was tested, and the faults, none where it is good."""

    rule: Rule
    state: State
    tested: int
    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The items of one group of cases: how many, and the range of rows promised and produced."""

    name: str
    items: int
    refused: int
    promised: tuple[int, int] | None
    produced: tuple[int, int] | None
    kinds: tuple[Kind, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """All that the sweep has to say. `left`: groups of the cases for which the time did not suffice."""

    encoder: str
    declared: Mapping[str, str]
    steps: str
    groups: tuple[Group, ...]
    verdicts: tuple[Verdict, ...]
    notes: tuple[Fault, ...]
    findings: tuple[Finding, ...]
    left: tuple[str, ...]
    seconds: float

    @property
    def good(self) -> bool:
        """Whether every rule was tested and held, in all cases."""
        return not self.left and all(verdict.state is State.GOOD for verdict in self.verdicts)


def settle(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    """Tell chance from memory, and drop what cannot be told of an encoder that does not repeat itself: whatever
    comes of holding its rows against those of another run.

    What differs only while random numbers run on is drawn from them; what differs all the same is state.
    """
    unsteady = [finding for finding in findings if finding.kind is Kind.STATE]
    if not unsteady:
        return tuple(findings)
    if not any(finding.seeded for finding in unsteady):
        findings = [replace(each, kind=Kind.RANDOM) if each.kind is Kind.STATE else each for each in findings]
    return tuple(finding for finding in findings if finding.note or RULES[finding.kind] not in COMPARED)


def verdicts(findings: Sequence[Finding], tested: Mapping[Rule, int]) -> tuple[Verdict, ...]:
    """Give the verdict of each rule on settled findings."""
    faults = [finding for finding in findings if not finding.note]
    steady = not any(RULES[finding.kind] is Rule.REPEATABLE for finding in faults)
    found = []
    for rule in Rule:
        own = [finding for finding in faults if RULES[finding.kind] is rule]
        judged = tested.get(rule, 0) > 0 and (steady or rule not in COMPARED)
        state = State.FAULT if own else State.GOOD if judged else State.NOT_JUDGED
        found.append(Verdict(rule=rule, state=state, tested=tested.get(rule, 0), faults=_by_kind(own)))
    return tuple(found)


def notes(findings: Sequence[Finding]) -> tuple[Fault, ...]:
    """Give what is worth knowing and no fault, unless it is one elsewhere."""
    faulty = {finding.kind for finding in findings if not finding.note}
    return _by_kind([finding for finding in findings if finding.note and finding.kind not in faulty])


def _by_kind(findings: Sequence[Finding]) -> tuple[Fault, ...]:
    counts = Counter(finding.kind for finding in findings)
    return tuple(_fault(kind, [finding for finding in findings if finding.kind is kind]) for kind in counts)


def _fault(kind: Kind, findings: Sequence[Finding]) -> Fault:
    first = min(findings, key=lambda finding: (len(finding.batch), finding.pixels))
    distances = [finding.distance for finding in findings if finding.distance is not None]
    return Fault(
        kind=kind,
        summary=f"{kind}{_manner(kind, findings)}",
        first=first,
        places=len(findings),
        distance=max(distances, default=None),
        note=first.note,
    )


def _manner(kind: Kind, findings: Sequence[Finding]) -> str:
    """How rows are padded or cut, where all that was seen fits one manner."""
    pairs = [(each.promised, each.produced) for each in findings if each.promised and each.produced is not None]
    counts = [(promised, produced) for promised, produced in pairs if promised and produced is not None]
    if kind not in {Kind.PADS, Kind.TRUNCATES} or len(counts) < 2:
        return ""
    alone = [finding for finding in findings if len(finding.batch) == 1]
    produced = {count for _, count in counts}
    extra = {count - promised for promised, count in counts}
    ratio = {count / promised for promised, count in counts}
    if len(extra) == 1 and (step := extra.pop()):
        return f": {abs(step)} row{'s' if abs(step) > 1 else ''} {'more' if step > 0 else 'less'} than promised"
    if len(ratio) == 1:
        return f": {ratio.pop():g} times what is promised"
    if not alone and all(finding.produced == finding.longest for finding in findings):
        return " to the longest item of the batch"
    if len(produced) == 1:
        return f" {'above' if kind is Kind.TRUNCATES else 'up to'} {produced.pop()} rows"
    return _to_multiples(counts) if kind is Kind.PADS else ""


def _to_multiples(counts: Sequence[tuple[int, int]]) -> str:
    steps = [step for step in range(2, 257) if all(-(-promised // step) * step == count for promised, count in counts)]
    return f" to multiples of {steps[0]} rows" if steps else ""
