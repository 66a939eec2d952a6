"""Qwen2.5-VL: the vision tower and the image processor of a checkpoint folder.

Place: driven by the engine's stages through the `Encoder` Protocol. The promise follows the processor's own
`merge_size`, the rows follow the model's own `spatial_merge_size`; where a folder lets the two differ, the
check sees it.

Must never: bring the two geometries into line, read the language model's weights, or reach for a network.
"""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from transformers.image_processing_backends import TorchvisionBackend
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

from encoder_server.encoders import (
    Description,
    Features,
    LayoutError,
    Picture,
    RefusedError,
    Source,
    UnfitMediaError,
    read_json,
)
from encoder_server.encoders.processor import effective, load_processor
from encoder_server.encoders.weights import Tower, read_tower, require
from encoder_server.engine.messages import Declared

_PREFIXES = ("model.visual.", "visual.")
# What the tower computes with beside its weights. By name, because a release of the library adds to what a
# configuration holds, and the same tower must keep its fingerprint.
_ARITHMETIC = (
    "depth",
    "fullatt_block_indexes",
    "hidden_act",
    "hidden_size",
    "in_channels",
    "intermediate_size",
    "num_heads",
    "out_hidden_size",
    "patch_size",
    "rope_parameters",
    "spatial_merge_size",
    "temporal_patch_size",
    "window_size",
)
_MAX_RATIO = 200  # the processor's own rule: beyond it one side would round to nothing
_log = logging.getLogger(__name__)


