"""Features to embeddings: run the model, one tensor for each item, ready to be sent.

Place: last stage of the engine. The front checks every tensor against its promise.

Must never: know of HTTP, clients or the cache; cut or pad rows to a promise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from encoder_server.encoders import Encoder, Features, LayoutError
from encoder_server.engine.isolate import Fault, isolate
from encoder_server.engine.messages import Failure
from encoder_server.engine.preprocess import Ready


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


def encode(encoder: Encoder, ready: Sequence[Ready], *, together: bool) -> tuple[list[Embedding], list[Failure]]:
    """Encode `ready`, `together` as one batch or each alone; each item becomes an Embedding or a Failure."""

    def run(features: Sequence[Features]) -> list[tuple[torch.Tensor, bool]]:
        return [_on_host(rows) for rows in encoder.encode(features)]

    features = [item.features for item in ready]
    if together:
        outcomes = isolate("model", run, features)
    else:
        outcomes = [outcome for item in features for outcome in isolate("model", run, [item])]
    embeddings: list[Embedding] = []
    failures: list[Failure] = []
    for item, outcome in zip(ready, outcomes, strict=True):
        medium = item.medium
        if isinstance(outcome, Fault):
            failures.append(
                Failure(
                    index=medium.index,
                    modality=medium.modality,
                    code=outcome.code,
                    detail=outcome.detail,
                    promised=item.features.tokens,
                    grid=item.features.grid,
                )
            )
        else:
            rows, finite = outcome
            embeddings.append(Embedding(index=medium.index, modality=medium.modality, rows=rows, finite=finite))
    return embeddings, failures


def _on_host(rows: object) -> tuple[torch.Tensor, bool]:
    """Give an item's rows as the item's own, and whether all of them are finite.

    Copied, because an encoder may use its output buffer again for the next item; and here, inside the isolated
    run, because a device reports its errors when its results are fetched, and a tensor its oddities when read.
    """
    if not isinstance(rows, torch.Tensor):
        raise LayoutError(f"an item's rows are a {type(rows).__name__}, not a tensor")
    if rows.ndim != 2:
        raise LayoutError(f"an item's rows have {rows.ndim} dimensions")
    own = rows.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
    return own, bool(torch.isfinite(own).all())
