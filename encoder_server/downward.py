"""The pod's own labels and annotations as the kubelet writes them: the cordon and the orders in them.

Place: between the files that `orders` reads and the replica. Pure.
Must never: fail on what anybody may write into an annotation; what cannot be understood is no order.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated

import pydantic

from encoder_server.settings import Limits
from encoder_server.size import Size

SERVING = "encoderpool.io/serving"
ORDER_PROBE = "encoderpool.io/order-probe"
ORDER_RESTART = "encoderpool.io/order-restart"
ORDER_FLUSH = "encoderpool.io/order-flush"
MOST_PRODUCERS = 32
MOST_SIZES = 8
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
_SHORT = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}


_Measure = Annotated[int, pydantic.Field(ge=0, lt=2**31)]


class _Size(pydantic.BaseModel):
    """As `Size`, by names that are checked: 0 is what the modality has not."""

    modality: str = pydantic.Field(max_length=32)
    width: _Measure = 0
    height: _Measure = 0
    frames: _Measure = 0
    fps: float = pydantic.Field(default=0, ge=0, le=1000)
    samples: _Measure = 0
    rate: _Measure = 0


_Producer = Annotated[str, pydantic.Field(min_length=1, max_length=256)]


class Order(pydantic.BaseModel):
    """An order for the boot `boot_id`; `sizes` go with a probe alone, `producers` with a flush."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    id: str = pydantic.Field(min_length=1, max_length=128)
    boot_id: str = pydantic.Field(alias="bootId", max_length=128)
    sizes: tuple[_Size, ...] = pydantic.Field(default=(), max_length=MOST_SIZES)
    producers: tuple[_Producer, ...] = pydantic.Field(default=(), max_length=MOST_PRODUCERS)

    def sizes_for(self, modalities: Collection[str] | None, limits: Limits) -> tuple[Size, ...]:
        """Return the sizes that this server could be sent; an order cannot ask for more than a caller may.

        While `modalities` are not known yet (None) they are the engine's to sort out: a size that is dropped
        for that alone would make a probe pass that never looked at it.
        """
        sizes = (Size(**size.model_dump()) for size in self.sizes)
        return tuple(size for size in sizes if size.fits(modalities) and limits.allow(size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """What the pod's labels and annotations say; `unreadable` names annotations that are no orders."""

    cordoned: bool
    probe: Order | None
    restart: Order | None
    flush: Order | None = None
    unreadable: tuple[str, ...] = ()


def parse_pairs(text: str) -> dict[str, str]:
    """Return the pairs of a downwardAPI file: one `key="value"` a line, the value quoted as Go quotes.

    A line that is none of that is left out.
    """
    pairs = {}
    for line in text.split("\n"):
        key, equals, value = line.partition("=")
        if equals and len(value) >= 2 and value[0] == value[-1] == '"':
            pairs[key] = _ESCAPE.sub(_unescape, value[1:-1])
    return pairs


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        # Go writes \x for bytes that are no UTF-8, and Python has no character beyond 0x10ffff.
        return chr(code) if code < 0x80 or (escape[0] != "x" and code <= 0x10FFFF) else "\N{REPLACEMENT CHARACTER}"
    return _SHORT.get(escape, escape)


def read_pod(labels: str, annotations: str) -> Pod:
    """Return what the two files say. Only the label's exact value "false" cordons: an absent label has never
    been decided about."""
    notes = parse_pairs(annotations)
    orders: dict[str, Order | None] = {}
    unreadable = []
    for key in (ORDER_PROBE, ORDER_RESTART, ORDER_FLUSH):
        orders[key] = None
        if key in notes:
            try:
                orders[key] = Order.model_validate_json(notes[key])
            except pydantic.ValidationError:
                unreadable.append(key)
    return Pod(
        cordoned=parse_pairs(labels).get(SERVING) == "false",
        probe=orders[ORDER_PROBE],
        restart=orders[ORDER_RESTART],
        flush=orders[ORDER_FLUSH],
        unreadable=tuple(unreadable),
    )
