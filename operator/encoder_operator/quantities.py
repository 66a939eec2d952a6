"""Quantities: numbers as Kubernetes writes them, with a suffix: 500m, 2, 8Gi, 1e3.

Place: asked by the reading of a spec, and by comparison. Must never: round.
"""

from __future__ import annotations

import re
from decimal import Decimal

_QUANTITY = re.compile(r"([0-9.]+)(?:([KMGTPE]i)|([numkMGTPE])|[eE]([+-]?[0-9]+))?")
_BINARY = {f"{letter}i": Decimal(1024) ** power for power, letter in enumerate("KMGTPE", 1)}
_DECIMAL = {letter: Decimal(1000) ** power for power, letter in zip((-3, -2, -1), "num", strict=True)} | {
    letter: Decimal(1000) ** power for power, letter in enumerate("kMGTPE", 1)
}


def quantity(text: str) -> Decimal | None:
    """The number that a quantity stands for; None where the text is none."""
    match = _QUANTITY.fullmatch(text)
    if match is None or match[1].count(".") > 1 or match[1] == ".":
        return None
    number = Decimal(match[1])
    if match[2]:
        return number * _BINARY[match[2]]
    if match[3]:
        return number * _DECIMAL[match[3]]
    return number.scaleb(int(match[4])) if match[4] and abs(int(match[4])) < 100 else number
