"""Orders and the cordon record: between the values here and the JSON in a pod's annotations.

Place: observe reads them (parse), reconcile writes them (render); shapes are fixed by
tests/contract/orders.json. Must never: decide, or raise on what a person wrote into an annotation.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.observation import CordonRecord, CordonState, FlushOrder, Order, Question, Size
from encoder_operator.sizes import parse_size, render_size
from encoder_operator.timestamps import to_seconds, to_text

_MOST_TIMES = 2**31 - 1
# What a server takes as an order's id is bounded, and another's boot id is that one's own to say.
_LONGEST_BOOT = 64
# What a person wrote into a record is told in a status, which the API server bounds as a whole.
_LONGEST_TEXT = 1024
_QUESTION_ID = re.compile(r"(opinion-.*-[0-9]{1,10})-([0-9]{1,10})", re.DOTALL)


def parse_order(text: str | None) -> Order | None:
    """The order in an annotation; None where there is none, or nothing that is one."""
    value = _object(text)
    match value:
        case {"id": str(order_id), "bootId": str(boot_id)}:
            return Order(id=order_id, boot_id=boot_id)
        case _:
            return None


def parse_question(text: str | None) -> Question | None:
    """The question in a probe order's annotation; None where the order, or what stands there, asks about nobody."""
    value = _object(text)
    match = _QUESTION_ID.fullmatch(str(value.get("id")))
    try:
        sizes = _parse_sizes(value["sizes"])
        boot_id = value["bootId"]
    except (KeyError, OverflowError, TypeError, ValueError):
        return None
    if match is None or not sizes or not isinstance(boot_id, str):
        return None
    return Question(id=match[0], boot_id=boot_id, about=match[1], asked_at=float(match[2]), sizes=sizes)


def parse_flush(text: str | None) -> FlushOrder | None:
    """The flush order in an annotation; None where there is none, or nothing that is one."""
    match _object(text):
        case {"id": str(order_id), "bootId": str(boot_id), "producers": [*producers]}:
            return FlushOrder(id=order_id, boot_id=boot_id, producers=tuple(map(str, producers)))
        case _:
            return None


def about(boot_id: str, times: int) -> str:
    """What all questions about this boot begin with, once it was cordoned so many times."""
    return f"opinion-{boot_id[:_LONGEST_BOOT]}-{times}"


def question(subject: str, boot_id: str, sizes: tuple[Size, ...], now: float) -> Question:
    """The question about `subject` for the boot of a peer, asked now: a boot never does one id twice."""
    asked_at = int(now)
    return Question(id=f"{subject}-{asked_at}", boot_id=boot_id, about=subject, asked_at=float(asked_at), sizes=sizes)


def parse_record(text: str | None) -> CordonRecord | None:
    """The cordon record in an annotation; None where there is none, or nothing that is one."""
    value = _object(text)
    try:
        record = _record(value) if value else None
        return record if record is not None and _can_be_told(record) else None
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


def render_record(record: CordonRecord) -> str:
    """The annotation's text for a record; equal records give equal text."""
    return _text(
        {
            "by": record.by,
            "state": record.state.value,
            "reason": record.reason,
            "message": record.message,
            "since": to_text(record.since),
            "releasedAt": _optional_text(record.released_at),
            "times": record.times,
            "inARow": record.in_a_row,
            "attempt": record.attempt,
            "bootId": record.boot_id,
            "attemptBootId": record.attempt_boot_id,
            "nextAttemptAt": _optional_text(record.next_attempt_at),
            "orderedAt": _optional_text(record.ordered_at),
            "evictionBlocked": record.eviction_blocked,
            "sizes": _sizes(record.sizes),
        }
    )


def render_restart(order: Order) -> str:
    """The annotation's text for a restart order."""
    return _text({"id": order.id, "bootId": order.boot_id})


def render_probe(order: Order, sizes: Sequence[Size]) -> str:
    """The annotation's text for a probe order: the golden probe and media of these sizes."""
    return _text({"id": order.id, "bootId": order.boot_id, "sizes": _sizes(sizes)})


def render_flush(order: FlushOrder) -> str:
    """The annotation's text for a flush order."""
    return _text({"id": order.id, "bootId": order.boot_id, "producers": list(order.producers)})


def _object(text: str | None) -> Mapping[str, Any]:
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _record(value: Mapping[str, Any]) -> CordonRecord:
    return CordonRecord(
        by=str(value["by"])[:_LONGEST_TEXT],
        state=CordonState(value["state"]),
        reason=str(value["reason"])[:_LONGEST_TEXT],
        message=str(value["message"])[:_LONGEST_TEXT],
        since=to_seconds(value["since"]),
        released_at=_optional_seconds(value["releasedAt"]),
        times=int(value["times"]),
        # A record of an earlier release lacks what came later: the operator's upgrade must not lose the cordon.
        in_a_row=int(value.get("inARow", value["times"])),
        attempt=int(value["attempt"]),
        boot_id=None if value.get("bootId") is None else str(value["bootId"]),
        attempt_boot_id=None if value["attemptBootId"] is None else str(value["attemptBootId"]),
        next_attempt_at=_optional_seconds(value["nextAttemptAt"]),
        eviction_blocked=None
        if value.get("evictionBlocked") is None
        else str(value["evictionBlocked"])[:_LONGEST_TEXT],
        sizes=_parse_sizes(value["sizes"]),
        ordered_at=_optional_seconds(value.get("orderedAt")),
    )


def _parse_sizes(value: Sequence[Mapping[str, Any]]) -> tuple[Size, ...]:
    return tuple(parse_size(each) for each in value)


def _can_be_told(record: CordonRecord) -> bool:
    """Whether what a person may have edited still fits a status and the ladder: one number or date too large
    would have every pass over the pool refused."""
    render_record(record)
    if record.by == vocabulary.FIELD_MANAGER and record.reason not in vocabulary.REASONS:
        return False
    counted = 0 <= record.in_a_row < _MOST_TIMES
    return counted and all(0 < each < _MOST_TIMES for each in (record.times, record.attempt))


def _sizes(sizes: Sequence[Size]) -> list[dict[str, Any]]:
    return [render_size(each) for each in sizes]


def _text(value: Mapping[str, Any]) -> str:
    return json.dumps(value, separators=(",", ":"))


def _optional_seconds(text: str | None) -> float | None:
    return None if text is None else to_seconds(text)


def _optional_text(seconds: float | None) -> str | None:
    return None if seconds is None else to_text(seconds)
