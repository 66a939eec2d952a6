"""Ids: names for requests that came without one, and for the parts of an answer; what an id of a caller's may be.

Must never: be taken for a secret: who has seen some can guess the next.
"""

from __future__ import annotations

import random
import re

SAFE = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What a caller may send as an id; anything else is not looked at."""
_NUMBERS = random.Random(random.SystemRandom().getrandbits(256))  # noqa: S311 - names; the system's own cost more than the request


def fresh() -> str:
    """Return 32 hex digits that nobody has had before."""
    return f"{_NUMBERS.getrandbits(128):032x}"
