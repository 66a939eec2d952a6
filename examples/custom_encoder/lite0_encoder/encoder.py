"""The encoder: five methods, and nothing of HTTP, batches in flight or checks.

What to look at when you write your own:

- `preprocess` runs the checkpoint's own processor and promises what *its output* says (`_CELL` pixels for a row),
- `encode` splits rows by what the *model* gave, never by the promise: else the check compares a number with itself,
- a medium that the encoder does not take is refused as `UnfitMediaError`, which is the caller's fault,
- weights are digested as they are read (`read_tower`), and settings told as they are after loading (`describe`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import torch
import transformers
from efficientnet_lite_pytorch import EfficientNet

from encoder_server.encoders import Description, Features, Picture, RefusedError, Source, UnfitMediaError, read_json
from encoder_server.encoders.weights import read_tower, require
from encoder_server.engine.messages import Declared

_CELL = 32  # pixels of the scaled picture for each row: five halvings
_MAX_RATIO = 20  # beyond it, the scaled picture would be mostly cut away, and large
_SETTINGS = ("size", "crop_size", "image_mean", "image_std", "resample", "rescale_factor")


class Lite0Encoder:
    """EfficientNet-Lite0 without its classifier; see `encoder_server.encoders.Encoder` for the methods."""

    def __init__(self, *, model: Any, processor: Any, weights: str) -> None:
        self._model = model
        self._processor = processor
        self._weights = weights

    @classmethod
    def load(cls, source: Source) -> Self:
        """Read processor and weights from the folders of `source`."""
        settings = read_json(source.processor, "preprocessor_config.json")
        if not {"size", "crop_size"} <= settings.keys():
            raise RefusedError("preprocessor_config.json: size or crop_size is missing")
        processor = transformers.CLIPImageProcessor.from_dict(settings)
        tower = read_tower(source.model, ())
        model = EfficientNet.from_name("efficientnet-lite0")
        model._fc = torch.nn.Identity()
        # Counts of training batches are no weights: no checkpoint for serving holds them.
        expected = {name: each for name, each in model.state_dict().items() if each.is_floating_point()}
        require(tower, expected)
        model.load_state_dict(tower.tensors, strict=False)
        model.to(source.device).eval().requires_grad_(False)
        return cls(model=model, processor=processor, weights=tower.digest)

    def describe(self) -> Description:
        """Say what was loaded."""
        return Description(
            weights=self._weights,
            processor={name: getattr(self._processor, name, None) for name in _SETTINGS},
            classes={
                "encoder": type(self).__name__,
                "model": type(self._model).__name__,
                "processor": type(self._processor).__name__,
            },
            declared={"image": Declared(width=self._model._conv_head.out_channels, dtype="float32", check="promise")},
            together=True,
            dtype="float32",
            device=str(next(self._model.parameters()).device),
        )

    def warm_up(self) -> None:
        """Encode one blank picture."""
        self._run(torch.zeros(1, 3, 224, 224))

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """Scale, crop and normalise as the checkpoint says; the grid is (time, height, width) in rows."""
        for picture in media:
            height, width, _ = picture.pixels.shape
            if max(height, width) > _MAX_RATIO * min(height, width):
                raise UnfitMediaError(f"{width}x{height}: the sides differ by more than {_MAX_RATIO} to 1")
        pictures = self._processor(
            images=[torch.from_numpy(picture.pixels) for picture in media],
            input_data_format="channels_last",
            return_tensors="pt",
        )["pixel_values"]
        return [self._features(pixels) for pixels in pictures]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """Run the tower on all items at once: (cells, 1280) for each, cells in reading order."""
        cells = self._run(torch.stack([item.tensors["pixels"] for item in features]))
        return list(cells.flatten(2).transpose(1, 2))

    def _features(self, pixels: torch.Tensor) -> Features:
        down, across = (side // _CELL for side in pixels.shape[1:])
        return Features(
            modality="image",
            tokens=down * across,
            grid=(1, down, across),
            cost=down * across,
            tensors={"pixels": pixels},
        )

    @torch.inference_mode()
    def _run(self, pixels: torch.Tensor) -> torch.Tensor:
        device = self._model._conv_head.weight.device
        cells: torch.Tensor = self._model.extract_features(pixels.to(device))
        return cells
