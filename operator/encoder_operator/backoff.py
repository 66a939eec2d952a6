"""Back-off: how long a cordoned replica waits, and how many of its cordons count as being in a row.

Place: ladder and cordon ask it. Must never: read a clock, or draw lots: the jitter is a digest of the pod's uid and
the attempt, so that a restarted operator reckons the same.
"""

from __future__ import annotations

import hashlib

from encoder_operator.observation import CordonRecord
from encoder_operator.spec import QuarantineSpec

_JITTER = 0.25


def wait_seconds(limits: QuarantineSpec, record: CordonRecord, uid: str) -> float:
    """Seconds until the attempt after this one: base times attempts and earlier cordons in a row, at most the max,
    less up to a quarter of the base, or replicas that failed together would be tried together for ever."""
    steps = record.attempt + record.in_a_row - 1
    longest = min(limits.base_seconds * steps, limits.max_seconds)
    return longest - limits.base_seconds * _JITTER * _fraction(f"{uid} {record.times} {record.attempt}")


def next_in_a_row(limits: QuarantineSpec, record: CordonRecord | None, now: float) -> int:
    """What a cordon at `now` counts as: one more than the last, less one for each whole maxSeconds that the replica
    has served since its release."""
    if record is None:
        return 1
    healthy = 0.0 if record.released_at is None else max(0.0, now - record.released_at)
    return 1 + max(0, record.in_a_row - int(healthy // limits.max_seconds))


def _fraction(text: str) -> float:
    """A number from 0 up to 1 that is as good as drawn, and always the same for one text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:6], "big") / 2**48
