"""Numbers that look random and are the same on every machine: a hash of integers, by arithmetic alone.

Place: under the golden probe's pictures, the signature's projection and the made checkpoint.

Must never: call a library's random generator (its stream may change with a version), or use floating point
before the last step.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.uint64]


def scatter(seed: int, index: Words) -> Words:
    """Hash `index` under `seed` to 64 bits each, in the shape of `index` (the finalizer of splitmix64)."""
    with np.errstate(over="ignore"):
        word = index * np.uint64(0x9E3779B97F4A7C15) + np.uint64((seed * 0xD1B54A32D192ED03 + 1) % 2**64)
        word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return word ^ (word >> np.uint64(31))


def uniform(seed: int, count: int) -> npt.NDArray[np.float32]:
    """Give `count` values in [-1, 1), each exact in float32."""
    words = scatter(seed, np.arange(count, dtype=np.uint64))
    signed = (words >> np.uint64(40)).astype(np.int64) - 2**23
    return (signed / 2**23).astype(np.float32)
