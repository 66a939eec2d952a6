"""Sizes: a medium's size between the value here and the JSON of orders, violations and probes.

Place: used by `orders` and `identity_document`; the shape is fixed by tests/contract/orders.json. Pure.
Must never: know which measures a modality has, or render one that a size has not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from encoder_operator.observation import Size

_WHOLE = ("width", "height", "frames", "samples", "rate")
_LONGEST_NAME = 32
_MOST = 2**31


def parse_size(value: object) -> Size:
    """The size in this object; raises TypeError, ValueError, KeyError or OverflowError where there is none."""
    if not isinstance(value, Mapping):
        raise TypeError("a size is an object")
    measures = {name: int(value.get(name, 0)) for name in _WHOLE}
    fps = float(value.get("fps", 0))
    if not math.isfinite(fps) or not all(0 <= each < _MOST for each in (fps, *measures.values())):
        raise ValueError("not a size")
    return Size(modality=str(value["modality"])[:_LONGEST_NAME], fps=fps, **measures)


def render_size(size: Size) -> dict[str, Any]:
    """The object for a size: what it has not is left out."""
    measures = {name: getattr(size, name) for name in ("width", "height", "frames", "fps", "samples", "rate")}
    return {"modality": size.modality} | {name: value for name, value in measures.items() if value}
