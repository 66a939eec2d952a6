"""Qwen3-Omni: the thinker's audio tower, of a whole checkpoint, of the thinker's or of the tower alone.

Rows are what the language model takes in a sound's place. The tower cuts a sound into windows of a second or so and
makes up to thirteen rows of each; a sound may be of any length.

The promise is the Qwen3-Omni processor's count: from the frames that the extractor really made, by the processor's
own `n_window`. The rows are all that the model made, by config.json's `n_window`: where the two differ, the check sees
it. Alone, a sound's last window is as long as what is left of it; beside a longer one it would be filled up, and
the convolutions would see the filling. So a processor's run has one sound, and a model's run those that fill alike.

Place: driven by the engine's stages through the `Encoder` Protocol.

Must never: bring the two windows into line, or let a sound's rows depend on its batch mates.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Self

import torch
from transformers.models.qwen3_omni_moe import modeling_qwen3_omni_moe as library
from transformers.models.qwen3_omni_moe import processing_qwen3_omni_moe as processing
from transformers.models.qwen3_omni_moe.configuration_qwen3_omni_moe import Qwen3OmniMoeAudioEncoderConfig

from encoder_server.encoders import Description, Features, LayoutError, RefusedError, Sound, Source, extractors
from encoder_server.encoders.audio_towers import through
from encoder_server.encoders.loading import build, describe, is_bare, read_config
from encoder_server.encoders.processors import read_whole
from encoder_server.encoders.weights import read_tower

_BARE = "qwen3_omni_moe_audio_encoder"
_TOWER = ("thinker.audio_tower.", "audio_tower.")


class Qwen3OmniEncoder:
    """The `Encoder` for Qwen3-Omni checkpoints."""

    def __init__(self, *, model: Any, extractor: Any, n_window: int, weights: str) -> None:
        self._model = model
        self._extractor = extractor
        self._n_window = n_window
        self._weights = weights
        self._frames: int = 2 * model.config.n_window
        # Half an FFT is mirrored at either end of a sound.
        self._least = max(extractor.hop_length, extractor.n_fft // 2 + 1)

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        extractor = extractors.load(source.processor)
        config = read_config(
            source.model,
            Qwen3OmniMoeAudioEncoderConfig,
            bare=[_BARE],
            name="Qwen3-Omni audio",
            section="audio_config",
            within="thinker_config",
        )
        tower = read_tower(source.model, _TOWER, bare=is_bare(source.model, _BARE))
        model = build(library.Qwen3OmniMoeAudioEncoder, config, tower, source)
        encoder = cls(model=model, extractor=extractor, n_window=_promised_window(source), weights=tower.digest)
        encoder._refuse_window()
        return encoder

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        return describe(
            self,
            self._model,
            self._extractor,
            weights=self._weights,
            settings={**extractors.effective(self._extractor), "n_window": self._n_window},
            width=self._model.config.output_dim,
            modality="audio",
            sampling_rate=self._extractor.sampling_rate,
        )

    def warm_up(self) -> None:
        """Encode one silent window of the model's own geometry, so that no processor can make it fail."""
        blank = {"input_features": torch.zeros(self._model.config.num_mel_bins, self._frames)}
        self.encode([Features(modality="audio", tokens=1, grid=(self._frames,), cost=1, tensors=blank)])

    def preprocess(self, media: Sequence[Sound]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` and `cost` are the number of frames."""
        extractors.refuse_short(self._extractor, media, self._least)
        made = [extractors.run(self._extractor, [sound], padding=True, truncation=False)[0] for sound in media]
        return [
            Features(
                modality="audio",
                tokens=self._promise(frames),
                grid=(frames,),
                cost=frames,
                tensors={"input_features": features[:, :frames]},
            )
            for features, frames in made
        ]

    def _promise(self, frames: int) -> int:
        places: int = processing._get_feat_extract_output_lengths(frames, self._n_window)
        return places

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (rows of the sound, `output_dim`)."""
        rows: dict[int, torch.Tensor] = {}
        for places in self._alike(features):
            parts = [features[at].tensors["input_features"] for at in places]
            made = self._run(parts)
            counts = [self._rows(part.shape[1]) for part in parts]
            if len(parts) == 1:
                counts = [len(made)]
            elif sum(counts) != len(made):
                raise LayoutError(f"the model made {len(made)} rows, its geometry says {sum(counts)}")
            rows |= dict(zip(places, made.split(counts), strict=True))
        return [rows[at] for at in range(len(features))]

    def _run(self, parts: Sequence[torch.Tensor]) -> torch.Tensor:
        bins = self._model.config.num_mel_bins
        if any(part.shape[0] != bins for part in parts):
            raise LayoutError(f"the processor gave {parts[0].shape[0]} mel bins, the model takes {bins}")
        device = self._model.device
        lengths = torch.tensor([part.shape[1] for part in parts], device=device)
        made: torch.Tensor = self._model(torch.cat(list(parts), dim=1).to(device), feature_lens=lengths).pooler_output
        return made

    def _alike(self, features: Sequence[Features]) -> Iterator[list[int]]:
        """Give the places of sounds whose windows are filled up to the same length, whoever is beside them."""
        by_length: dict[int, list[int]] = {}
        for at, item in enumerate(features):
            frames = item.tensors["input_features"].shape[1]
            by_length.setdefault(min(frames, self._frames), []).append(at)
        yield from by_length.values()

    def _rows(self, frames: int) -> int:
        whole, left = divmod(frames, self._frames)
        return whole * self._through(self._frames) + (self._through(left) if left else 0)

    def _through(self, frames: int) -> int:
        return through(frames, self._model.conv2d1, self._model.conv2d2, self._model.conv2d3)

    def _refuse_window(self) -> None:
        """Raise RefusedError where the library, which counts thirteen rows to a window of any length, would take rows
        of one window for those of the next."""
        config, made = self._model.config, self._through(self._frames)
        counted = library._get_feat_extract_output_lengths(self._frames, config.n_window)
        if made != counted:
            raise RefusedError(f"config.json: n_window is {config.n_window}: {made} rows to a window, not {counted}")
        if config.n_window_infer < self._frames:
            raise RefusedError(f"config.json: n_window_infer is less than a window of {self._frames} frames")


def _promised_window(source: Source) -> int:
    """Give the processor's own `n_window`: processor_config.json's, else its class's."""
    whole = read_whole(source.processor)
    if "n_window" in whole.content:
        return whole.whole("n_window")
    default: int = processing.Qwen3OmniMoeProcessor.n_window
    return default
