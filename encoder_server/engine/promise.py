"""Features to promises: what the processor's own output says that the encoder will produce.

Place: third stage of the engine; what it gives is sent to the front before the model runs.

Must never: compute a count of its own, or change a promise that was given.
"""

from __future__ import annotations

from collections.abc import Sequence

from encoder_server.engine.messages import Failure, Promise
from encoder_server.engine.preprocess import Ready


def promise(ready: Sequence[Ready]) -> tuple[list[Ready], list[Promise], list[Failure]]:
    """Give the items to encode, a promise for each, and the items whose caller expected another count."""
    kept: list[Ready] = []
    promises: list[Promise] = []
    failures: list[Failure] = []
    for item in ready:
        medium, features = item.medium, item.features
        if medium.expected_tokens not in (None, features.tokens):
            failures.append(
                Failure(
                    index=medium.index,
                    modality=medium.modality,
                    code="promise_mismatch",
                    detail=f"expected {medium.expected_tokens} tokens, the processor makes {features.tokens}",
                    promised=features.tokens,
                    grid=features.grid,
                    size=item.size,
                )
            )
            continue
        kept.append(item)
        promises.append(
            Promise(
                index=medium.index,
                modality=medium.modality,
                tokens=features.tokens,
                grid=features.grid,
                size=item.size,
            )
        )
    return kept, promises, failures
