"""Measure an identity's parts: digests of the processor's and the tower's settings, signature, library versions.

Place: after loading and the golden probe; `Hello` carries the result to the front, which makes the fingerprint.

Must never: echo what a file or an argument says where the loaded object can be asked.
"""

from __future__ import annotations

import base64
import enum
import importlib.metadata
import json
import math
import platform
from collections.abc import Mapping, Sequence

import blake3
import numpy as np
import numpy.typing as npt

from encoder_server.encoders import Description
from encoder_server.engine.integers import scatter

_NUMBERS = 16
_LIBRARIES = ("torch", "torchvision", "transformers", "pillow", "av", "soundfile", "soxr", "numpy", "safetensors")


def settings_digest(settings: Mapping[str, object]) -> str:
    """Hex digest of effective `settings`, of a processor or a tower, whatever the order of their keys."""
    text = json.dumps(settings, sort_keys=True, separators=(",", ":"), default=_plain)
    return blake3.blake3(text.encode()).hexdigest()


def signature(embeddings: Sequence[npt.NDArray[np.float32]]) -> str:
    """Project the golden probe's embeddings to 16 numbers; base64 of little-endian float32.

    Each number is a sum over the items of (rows . fixed random signs) / sqrt(rows * width), so that each item
    weighs alike. Such a projection keeps relative distances: embeddings that are off by one per cent in norm
    give a signature that is off by about one per cent, which is what its tolerance is stated in.
    """
    total = np.zeros(_NUMBERS, dtype=np.float64)
    for item, rows in enumerate(embeddings):
        flat = rows.astype(np.float64).reshape(-1)
        words = scatter(item + 1, np.arange(flat.size, dtype=np.uint64))
        for number in range(_NUMBERS):
            positive = (words >> np.uint64(number)) & np.uint64(1) == 1
            total[number] += (np.where(positive, flat, -flat)).sum() / math.sqrt(flat.size)
    return base64.b64encode(total.astype("<f4").tobytes()).decode("ascii")


def advisory(description: Description) -> dict[str, str]:
    """Give the parts that are shown and never judged: versions, dtype and device."""
    versions = {name: importlib.metadata.version(name) for name in _LIBRARIES}
    return {
        **versions,
        "python": platform.python_version(),
        "dtype": description.dtype,
        "device": description.device,
    }


def _plain(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, Mapping):
        return dict(value)
    return str(value)
