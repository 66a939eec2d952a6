"""DINOv2: rows are the class token's and the patches', or by `dinov2_pooled` the class token's alone.

The model takes pictures of any size and stretches its positions to them, so nothing that a processor gives
contradicts it: `check` is `self`, and another size shows in the probe's counts and the processor's digest.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `patch_towers`.

Must never: anything that `patch_towers` must never.
"""

from __future__ import annotations

from typing import Self

from transformers import Dinov2Config, Dinov2Model

from encoder_server.encoders import Source, processors
from encoder_server.encoders.loading import build, read_config
from encoder_server.encoders.patch_towers import PatchEncoder
from encoder_server.encoders.weights import read_tower


class Dinov2Encoder(PatchEncoder):
    """The `Encoder` for DINOv2 checkpoints (the model, or one with a classifier on it): a row of each patch."""

    extra = 1
    one_size = False

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        processor = processors.make_fixed(processors.read_settings(source.processor))
        config = read_config(source.model, Dinov2Config, bare=["dinov2"], name="DINOv2")
        tower = read_tower(source.model, ["dinov2."])
        return cls(model=build(Dinov2Model, config, tower, source), processor=processor, weights=tower.digest)


class PooledDinov2Encoder(Dinov2Encoder):
    """The `Encoder` for the same checkpoints: one row of each picture."""

    pooled = True
