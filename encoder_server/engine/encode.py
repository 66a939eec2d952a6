"""Features to embeddings: run the model, one tensor for each item, ready to be sent.

Place: last stage of the engine. The front checks every tensor against its promise.

Must never: know of HTTP, clients or the cache; cut or pad rows to a promise.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from encoder_server.encoders import Encoder, LayoutError
from encoder_server.engine.isolate import Fault, isolate
from encoder_server.engine.messages import Failure
from encoder_server.engine.preprocess import Ready

_SUMMED = (torch.float32, torch.bfloat16, torch.float16, torch.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """One item's rows: a contiguous CPU tensor (rows, width) in the model's dtype."""

    index: int
    modality: str
    rows: torch.Tensor
    finite: bool

    @property
    def dtype(self) -> str:
        """The dtype's name on the wire, `float32` or the like."""
        return str(self.rows.dtype).removeprefix("torch.")

    def raw(self) -> memoryview:
        """The rows' bytes, row major, little endian, without a copy."""
        return self.rows.reshape(-1).view(torch.uint8).numpy().data


def encode(
    encoder: Encoder[Any],
    ready: Sequence[Ready],
    *,
    together: bool,
    renew: Callable[[Ready], Ready],
    wanted: Callable[[int], bool],
) -> tuple[list[Embedding], list[Failure]]:
    """Encode `ready`, all of a modality `together` or each alone; each item becomes an Embedding or a Failure, or
    nothing where it is not `wanted` when its run begins.

    `renew` prepares an item once more, for a second run of it.
    """

    def run(items: Sequence[Ready]) -> list[tuple[torch.Tensor, bool]]:
        made = encoder.encode([item.features for item in items])
        own = [_on_host(rows) for rows in made]
        if isinstance(made, Sequence) and _overlap(made):
            raise LayoutError("items share the memory of their rows")
        return own

    parts = _by_modality(ready) if together else [[item] for item in ready]
    outcomes: dict[int, tuple[torch.Tensor, bool] | Fault] = {}
    for part in parts:
        kept = [item for item in part if wanted(item.medium.index)]
        outcomes |= zip(map(id, kept), isolate("model", run, kept, renew), strict=True)
    settled = [(item, outcomes[id(item)]) for item in ready if id(item) in outcomes]
    return (
        [_embedding(item, *outcome) for item, outcome in settled if not isinstance(outcome, Fault)],
        [_failure(item, outcome) for item, outcome in settled if isinstance(outcome, Fault)],
    )


def _embedding(item: Ready, rows: torch.Tensor, finite: bool) -> Embedding:
    return Embedding(index=item.medium.index, modality=item.medium.modality, rows=rows, finite=finite)


def _failure(item: Ready, fault: Fault) -> Failure:
    return Failure(
        index=item.medium.index,
        modality=item.medium.modality,
        code=fault.code,
        detail=fault.detail,
        promised=item.features.tokens,
        grid=item.features.grid,
        size=item.size,
    )


def _by_modality(ready: Sequence[Ready]) -> list[list[Ready]]:
    """One part for each modality that there is, in order."""
    modalities = dict.fromkeys(item.medium.modality for item in ready)
    return [[item for item in ready if item.medium.modality == modality] for modality in modalities]


def _on_host(rows: object) -> tuple[torch.Tensor, bool]:
    """Give an item's rows as the item's own, and whether all of them are finite.

    Copied, because an encoder may use its output buffer again for the next item; and here, inside the isolated
    run, because a device reports its errors when its results are fetched, and a tensor its oddities when read.
    """
    if not isinstance(rows, torch.Tensor):
        raise LayoutError(f"an item's rows are a {type(rows).__name__}, not a tensor")
    if rows.layout is not torch.strided or rows.is_meta or rows.is_quantized:
        raise LayoutError("an item's rows are sparse, quantized or without values")
    if rows.ndim != 2:
        raise LayoutError(f"an item's rows have {rows.ndim} dimensions")
    own = rows.detach().to("cpu", copy=True, memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    return own, _is_finite(own)


def _is_finite(rows: torch.Tensor) -> bool:
    """Return whether all values are finite. One that is not makes their sum so: most often the sum, one pass, will do,
    where the test of each makes four; a sum that overflowed proves nothing."""
    if rows.dtype in _SUMMED and math.isfinite(rows.sum().item()):
        return True
    return bool(torch.isfinite(rows).all())


def _overlap(made: Sequence[torch.Tensor]) -> bool:
    """Return whether rows of one item lie where those of another do: then one was written over the other."""
    spans = sorted(
        (str(rows.device), rows.data_ptr(), rows.data_ptr() + rows.element_size() * _reach(rows))
        for rows in made
        if rows.numel()
    )
    return any(left[0] == right[0] and right[1] < left[2] for left, right in itertools.pairwise(spans))


def _reach(rows: torch.Tensor) -> int:
    """How many elements lie between the first and the last one, both included."""
    return 1 + sum((size - 1) * stride for size, stride in zip(rows.shape, rows.stride(), strict=True))
