"""An encoder looked at while an engine's pipeline drives it: which calls fail, and whose memory rows lie in.

Place: `sweep` puts it between the pipeline and the encoder. The pipeline runs a failed batch again item by item and
copies every row, as it must; what it thereby hides is seen here.

Must never: change what goes in or comes out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch

from encoder_server.encoders import Description, Encoder, Features, Picture, Source, UnfitMediaError
from encoder_server.engine.bounds import DEFAULTS, Bounds
from encoder_server.engine.pipeline import Pipeline

# Rows of a call are kept to see whether the next one writes over them; of large items that would cost memory.
_MOST_KEPT = 2**22


class Watched:
    """An `Encoder` around another; what it saw since `forget` is in its attributes.

    `troubles`: calls of several items that failed; `errors`: those of one; `shared`: items that shared memory.
    """

    def __init__(self, encoder: Encoder[Any]) -> None:
        self._encoder = encoder
        self._kept: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.forget()

    def forget(self) -> None:
        """Begin a new run."""
        self.troubles: list[str] = []
        self.errors: list[str] = []
        self.shared: list[tuple[int, int]] = []
        self.overwritten = False

    @classmethod
    def load(cls, source: Source) -> Self:
        """Not for use: an encoder that is loaded is watched."""
        raise NotImplementedError

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        return self._encoder.describe()

    def warm_up(self) -> None:
        """See `Encoder.warm_up`."""
        self._encoder.warm_up()

    def __getattr__(self, name: str) -> Any:
        """Have what only some encoders have (`ChoosesFrames`) where the watched one has it."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._encoder, name)

    def preprocess(self, media: Sequence[Picture]) -> Sequence[Features]:
        """See `Encoder.preprocess`."""
        features: Sequence[Features] = self._call("processor", self._encoder.preprocess, media)
        return features

    def encode(self, features: Sequence[Features]) -> Sequence[torch.Tensor]:
        """See `Encoder.encode`."""
        rows: Sequence[torch.Tensor] = self._call("model", self._encoder.encode, features)
        self._look_at(rows)
        return rows

    def _call(self, stage: str, run: Any, items: Sequence[Any]) -> Any:
        seen = self.errors if len(items) == 1 else self.troubles
        try:
            results = run(items)
        except (MemoryError, torch.OutOfMemoryError, UnfitMediaError):
            raise
        except Exception as error:
            text = str(error).strip().partition("\n")[0][:160]
            seen.append(f"the {stage} raised {type(error).__name__}: {text}")
            raise
        if len(results) != len(items):
            seen.append(f"the {stage} took {len(items)} items and gave {len(results)}")
        return results

    def _look_at(self, rows: Sequence[Any]) -> None:
        tensors = [each if isinstance(each, torch.Tensor) else None for each in rows]
        odd = next((each for each in rows if not isinstance(each, torch.Tensor) or each.ndim != 2), None)
        if odd is not None:
            shape = f"of shape {tuple(odd.shape)}" if isinstance(odd, torch.Tensor) else f"a {type(odd).__name__}"
            self.errors.append(f"the model gave rows {shape}, not (rows, width)")
            self._kept = []
            return
        own = [each for each in tensors if each is not None]
        self.overwritten |= any(not torch.equal(tensor, before) for tensor, before in self._kept)
        self.shared += [
            (left, right) for right in range(len(own)) for left in range(right) if _overlap(own[left], own[right])
        ]
        small = sum(each.numel() for each in own) <= _MOST_KEPT
        self._kept = [(each, each.clone()) for each in own if bool(torch.isfinite(each).all())] if small else []


class Watching(Pipeline):
    """An engine's pipeline around a watched encoder: `load` loads as an engine does."""

    def __init__(self, encoder: Encoder[Any], *, bounds: Bounds = DEFAULTS) -> None:
        self.watched = Watched(encoder)
        super().__init__(self.watched, bounds=bounds)


def _overlap(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.untyped_storage().data_ptr() != right.untyped_storage().data_ptr() or not left.numel() or not right.numel():
        return False
    (start, end), (other_start, other_end) = _extent(left), _extent(right)
    return start < other_end and other_start < end


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    start = int(tensor.storage_offset())
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    return start, start + sum(int(size - 1) * int(stride) for size, stride in steps) + 1
