"""Towers that take flat patches with a grid for each picture or clip, and merge squares of patches into rows.

Place: what Qwen2-VL, Qwen2.5-VL, Qwen3-VL and GLM-4V share; a family states its classes, and what of the model's
output is its rows. The promise follows the `merge_size` of the processor of that modality, the rows follow the model's
own `spatial_merge_size`; where a folder lets the two differ, the check sees it. A folder without a video processor
(see `video_processors.read`) gives an encoder of pictures alone.

Must never: bring the two geometries into line, read the language model's weights, or reach for a network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import torch
from transformers import PreTrainedConfig, PreTrainedModel

from encoder_server.encoders import (
    Clip,
    Description,
    Features,
    LayoutError,
    Picture,
    RefusedError,
    Source,
    UnfitMediaError,
    packed_attention,
    processors,
    video_processors,
)
from encoder_server.encoders.loading import build, describe, is_bare, read_config
from encoder_server.encoders.weights import read_tower

_PREFIXES = ("model.visual.", "visual.")
_NO_VIDEO = "the checkpoint has no video processor"
_GEOMETRY = ("patch_size", "temporal_patch_size", "merge_size")


class LinearPatchEmbed(torch.nn.Module):
    """The tower's Conv3d patch embedding as the equal Linear: kernel and stride are one patch, and it is 3.4
    times faster on CPU. A patch of another size is an error here, where a reshape could hide it."""

    def __init__(self, convolution: torch.nn.Conv3d) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(convolution.weight.detach().flatten(1), requires_grad=False)
        bias = convolution.bias
        self.bias = None if bias is None else torch.nn.Parameter(bias.detach(), requires_grad=False)

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        """Embed `patches` (n, channels * time * height * width) as (n, hidden)."""
        return torch.nn.functional.linear(patches.to(self.weight.dtype), self.weight, self.bias)


class GridEncoder:
    """An `Encoder` for checkpoints of such a family (full model or tower alone)."""

    name: ClassVar[str]
    """The family's name, for a person."""
    config_class: ClassVar[type[PreTrainedConfig]]
    model_class: ClassVar[type[PreTrainedModel]]
    video_class: ClassVar[str] = "Qwen2VLVideoProcessor"
    """The processor of its clips, where a folder has one file for those and for pictures."""

    def __init__(self, *, model: PreTrainedModel, processor: Any, video: Any, weights: str) -> None:
        self._model: Any = model
        self._processor = processor
        self._video = video
        self._weights = weights

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        processor, video = _load_processor(source), _load_video_processor(source, cls.video_class)
        config = read_config(source.model, cls.config_class, bare=[cls.config_class.model_type], name=cls.name)
        tower = read_tower(source.model, _PREFIXES, bare=is_bare(source.model, cls.config_class.model_type))
        model = build(cls.model_class, config, tower, source)
        model.patch_embed = LinearPatchEmbed(model.patch_embed.proj)
        packed_attention.use(model)
        return cls(model=model, processor=processor, video=video, weights=tower.digest)

    def width(self) -> int:
        """Give the width of a row, as the model's configuration says."""
        width: int = self._model.config.out_hidden_size
        return width

    def rows_of(self, output: Any) -> torch.Tensor:
        """Give all items' rows, one after another, from the model's output."""
        rows: torch.Tensor = output.pooler_output
        return rows

    def frames_of(self, grids: torch.Tensor) -> torch.Tensor:
        """Give the grids that the model is told of for items of these `grids` (n, 3): the same."""
        return grids

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        pictures = describe(
            self,
            self._model,
            self._processor,
            weights=self._weights,
            settings=processors.effective(self._processor),
            width=self.width(),
        )
        if self._video is None:
            return pictures
        return replace(
            pictures,
            processor={**pictures.processor, "video": processors.effective(self._video)},
            classes={**pictures.classes, "video_processor": type(self._video).__name__},
            declared={**pictures.declared, "video": pictures.declared["image"]},
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

    def frames_wanted(self, total: int, fps: float | None) -> Sequence[int]:
        """See `ChoosesFrames`: those that the video processor samples."""
        if self._video is None:
            raise UnfitMediaError(_NO_VIDEO)
        return video_processors.wanted(self._video, total, fps)

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (time, height, width) in patches.

        Clips are processed one by one: none depends on its mates. `video_processors` says which frames are taken.
        """
        processors.refuse_thin(media)
        clips = [medium for medium in media if isinstance(medium, Clip)]
        if clips:
            return [self._clip(clip) for clip in clips]
        pictures = [medium for medium in media if isinstance(medium, Picture)]
        batch = processors.run(self._processor, pictures, gives=["image_grid_thw"], return_tensors="pt")
        return _split("image", batch["pixel_values"], batch["image_grid_thw"], len(pictures), self._processor)

    def _clip(self, clip: Clip) -> Features:
        if self._video is None:
            raise UnfitMediaError(_NO_VIDEO)
        patches, grids = video_processors.run(self._video, clip)
        (features,) = _split("video", patches, grids, 1, self._video)
        return features

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (tokens, `width()`) on the model's device."""
        parts = [item.tensors["pixel_values"] for item in features]
        patches = _joined(parts)
        grids = torch.tensor([item.grid for item in features], device=self._model.device)
        rows = self.rows_of(self._model(hidden_states=patches.to(self._model.device), grid_thw=self.frames_of(grids)))
        if len(features) == 1:
            return [rows]
        counts = [math.prod(item.grid) // self._model.spatial_merge_size**2 for item in features]
        if sum(counts) != rows.shape[0]:
            raise LayoutError(f"the model made {rows.shape[0]} rows, its geometry says {sum(counts)}")
        return list(rows.split(counts))


def _joined(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """Give `parts` as one, without a copy where they are neighbours still: those of one run of the processor are."""
    first, ends = parts[0], [part.storage_offset() + part.numel() for part in parts]
    storage = first.untyped_storage().data_ptr()
    neighbours = all(
        part.is_contiguous() and part.untyped_storage().data_ptr() == storage and part.storage_offset() == end
        for part, end in zip(parts[1:], ends, strict=False)
    )
    if not (neighbours and first.is_contiguous()):
        return torch.cat(list(parts))
    return first.as_strided((sum(map(len, parts)), *first.shape[1:]), first.stride())


def _split(modality: str, patches: torch.Tensor, grids: torch.Tensor, count: int, processor: Any) -> list[Features]:
    sizes = [math.prod(grid) for grid in grids.tolist()]
    if len(sizes) != count or sum(sizes) != patches.shape[0]:
        raise LayoutError(f"{count} items, {len(sizes)} grids; {sum(sizes)} patches in them, {len(patches)}")
    return [
        Features(
            modality=modality,
            tokens=size // processor.merge_size**2,
            grid=tuple(grid),
            cost=size,
            tensors={"pixel_values": part},
        )
        for size, grid, part in zip(sizes, grids.tolist(), patches.split(sizes), strict=True)
    ]


def _load_processor(source: Source) -> Any:
    settings = processors.read_settings(source.processor)
    _require_geometry(settings)
    return processors.make(settings, gives=["image_grid_thw"], called="grids")


def _load_video_processor(source: Source, own: str) -> Any:
    settings = video_processors.read(source.processor, own)
    if settings is None:
        return None
    _require_geometry(settings)
    return video_processors.make(settings)


def _require_geometry(settings: processors.Settings) -> None:
    for key in _GEOMETRY:
        settings.whole(key)
    size = settings.content.get("size")
    limits = size if isinstance(size, dict) else {}
    pixels = [settings.content.get(key) for key in ("min_pixels", "max_pixels")]
    edges = [limits.get(key) for key in ("shortest_edge", "longest_edge")]
    if None in pixels and None in edges:
        raise RefusedError(f"{settings.file}: size or min_pixels and max_pixels are missing")
