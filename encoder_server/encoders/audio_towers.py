"""Towers that take one window of audio, thirty seconds as published, however long the sound in it is.

Place: what Whisper and Qwen2-Audio share; a family states its model, how it promises, and what it does with the
tower's rows.

The processor fills each sound up to the window, and the model makes rows of all of it: those of the filling are cut
off here, by the strides of the model's own convolutions. What is independent: the window of the processor and that of
the model, and the number of mel bins; each stands in a file of its own, and where they differ the item fails as
`layout`. How long the sound is, the processor alone can say: promise and rows both start from its mask, no number is
stated twice, and so `check` is `self`. A sound longer than the window is refused, by whoever reads its header already
(`Declared.max_seconds`): the processor would cut it.

Must never: cut a sound without a word, or cut rows by the promise.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import torch

from encoder_server.encoders import (
    Description,
    Features,
    LayoutError,
    RefusedError,
    Sound,
    Source,
    UnfitMediaError,
    extractors,
)
from encoder_server.encoders.loading import describe

# A window is a long sequence already: more of them at once gain nothing on a CPU, and cost memory on any device.
_TOGETHER = 4


class WindowEncoder:
    """The `Encoder` around such a tower; a family adds `load`, `promise`, `rows`, and `run`."""

    joined: Any = None
    """The whole model's configuration, where rows are more than the tower's own."""

    def __init__(self, *, model: Any, extractor: Any, weights: str, width: int | None = None) -> None:
        self._model = model
        self._extractor = extractor
        self._weights = weights
        self._width = model.config.d_model if width is None else width
        config = model.config
        self._window = (
            config.num_mel_bins,
            config.max_source_positions * model.conv1.stride[0] * model.conv2.stride[0],
        )
        frames = next(frames for frames in itertools.count(1) if self.promise(frames))
        self._least = (frames - 1) * extractor.hop_length + 1

    def promise(self, frames: int) -> int:
        """Give the tokens of a sound of so many frames, as whoever expands a prompt counts them."""
        raise NotImplementedError

    def rows(self, frames: int) -> int:
        """Give the rows that the model makes of so many frames."""
        return through(frames, self._model.conv1, self._model.conv2)

    def run(self, features: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """Run the tower on `features` (n, mel bins, frames of a window): (n, rows of a window, width)."""
        made: torch.Tensor = self._model(features).last_hidden_state
        return made

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        return describe(
            self,
            self._model,
            self._extractor,
            weights=self._weights,
            settings=extractors.effective(self._extractor, "chunk_length"),
            width=self._width,
            check="self",
            joined=self.joined,
            modality="audio",
            sampling_rate=self._extractor.sampling_rate,
            max_seconds=self._extractor.n_samples / self._extractor.sampling_rate,
        )

    def warm_up(self) -> None:
        """Encode one silent window of the model's own geometry, so that no processor can make it fail."""
        blank = {"input_features": torch.zeros(self._window)}
        self.encode([Features(modality="audio", tokens=1, grid=(self._window[1],), cost=1, tensors=blank)])

    def preprocess(self, media: Sequence[Sound]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is the number of frames of the sound itself, `cost` that of its window."""
        extractors.refuse_short(self._extractor, media, self._least)
        for sound in media:
            if sound.samples.size > self._extractor.n_samples:
                limit = self._extractor.n_samples / sound.rate
                raise UnfitMediaError(f"{sound.samples.size / sound.rate:.3f} s of audio: more than {limit:g} s")
        made = extractors.run(self._extractor, media, padding="max_length")
        return [
            Features(
                modality="audio",
                tokens=self.promise(frames),
                grid=(frames,),
                cost=features.shape[-1],
                tensors={"input_features": features},
            )
            for features, frames in made
        ]

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (rows of the sound's frames, width)."""
        rows: list[torch.Tensor] = []
        for start in range(0, len(features), _TOGETHER):
            items = features[start : start + _TOGETHER]
            frames = [item.grid[0] for item in items]
            made = self.run(self._stacked(items), frames)
            rows += [part[: self._count(count, len(part))] for part, count in zip(made, frames, strict=True)]
        return rows

    def _stacked(self, items: Sequence[Features]) -> torch.Tensor:
        parts = [item.tensors["input_features"] for item in items]
        for part in parts:
            if tuple(part.shape) != self._window:
                raise LayoutError(f"the processor gave {tuple(part.shape)}, the model takes {self._window}")
        return torch.stack(parts).to(device=self._model.device, dtype=self._model.dtype)

    def _count(self, frames: int, made: int) -> int:
        count = self.rows(frames)
        if count > made:
            raise LayoutError(f"{frames} frames are {count} rows, the model made {made}")
        return count


def load_extractor(source: Source) -> Any:
    """Load an extractor with a window of its own; raises RefusedError naming what is missing or contradicts itself."""
    extractor = extractors.load(source.processor, "chunk_length")
    if extractor.hop_length > extractor.n_samples:
        raise RefusedError("preprocessor_config.json: hop_length is more than a whole window")
    return extractor


def through(length: int, *layers: torch.nn.Module) -> int:
    """Give the length of what convolutions and poolings make, one after another, of a sequence of `length`: along
    their last axis, by their own kernels, strides and paddings."""
    for layer in layers:
        own: Any = layer
        reach = getattr(own, "dilation", (1,))[-1] * (own.kernel_size[-1] - 1) + 1
        length = (length + 2 * own.padding[-1] - reach) // own.stride[-1] + 1
    return length
