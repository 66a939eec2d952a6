"""SigLIP 2 for pictures of any shape: a row of each patch that is none of the padding, or by `siglip2_pooled` one row.

The processor pads every picture to the same number of patches, and says twice which are real: by a mask and by a
grid. The promise counts the mask, by which attention and pooling go. The rows are cut by the grid, by which the
model places its positions: what lies beyond it stands at no place of the picture. So a processor whose two words
differ is seen. That the patches are of the model's size shows as a tensor that does not fit its first layer.

Place: driven by the engine's stages through the `Encoder` Protocol.

Must never: cut rows by the mask, or read the text tower's weights.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, Self

import torch
from transformers import Siglip2Config, Siglip2VisionConfig, Siglip2VisionModel

from encoder_server.encoders import (
    Description,
    Features,
    LayoutError,
    Picture,
    RefusedError,
    Source,
    processors,
)
from encoder_server.encoders.loading import build, describe, is_bare, read_config, read_full_config
from encoder_server.encoders.patch_towers import of_one_shape
from encoder_server.encoders.weights import read_tower

_BARE = "siglip2_vision_model"
_GIVES = ("pixel_attention_mask", "spatial_shapes")


class Siglip2Encoder:
    """The `Encoder` for such checkpoints (both towers, or the vision tower alone): a row of each patch."""

    pooled: ClassVar[bool] = False

    def __init__(self, *, model: Any, processor: Any, weights: str) -> None:
        self._model = model
        self._processor = processor
        self._weights = weights

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        settings = processors.read_settings(source.processor)
        for key in ("patch_size", "max_num_patches"):
            settings.whole(key)
        processor = processors.make(settings, gives=_GIVES, called="mask and shapes of patches")
        bare = is_bare(source.model, _BARE)
        if bare:
            config = read_config(source.model, Siglip2VisionConfig, bare=[_BARE], name="SigLIP 2")
        else:
            config = read_full_config(source.model, Siglip2Config, name="SigLIP 2").vision_config
        if cls.pooled and not config.vision_use_head:
            raise RefusedError("config.json: vision_use_head is false: there is no pooled row")
        tower = read_tower(source.model, ["vision_model."], bare=bare)
        return cls(model=build(Siglip2VisionModel, config, tower, source), processor=processor, weights=tower.digest)

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        check: Literal["promise", "self"] = "self" if self.pooled else "promise"
        return describe(
            self,
            self._model,
            self._processor,
            weights=self._weights,
            settings=processors.effective(self._processor),
            width=self._model.config.hidden_size,
            check=check,
        )

    def warm_up(self) -> None:
        """Encode one blank picture of the model's own patches, so that no processor can make it fail."""
        config = self._model.config
        tensors = {
            "pixel_values": torch.zeros(4, config.num_channels * config.patch_size**2),
            "pixel_attention_mask": torch.ones(4, dtype=torch.int32),
        }
        self.encode([Features(modality="image", tokens=4, grid=(2, 2), cost=4, tensors=tensors)])

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (height, width) in patches."""
        batch = processors.run(self._processor, media, gives=["pixel_values", *_GIVES], return_tensors=None)
        parts = zip(*(batch[key] for key in ("pixel_values", *_GIVES)), strict=True)
        return [
            Features(
                modality="image",
                tokens=1 if self.pooled else int(mask.sum()),
                grid=tuple(shape),
                cost=len(patches),
                tensors={"pixel_values": patches, "pixel_attention_mask": mask},
            )
            for patches, mask, shape in parts
        ]

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (patches of the picture's grid, width), or (1, width)."""
        rows: dict[int, torch.Tensor] = {}
        for batch in of_one_shape([item.tensors["pixel_values"] for item in features]):
            items = [features[at] for at in batch]
            output = self._model(
                **{key: self._stacked(items, key) for key in ("pixel_values", "pixel_attention_mask")},
                spatial_shapes=torch.tensor([item.grid for item in items], device=self._model.device),
            )
            made = output.pooler_output[:, None] if self.pooled else output.last_hidden_state
            for at, item, part in zip(batch, items, made, strict=True):
                rows[at] = part if self.pooled else _cut(part, *item.grid)
        return [rows[at] for at in range(len(features))]

    def _stacked(self, items: Sequence[Features], key: str) -> torch.Tensor:
        return torch.stack([item.tensors[key] for item in items]).to(self._model.device)


class PooledSiglip2Encoder(Siglip2Encoder):
    """The `Encoder` for the same checkpoints: one row of each picture."""

    pooled = True


def _cut(rows: torch.Tensor, height: int, width: int) -> torch.Tensor:
    if height * width > len(rows):
        raise LayoutError(f"a grid of {height}x{width}, and {len(rows)} patches")
    return rows[: height * width]
