"""Probe reports: how a probe ended, and how /v1/identity shows it.

Place: made and kept by `replica`. Pure. Must never: judge a probe.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from encoder_server.engine.messages import ProbeItem


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeReport:
    """A probe: result running, passed or failed; `order_id` None for the golden probe at start or on the timer."""

    result: str
    order_id: str | None
    at: str
    items: tuple[ProbeItem, ...] = field(default=())


def are_good(items: Sequence[ProbeItem]) -> bool:
    """Return whether every one of these passed."""
    return all(item.result == "ok" for item in items)


def render(report: ProbeReport | None) -> dict[str, Any] | None:
    """Return `report` as `tests/contract/identity.json` has it."""
    if report is None:
        return None
    return {
        "result": report.result,
        "orderId": report.order_id,
        "at": report.at,
        "items": [_render_item(item) for item in report.items],
    }


def _render_item(item: ProbeItem) -> dict[str, Any]:
    return {
        "index": item.index,
        "modality": item.modality,
        **item.measures,
        **{name: getattr(item, name) for name in ("grid", "promised", "produced", "result")},
    }
