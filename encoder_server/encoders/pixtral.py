"""Pixtral's tower: pictures of any shape, a row of each patch; with LLaVA's projector where the checkpoint has it.

Rows are what the language model takes in a picture's place, without the break tokens between lines; of a tower that
is published alone, its last hidden states. The promise is the processor's: its `image_sizes` by its own patch
(`patch_size` times `spatial_merge_size` of processor_config.json, or the image processor's). The rows are as many as
the model's own convolution makes.

Pictures are run one by one: the tower would attend over a whole batch as one sequence, which is slower.

Place: driven by the engine's stages through the `Encoder` Protocol.

Must never: pad a picture to the size of another, or cut rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from transformers import LlavaConfig, PixtralVisionConfig, PixtralVisionModel

from encoder_server.encoders import (
    Description,
    Features,
    LayoutError,
    Picture,
    RefusedError,
    Source,
    processors,
)
from encoder_server.encoders.llava import TOWER, Selection, load_projector
from encoder_server.encoders.loading import build, describe, is_bare, read_config, read_full_config
from encoder_server.encoders.weights import joint_digest, read_tower

_BARE = "pixtral"


class PixtralEncoder:
    """The `Encoder` for Pixtral checkpoints (a LLaVA with this tower, or the tower alone)."""

    def __init__(
        self,
        *,
        model: Any,
        processor: Any,
        patch: tuple[int, int],
        weights: str,
        projected: tuple[Selection, torch.nn.Module, int] | None = None,
        joined: Any = None,
    ) -> None:
        """`projected`: of what hidden states, by what and to what width, as the configuration `joined` says; of a
        bare tower nothing is."""
        self._model = model
        self._processor = processor
        self._patch = patch
        self._weights = weights
        self._projected = projected
        self._joined = joined
        self._width = model.config.hidden_size if projected is None else projected[2]

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        settings = processors.read_settings(source.processor)
        settings.require("patch_size", "size")
        processor = processors.make(settings, gives=["image_sizes"], called="sizes of pictures")
        patch = _patch(source, processor)
        if is_bare(source.model, _BARE):
            config = read_config(source.model, PixtralVisionConfig, bare=[_BARE], name="Pixtral")
            tower = read_tower(source.model, ["vision_encoder."])
            model = build(PixtralVisionModel, config, tower, source)
            return cls(model=model, processor=processor, patch=patch, weights=tower.digest)
        config = read_full_config(source.model, LlavaConfig, name="Pixtral")
        if config.vision_config.model_type != _BARE:
            raise RefusedError(f"config.json: vision_config.model_type is not {_BARE}")
        tower = read_tower(source.model, TOWER, bare=False)
        model = build(PixtralVisionModel, config.vision_config, tower, source)
        projector, digest = load_projector(config, source, model.dtype)
        projected = (Selection(config), projector, config.text_config.hidden_size)
        weights = joint_digest(tower.digest, digest)
        return cls(model=model, processor=processor, patch=patch, weights=weights, projected=projected, joined=config)

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        return describe(
            self,
            self._model,
            self._processor,
            weights=self._weights,
            settings={**processors.effective(self._processor), "patch": list(self._patch)},
            width=self._width,
            joined=self._joined,
        )

    def warm_up(self) -> None:
        """Encode one blank picture of the model's own patches, so that no processor can make it fail."""
        config = self._model.config
        blank = torch.zeros(config.num_channels, 2 * config.patch_size, 2 * config.patch_size)
        self.encode([Features(modality="image", tokens=4, grid=(2, 2), cost=4, tensors={"pixel_values": blank})])

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (height, width) in the processor's patches."""
        processors.refuse_thin(media)
        patch = {"height": self._patch[0], "width": self._patch[1]}
        gives = ["pixel_values", "image_sizes"]
        batch = processors.run(self._processor, media, gives=gives, return_tensors=None, do_pad=False, patch_size=patch)
        features = []
        for pixels, size in zip(batch["pixel_values"], batch["image_sizes"], strict=True):
            grid = (size[0] // self._patch[0], size[1] // self._patch[1])
            tokens = grid[0] * grid[1]
            tensors = {"pixel_values": pixels}
            features.append(Features(modality="image", tokens=tokens, grid=grid, cost=tokens, tensors=tensors))
        return features

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (patches, width of the language model or of the tower)."""
        return [self._rows(item.tensors["pixel_values"]) for item in features]

    def _rows(self, pixels: torch.Tensor) -> torch.Tensor:
        output = self._model(pixel_values=pixels[None].to(self._model.device), output_hidden_states=True)
        made: torch.Tensor = output.last_hidden_state
        if self._projected is not None:
            selection, projector, _ = self._projected
            made = projector(selection.of(output))
        if made.shape[0] != 1:
            raise LayoutError(f"one picture, {made.shape[0]} in the model's output")
        return made[0]


def _patch(source: Source, processor: Any) -> tuple[int, int]:
    """Give the (height, width) in pixels that the processor counts as one token."""
    whole = processors.read_whole(source.processor)
    if "patch_size" in whole.content:
        merge = whole.whole("spatial_merge_size") if "spatial_merge_size" in whole.content else 1
        side = whole.whole("patch_size") * merge
        return (side, side)
    own = processor.patch_size
    return (own, own) if isinstance(own, int) else (own["height"], own["width"])
