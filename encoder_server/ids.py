"""Ids: names for requests that came without one, and for the parts of an answer; what an id of a caller's may be.

Must never: be taken for a secret: who has seen some can guess the next.
"""

from __future__ import annotations

import itertools
import random
import re

SAFE = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What a caller may send as an id; anything else is not looked at."""
_BOOT = f"{random.SystemRandom().getrandbits(64):016x}"
_NUMBERS = itertools.count(random.SystemRandom().getrandbits(48))


def fresh() -> str:
    """Return 32 hex digits that nobody has had before: the system's own random numbers cost more than a request does
    whose rows are known."""
    return f"{_BOOT}{next(_NUMBERS):016x}"
