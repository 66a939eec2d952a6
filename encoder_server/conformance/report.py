"""The audit as a table for a person, or as JSON for a program.

Place: last step of `encoder-server check`; `plugin` tells one rule at a time with the same words. Pure.

Must never: leave out a fault for lack of room: what is cut is counted.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence

from encoder_server.conformance.audit import Audit, Fault, Group, State, Verdict
from encoder_server.conformance.findings import MEANINGS, Finding, Rule

_MOST_ITEMS = 20


def as_json(audit: Audit) -> str:
    """Give everything, every finding among it, as one JSON object with `good` first."""
    return json.dumps({"good": audit.good, **dataclasses.asdict(audit)}, indent=2)


def as_text(audit: Audit) -> str:
    """Give the tables and the summary."""
    parts = [_head(audit), _groups(audit.groups)]
    faulty = [finding for finding in audit.findings if not finding.note]
    if faulty:
        parts.append(_items(faulty))
    parts += [_verdicts(audit.verdicts), _summary(audit)]
    return "\n\n".join(parts)


def tell(verdict: Verdict) -> str:
    """Say how one rule came out, a line for each kind of fault."""
    head = f"{verdict.rule}: {MEANINGS[verdict.rule]}: {verdict.state} (tested {verdict.tested} times)"
    return "\n".join([head, *(f"  {_fault(fault)}" for fault in verdict.faults)])


def _head(audit: Audit) -> str:
    declared = "; ".join(f"{modality}: {text}" for modality, text in audit.declared.items())
    return f"{audit.encoder} ({declared})\n{audit.steps}"


def _groups(groups: Sequence[Group]) -> str:
    lines = [("items", "", "promised", "produced", "verdict")]
    for group in groups:
        refused = f", {group.refused} refused as unfit" if group.refused else ""
        kinds = ", ".join(group.kinds)
        lines.append(
            (group.name, str(group.items), _span(group.promised), _span(group.produced), (kinds or "good") + refused)
        )
    return _table(lines)


def _items(findings: Sequence[Finding]) -> str:
    ordered = sorted(findings, key=lambda finding: (len(finding.batch), finding.pixels))
    lines = [("where it goes wrong", "promised", "produced", "verdict")]
    for finding in ordered[:_MOST_ITEMS]:
        promised, produced = (("-" if n is None else str(n)) for n in (finding.promised, finding.produced))
        lines.append((finding.place, promised, produced, f"{finding.kind}: {finding.detail}"))
    table = _table(lines)
    left = len(ordered) - _MOST_ITEMS
    return table if left <= 0 else f"{table}\nand {left} more (--json has them all)"


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    lines = [("rule", "tested", "verdict", "")]
    lines += [(each.rule, str(each.tested), each.state, MEANINGS[each.rule]) for each in verdicts]
    return _table(lines)


def _summary(audit: Audit) -> str:
    faults = [_fault(fault) for verdict in audit.verdicts for fault in verdict.faults]
    lines = [f"FAULT  {text}" for text in faults] + [f"note   {_fault(fault)}" for fault in audit.notes]
    unjudged = [verdict for verdict in audit.verdicts if verdict.state is State.NOT_JUDGED]
    lines += [f"not judged: {_why(verdict, audit)}" for verdict in unjudged]
    if audit.left:
        lines.append(f"not run: {', '.join(audit.left)}")
    items = sum(group.items for group in audit.groups)
    outcome = "good" if audit.good else "NOT GOOD"
    lines.append(f"{outcome}: {items} items in {audit.seconds:.0f} s, {len(faults)} kinds of faults")
    return "\n".join(lines)


def _why(verdict: Verdict, audit: Audit) -> str:
    unsteady = any(each.rule is Rule.REPEATABLE and each.state is State.FAULT for each in audit.verdicts)
    reason = "the encoder does not repeat itself" if unsteady and verdict.tested else "nothing came out to judge"
    return f"{verdict.rule} ({reason})"


def _fault(fault: Fault) -> str:
    far = "" if fault.distance is None else f"; at most {fault.distance:.2g} of the rows' length away"
    times = f"{fault.places} place{'s' if fault.places > 1 else ''}"
    batch = fault.first.batch
    mates = f" ({', '.join(batch)})" if 1 < len(batch) <= 4 else ""
    return f"{fault.summary}; first {fault.first.place}{mates}: {fault.first.detail}; {times}{far}"


def _span(span: tuple[int, int] | None) -> str:
    if span is None:
        return "-"
    low, high = span
    return str(low) if low == high else f"{low} to {high}"


def _table(lines: Sequence[tuple[str, ...]]) -> str:
    widths = [max(len(line[at]) for line in lines) for at in range(len(lines[0]))]
    return "\n".join(
        "  ".join(f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )
