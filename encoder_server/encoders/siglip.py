"""SigLIP's vision tower: a row of each patch, or by `siglip_pooled` the attention head's one row.

Published SigLIP 2 checkpoints for one size of picture are of this model_type too.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `patch_towers`.

Must never: anything that `patch_towers` must never; read the text tower's weights.
"""

from __future__ import annotations

from typing import Self

from transformers import SiglipConfig, SiglipVisionConfig, SiglipVisionModel

from encoder_server.encoders import RefusedError, Source, processors
from encoder_server.encoders.loading import build, is_bare, read_config, read_full_config
from encoder_server.encoders.patch_towers import PatchEncoder
from encoder_server.encoders.weights import read_tower

BARE = "siglip_vision_model"
LEFT_OVER = ("embeddings.position_ids",)


class SiglipEncoder(PatchEncoder):
    """The `Encoder` for SigLIP checkpoints (both towers, or the vision tower alone): a row of each patch."""

    extra = 0
    one_size = True

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        processor = processors.make_fixed(processors.read_settings(source.processor))
        bare = is_bare(source.model, BARE)
        if bare:
            config = read_config(source.model, SiglipVisionConfig, bare=[BARE], name="SigLIP")
        else:
            config = read_full_config(source.model, SiglipConfig, name="SigLIP").vision_config
        if cls.pooled and not config.vision_use_head:
            raise RefusedError("config.json: vision_use_head is false: there is no pooled row")
        tower = read_tower(source.model, ["vision_model."], bare=bare, passed_by=LEFT_OVER)
        return cls(model=build(SiglipVisionModel, config, tower, source), processor=processor, weights=tower.digest)


class PooledSiglipEncoder(SiglipEncoder):
    """The `Encoder` for the same checkpoints: one row of each picture."""

    pooled = True
