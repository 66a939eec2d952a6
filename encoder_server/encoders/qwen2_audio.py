"""Qwen2-Audio: the audio tower and the projector of a checkpoint; a row of each twenty-fifth of a second.

Rows are what the language model takes in a sound's place: the tower's, without what fills up the window, projected to
the language model's width. The filling is not attended to, as in the library's own model. A tower that is saved
alone has no projector, and its rows are its own.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `audio_towers`.

Must never: anything that `audio_towers` must never.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from transformers import Qwen2AudioConfig
from transformers.masking_utils import create_bidirectional_mask
from transformers.models.qwen2_audio import modeling_qwen2_audio as library
from transformers.models.qwen2_audio.configuration_qwen2_audio import Qwen2AudioEncoderConfig

from encoder_server.encoders import Source
from encoder_server.encoders.audio_towers import WindowEncoder, load_extractor, through
from encoder_server.encoders.loading import build, fill, is_bare, read_config, read_full_config
from encoder_server.encoders.weights import joint_digest, read_tower

_BARE = "qwen2_audio_encoder"
_TOWER = ("model.audio_tower.", "audio_tower.")
_PROJECTOR = ("model.multi_modal_projector.", "multi_modal_projector.")


class Qwen2AudioEncoder(WindowEncoder):
    """The `Encoder` for Qwen2-Audio checkpoints (full model or tower alone)."""

    def __init__(self, *, projector: torch.nn.Module | None, config: Any, **loaded: Any) -> None:
        super().__init__(**loaded, width=None if config is None else config.text_config.hidden_size)
        self._projector = projector
        self.joined = config

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        extractor = load_extractor(source)
        if is_bare(source.model, _BARE):
            config = read_config(source.model, Qwen2AudioEncoderConfig, bare=[_BARE], name="Qwen2-Audio")
            tower = read_tower(source.model, _TOWER)
            model = build(library.Qwen2AudioEncoder, config, tower, source)
            return cls(model=model, extractor=extractor, weights=tower.digest, projector=None, config=None)
        whole = read_full_config(source.model, Qwen2AudioConfig, name="Qwen2-Audio", section="audio_config")
        tower = read_tower(source.model, _TOWER, bare=False)
        model = build(library.Qwen2AudioEncoder, whole.audio_config, tower, source)
        tensors = read_tower(source.model, _PROJECTOR, bare=False)
        module = library.Qwen2AudioMultiModalProjector(whole)
        projector = fill(module, tensors, source, model.dtype, prefix=_PROJECTOR[-1])
        weights = joint_digest(tower.digest, tensors.digest)
        return cls(model=model, extractor=extractor, weights=weights, projector=projector, config=whole)

    def promise(self, frames: int) -> int:
        """See `WindowEncoder.promise`: as the Qwen2-Audio processor writes places into a prompt."""
        return ((frames - 1) // 2 + 1 - 2) // 2 + 1

    def rows(self, frames: int) -> int:
        """See `WindowEncoder.rows`."""
        return through(super().rows(frames), self._model.avg_pooler)

    def run(self, features: torch.Tensor, frames: Sequence[int]) -> torch.Tensor:
        """See `WindowEncoder.run`; positions beyond a sound's own are masked."""
        positions = torch.arange(through(features.shape[-1], self._model.conv1, self._model.conv2))
        own = torch.tensor([through(count, self._model.conv1, self._model.conv2) for count in frames])
        mask = create_bidirectional_mask(
            config=self._model.config,
            inputs_embeds=features.new_zeros(len(features), len(positions), 1),
            attention_mask=(positions[None] < own[:, None]).long().to(features.device),
        )
        made: torch.Tensor = self._model(features, attention_mask=mask).last_hidden_state
        return made if self._projector is None else self._projector(made)