class LinearPatchEmbed(torch.nn.Module):
    """The tower's Conv3d patch embedding as the equal Linear: kernel and stride are one patch, and it is 3.4
    times faster on CPU. A patch of another size is an error here, where a reshape could hide it."""

    def __init__(self, kernel: torch.Tensor) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(kernel.flatten(1), requires_grad=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Embed `patches` (n, channels * time * height * width) as (n, hidden)."""
        return torch.nn.functional.linear(patches.to(self.weight.dtype), self.weight)


class Qwen25VLEncoder:
    """The `Encoder` for Qwen2.5-VL checkpoints (full model or tower alone)."""

    def __init__(
        self, *, model: Qwen2_5_VisionTransformerPretrainedModel, processor: TorchvisionBackend, weights: str
    ) -> None:
        self._model: Any = model
        self._processor: Any = processor
        self._weights = weights

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        processor = load_processor(source.processor)
        config = _load_config(source.model)
        tower = read_tower(source.model, _PREFIXES)
        model = _build(config, tower)
        dtype = _dtype(source.dtype, tower)
        # Parameters alone are cast: the angles of the positions stay float32, as the library loads them.
        for parameter in model.parameters():
            parameter.data = parameter.data.to(dtype)
        model = model.to(device=torch.device(source.device)).eval().requires_grad_(False)
        return cls(model=model, processor=processor, weights=tower.digest)

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        dtype = str(self._model.dtype).removeprefix("torch.")
        return Description(
            weights=self._weights,
            processor=effective(self._processor),
            config={key: getattr(self._model.config, key, None) for key in _ARITHMETIC},
            classes={
                "encoder": type(self).__name__,
                "model": type(self._model).__name__,
                "processor": type(self._processor).__name__,
            },
            declared={"image": Declared(width=self._model.config.out_hidden_size, dtype=dtype, check="promise")},
            together=True,
            dtype=dtype,
            device=str(self._model.device),
        )

    def warm_up(self) -> None:
        """Encode one blank picture of the model's own geometry, so that no processor can make it fail."""
        weight = self._model.patch_embed.weight
        side = 2 * self._model.spatial_merge_size
        blank = Features(
            modality="image",
            tokens=4,
            grid=(1, side, side),
            cost=side * side,
            tensors={"pixel_values": torch.zeros(side * side, weight.shape[1])},
        )
        self.encode([blank])

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (time, height, width) in patches."""
        for picture in media:
            height, width, _ = picture.pixels.shape
            if max(height, width) > _MAX_RATIO * min(height, width):
                raise UnfitMediaError(f"{width}x{height}: the sides differ by more than {_MAX_RATIO} to 1")
        # Said, not guessed: a picture one pixel high would else pass for one with its channels first.
        batch = self._processor(
            images=[torch.from_numpy(picture.pixels) for picture in media],
            input_data_format="channels_last",
            return_tensors="pt",
        )
        return self._split(batch, len(media))

    def _split(self, batch: Mapping[str, torch.Tensor], count: int) -> list[Features]:
        if not {"pixel_values", "image_grid_thw"} <= batch.keys():
            raise LayoutError(f"the processor made {sorted(batch)} in place of pixels and grids")
        patches, grids = batch["pixel_values"], batch["image_grid_thw"].tolist()
        sizes = [math.prod(grid) for grid in grids]
        if len(grids) != count or sum(sizes) != patches.shape[0]:
            raise LayoutError(f"{count} items, {len(grids)} grids; {sum(sizes)} patches in them, {len(patches)}")
        merge = self._processor.merge_size**2
        return [
            Features(
                modality="image",
                tokens=size // merge,
                grid=tuple(grid),
                cost=size,
                tensors={"pixel_values": part},
            )
            for size, grid, part in zip(sizes, grids, patches.split(sizes), strict=True)
        ]

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (tokens, out_hidden_size) on the model's device."""
        parts = [item.tensors["pixel_values"] for item in features]
        patches = parts[0] if len(parts) == 1 else torch.cat(parts)
        grids = torch.tensor([item.grid for item in features], device=self._model.device)
        rows: torch.Tensor = self._model(hidden_states=patches.to(self._model.device), grid_thw=grids).pooler_output
        if len(features) == 1:
            return [rows]
        counts = [math.prod(item.grid) // self._model.spatial_merge_size**2 for item in features]
        if sum(counts) != rows.shape[0]:
            raise LayoutError(f"the model made {rows.shape[0]} rows, its geometry says {sum(counts)}")
        return list(rows.split(counts))


def _load_config(folder: Path) -> Qwen2_5_VLVisionConfig:
    content = read_json(folder, "config.json")
    section = content
    if content.get("model_type") != "qwen2_5_vl_vision":
        nested = content.get("vision_config")
        if not isinstance(nested, dict):
            raise RefusedError("config.json: vision_config is missing")
        section = nested
    # Published checkpoints carry the full model's model_type in the section too.
    settings = {key: value for key, value in section.items() if key != "model_type"}
    try:
        return Qwen2_5_VLVisionConfig.from_dict(settings)
    except Exception as error:
        _log.exception("config.json was not taken")
        raise RefusedError("config.json: vision_config is not one of a Qwen2.5-VL tower") from error


def _build(config: Qwen2_5_VLVisionConfig, tower: Tower) -> Any:
    try:
        with torch.device("meta"):
            model: Any = Qwen2_5_VisionTransformerPretrainedModel(config)
        # Buffers that no checkpoint holds are computed when a model is built: a tower without blocks has them.
        blockless = copy.deepcopy(config)
        blockless.depth = 0
        donor: Any = Qwen2_5_VisionTransformerPretrainedModel(blockless)
    except Exception as error:
        _log.exception("the tower could not be built")
        raise RefusedError("config.json: no tower can be built from vision_config") from error
    require(tower, model.state_dict())
    model.load_state_dict(tower.tensors, assign=True)
    model.rotary_pos_emb = donor.rotary_pos_emb
    model.patch_embed = LinearPatchEmbed(model.patch_embed.proj.weight.detach())
    return model


def _dtype(name: str, tower: Tower) -> torch.dtype:
    if name == "auto":
        return tower.tensors["patch_embed.proj.weight"].dtype
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise RefusedError(f"dtype {name!r} is not a floating point type")
    return dtype
