"""Times as answers have them: RFC 3339 in UTC, with microseconds.

Place: asked by whoever states a time to the operator. Pure. Must never: read a clock.
"""

from __future__ import annotations

from datetime import UTC, datetime


def to_text(seconds: float) -> str:
    """Return the time that lies so many seconds behind the beginning of 1970."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
