"""InternVL: a picture is cut into tiles and a small copy of the whole, and each becomes the same number of rows.

Rows are what the language model takes in a picture's place: a tile's patches, shuffled into fewer and wider ones and
projected, tile after tile in the processor's order, the copy last. The promise is the processor's: the tiles that it
really made, times `image_seq_length` of processor_config.json. How many rows a tile becomes is the model's own affair
(its patch, its `downsample_ratio`), so where the two files differ, the check sees it.

Place: driven by the engine's stages through the `Encoder` Protocol.

Must never: count a tile's rows by the processor's number, or drop the copy of the whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
from transformers import InternVLConfig, InternVLVisionModel
from transformers.models.internvl.modeling_internvl import InternVLModel, InternVLMultiModalProjector

from encoder_server.encoders import Description, Features, LayoutError, Picture, RefusedError, Source, processors
from encoder_server.encoders.llava import PROJECTOR
from encoder_server.encoders.loading import TOGETHER, build, describe, fill, read_full_config
from encoder_server.encoders.weights import joint_digest, read_tower

_TOWER = ("model.vision_tower.", "vision_tower.")


class InternVLEncoder:
    """The `Encoder` for InternVL checkpoints in the library's own form (those called -hf)."""

    def __init__(
        self,
        *,
        model: Any,
        projector: torch.nn.Module,
        config: Any,
        processor: Any,
        tokens_of_tile: int,
        weights: str,
    ) -> None:
        self._model = model
        self._projector = projector
        self._config = config
        self._processor = processor
        self._weights = weights
        self._tokens_of_tile = tokens_of_tile

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        settings = processors.read_settings(source.processor)
        settings.require("size", "max_patches")
        processor = processors.make(settings, gives=(), called="pixels")
        if not hasattr(type(processor), "crop_to_patches"):
            raise RefusedError(f"{settings.file}: image_processor_type {type(processor).__name__!r} gives no tiles")
        tokens_of_tile = processors.read_whole(source.processor, needed=True).whole("image_seq_length")
        config = read_full_config(source.model, InternVLConfig, name="InternVL")
        if not isinstance(config.vision_feature_layer, int):
            raise RefusedError("config.json: vision_feature_layer is not one layer")
        tower = read_tower(source.model, _TOWER, bare=False)
        tensors = read_tower(source.model, PROJECTOR, bare=False)
        model = build(InternVLVisionModel, config.vision_config, tower, source)
        projector = fill(InternVLMultiModalProjector(config), tensors, source, model.dtype, prefix=PROJECTOR[-1])
        return cls(
            model=model,
            projector=projector,
            config=config,
            processor=processor,
            tokens_of_tile=tokens_of_tile,
            weights=joint_digest(tower.digest, tensors.digest),
        )

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        whole = {"image_seq_length": self._tokens_of_tile, "crop_to_patches": True}
        return describe(
            self,
            self._model,
            self._processor,
            weights=self._weights,
            settings={**processors.effective(self._processor), "whole": whole},
            width=self._config.text_config.hidden_size,
            joined=self._config,
        )

    def warm_up(self) -> None:
        """Encode one blank tile of the model's own size, so that no processor can make it fail."""
        config = self._config.vision_config
        blank = torch.zeros(1, config.num_channels, *config.image_size)
        self.encode([Features(modality="image", tokens=1, grid=(1,), cost=1, tensors={"pixel_values": blank})])

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (tiles,)."""
        # Whatever the image processor's file says: the whole processor, by which prompts are expanded, asks for tiles.
        batch = processors.run(self._processor, media, gives=["num_patches"], return_tensors=None, crop_to_patches=True)
        tiles, counts = batch["pixel_values"], list(batch["num_patches"])
        if len(counts) != len(media) or sum(counts) != len(tiles):
            raise LayoutError(f"{len(media)} items, {len(counts)} counts; {sum(counts)} tiles in them, {len(tiles)}")
        features, start = [], 0
        for count in counts:
            tokens = count * self._tokens_of_tile
            tensors = {"pixel_values": torch.stack(list(tiles[start : start + count]))}
            features.append(Features(modality="image", tokens=tokens, grid=(count,), cost=tokens, tensors=tensors))
            start += count
        return features

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (tiles times the rows of one, width of the language model)."""
        parts = [item.tensors["pixel_values"] for item in features]
        tiles = torch.cat(parts)
        rows = torch.cat([self._run(part.to(self._model.device)) for part in tiles.split(TOGETHER)])
        if len(rows) != len(tiles):
            raise LayoutError(f"{len(tiles)} tiles, {len(rows)} of them in the model's output")
        return [part.flatten(0, 1) for part in rows.split([len(part) for part in parts])]

    def _run(self, tiles: torch.Tensor) -> torch.Tensor:
        """Give the projected rows of `tiles` (n, 3, height, width): (n, rows of a tile, width)."""
        config = self._config
        output = self._model(pixel_values=tiles, output_hidden_states=config.vision_feature_layer != -1)
        last = config.vision_feature_layer == -1
        hidden = output.last_hidden_state if last else output.hidden_states[config.vision_feature_layer]
        if config.vision_feature_select_strategy == "default":
            hidden = hidden[:, 1:]
        side = int(hidden.shape[1] ** 0.5)
        square = hidden.reshape(len(tiles), side, side, -1)
        # The library's own shuffle, which looks at nothing of the model that it is a method of.
        fewer = InternVLModel.pixel_shuffle(self._model, square, scale_factor=config.downsample_ratio)
        made: torch.Tensor = self._projector(fewer.flatten(1, 2))
        return made
