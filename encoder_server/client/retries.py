"""Retries: whether a call is tried again, and after how long.

Place: asked by both clients after a try that failed. Pure: the time and the roll of the dice are arguments.
Must never: try again what would fail again, or wait beyond the call's deadline.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime

from encoder_server.client.failures import EncoderPoolError


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How often, and how long between: a random part of `base_seconds`, doubled at each try up to `most_seconds`, and
    what the server's Retry-After says on top, so that many callers do not come back together."""

    attempts: int = 4
    base_seconds: float = 0.2
    most_seconds: float = 5.0

    def pause(self, error: EncoderPoolError, tried: int, left: float, roll: float) -> float | None:
        """Return the seconds to wait after `tried` tries, with `left` seconds to the deadline and a `roll` in [0, 1);
        None where the error is final."""
        if not error.again or tried >= self.attempts:
            return None
        seconds = roll * min(self.most_seconds, self.base_seconds * 2.0 ** (tried - 1)) + (error.retry_after or 0.0)
        return seconds if seconds < left else None


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that an answer's Retry-After asks for; a date there is taken from the answer's own Date."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        span = parsedate_to_datetime(text) - parsedate_to_datetime(headers.get("date", ""))
    except (TypeError, ValueError, ArithmeticError, LookupError):
        return None
    return max(0.0, span.total_seconds())
