"""CLIP's vision tower: rows are the class token's and the patches', or by `clip_pooled` the picture's one embedding.

The pooled row is what the library's `get_image_features` gives, projected into the space shared with texts, where
the checkpoint has the projection; for a bare tower it is the class token's after the last norm.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `patch_towers`.

Must never: anything that `patch_towers` must never; read the text tower's weights.
"""

from __future__ import annotations

from typing import Any, Self

import torch
from transformers import CLIPConfig, CLIPVisionConfig, CLIPVisionModel

from encoder_server.encoders import Source, processors, read_json
from encoder_server.encoders.loading import build, fill, is_bare, read_config, read_full_config
from encoder_server.encoders.patch_towers import PatchEncoder
from encoder_server.encoders.weights import joint_digest, read_tower

BARE = "clip_vision_model"
# A buffer that older files hold, and no weight.
LEFT_OVER = ("embeddings.position_ids",)
_PROJECTION = "visual_projection."


class ClipEncoder(PatchEncoder):
    """The `Encoder` for CLIP checkpoints (both towers, or the vision tower alone): a row of each patch."""

    extra = 1
    one_size = True

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        model, processor, weights, _ = _load(source)
        return cls(model=model, processor=processor, weights=weights)


class PooledClipEncoder(ClipEncoder):
    """The `Encoder` for the same checkpoints: one row of each picture."""

    pooled = True

    def __init__(
        self, *, model: Any, processor: Any, weights: str, projection: torch.nn.Module | None, width: int | None
    ) -> None:
        super().__init__(model=model, processor=processor, weights=weights, width=width)
        self._projection = projection

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        model, processor, weights, has_projection = _load(source)
        if not has_projection:
            return cls(model=model, processor=processor, weights=weights, projection=None, width=None)
        tensors = read_tower(source.model, [_PROJECTION], bare=False)
        # Its width is the tensor's own: files of both towers and of one alone say it in different places.
        wide = tensors.tensors.get("weight", torch.empty(0, 0)).shape[0]
        linear = torch.nn.Linear(model.config.hidden_size, wide, bias=False)
        projection = fill(linear, tensors, source, model.dtype, prefix=_PROJECTION)
        weights = joint_digest(weights, tensors.digest)
        return cls(model=model, processor=processor, weights=weights, projection=projection, width=wide)

    def run(self, pixels: torch.Tensor) -> torch.Tensor:
        """See `PatchEncoder.run`."""
        made = super().run(pixels)
        return made if self._projection is None else self._projection(made)


def _load(source: Source) -> tuple[Any, Any, str, bool]:
    """Load tower and processor; the last value says whether the checkpoint must have a projection."""
    processor = processors.make_fixed(processors.read_settings(source.processor))
    content = read_json(source.model, "config.json")
    bare = is_bare(source.model, BARE)
    if bare:
        config = read_config(source.model, CLIPVisionConfig, bare=[BARE], name="CLIP")
        has_projection = content.get("architectures") == ["CLIPVisionModelWithProjection"]
    else:
        config = read_full_config(source.model, CLIPConfig, name="CLIP").vision_config
        has_projection = True
    tower = read_tower(source.model, ["vision_model."], bare=bare, passed_by=LEFT_OVER)
    return build(CLIPVisionModel, config, tower, source), processor, tower.digest, has_projection
