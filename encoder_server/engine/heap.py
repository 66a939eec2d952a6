"""The heap: what a batch has freed is kept for the next one, up to a bound.

Place: called once by the engine's program, before anything large is allocated. The C library gives the top of the heap
back to the system as soon as it is free, and takes it again for the next batch, page by page, each of them zeroed: a
tenth of what a small tower costs. Must never: hold more than the largest batch needed.
"""

from __future__ import annotations

import ctypes
import logging

KEPT_BYTES = 256 * 2**20
"""What may stay with the process though it is free: the most that one engine holds idle."""
_LARGEST_BYTES = 32 * 2**20  # The most that the C library takes for this: larger blocks always go back at once.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # As glibc's <malloc.h> has them.
_log = logging.getLogger(__name__)


def keep() -> bool:
    """Have freed memory kept; False where the C library has no such setting, or refuses it: then it is slower."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    kept = bool(mallopt(_M_MMAP_THRESHOLD, _LARGEST_BYTES)) and bool(mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
    if not kept:
        _log.warning("the C library gives freed memory back at once")
    return kept
