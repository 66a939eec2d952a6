"""Timestamps: between Unix seconds, in which decisions reckon, and the API's RFC 3339 text.

Place: read by orders, replicas, standing and status. Must never: read a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(seconds: float) -> str:
    """RFC 3339 in UTC, whole seconds (rounded down), as metav1.Time has it."""
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_seconds(text: str) -> float:
    """Unix seconds of an RFC 3339 time; ValueError where it is none, or names no zone."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"{text!r} names no time zone")
    return moment.timestamp()
