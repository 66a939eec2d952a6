"""The truth for a family: the library's own model and processor on the same checkpoint, as it documents their use."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import torch
import transformers
from numpy.typing import NDArray
from PIL import Image
from transformers.utils import logging

from encoder_server.encoders import Clip

Rows = NDArray[numpy.float32]

# The whole model's class. What is no tensor of the tower is missing from a tiny checkpoint: the library fills it
# with random numbers, and none of it is asked.
_MODELS = {
    "qwen2_vl": "Qwen2VLForConditionalGeneration",
    "qwen2_5_vl": "Qwen2_5_VLForConditionalGeneration",
    "qwen3_vl": "Qwen3VLForConditionalGeneration",
    "glm4v": "Glm4vForConditionalGeneration",
    "clip": "CLIPModel",
    "siglip": "SiglipModel",
    "siglip2": "Siglip2Model",
    "dinov2": "Dinov2Model",
    "llava": "LlavaForConditionalGeneration",
    "pixtral": "LlavaForConditionalGeneration",
    "internvl": "InternVLForConditionalGeneration",
}


class Library:
    """The checkpoint of `family` in `folder`, one picture at a time."""

    def __init__(self, folder: Path, family: str, *, name: str | None = None, dtype: str = "auto") -> None:
        """`name`: of the whole model's class, where it is not the family's usual one."""
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        model, self.report = getattr(transformers, name or _MODELS[family]).from_pretrained(
            folder, local_files_only=True, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
        )
        self._model: Any = model.eval()
        self._processor: Any = transformers.AutoImageProcessor.from_pretrained(
            folder, backend="torchvision", local_files_only=True
        )
        self._folder = folder
        self._rows: Callable[[Any], torch.Tensor] = getattr(self, f"_{family}", self._features)
        self._options = {"crop_to_patches": True} if family == "internvl" else {}

    def save(self, folder: Path) -> None:
        """Write the model's weights and configuration as the library does."""
        self._model.save_pretrained(folder)

    def save_video_processor(self, folder: Path) -> None:
        """Write the video processor's settings as the library does."""
        transformers.AutoVideoProcessor.from_pretrained(self._folder, local_files_only=True).save_pretrained(folder)

    def rows(self, data: bytes) -> Rows:
        """A row of each token."""
        return self._run(data, self._rows)

    def pooled(self, data: bytes) -> Rows:
        """The picture's one row."""
        return self._run(data, self._pooled)

    def _run(self, data: bytes, rows: Callable[[Any], torch.Tensor]) -> Rows:
        batch = self.processed(data)
        with torch.no_grad():
            made: Rows = rows(batch).float().numpy()
        return made

    def processed(self, data: bytes) -> Any:
        """What the image processor makes of a picture."""
        image = Image.open(io.BytesIO(data)).convert("RGB")
        return self._processor(images=image, input_data_format="channels_last", return_tensors="pt", **self._options)

    def clip_rows(self, clip: Clip) -> Rows:
        """A row of each token of a video, its frames chosen by the video processor where they have a rate."""
        processor = transformers.AutoVideoProcessor.from_pretrained(self._folder, local_files_only=True)
        metadata = None
        if clip.fps is not None:
            count = len(clip.frames)
            metadata = [{"total_num_frames": count, "fps": clip.fps, "duration": count / clip.fps}]
        batch = processor(
            videos=[torch.from_numpy(clip.frames)],
            video_metadata=metadata,
            do_sample_frames=processor.do_sample_frames and clip.fps is not None,
            input_data_format="channels_last",
            return_tensors="pt",
        )
        with torch.no_grad():
            features = self._model.get_video_features(**batch)
        deeper = (layer[0] for layer in getattr(features, "deepstack_features", None) or ())
        made: Rows = torch.cat([features.pooler_output[0], *deeper], dim=-1).float().numpy()
        return made

    def _features(self, batch: Any) -> torch.Tensor:
        made: torch.Tensor = self._model.get_image_features(**batch).pooler_output[0]
        return made

    def _qwen3_vl(self, batch: Any) -> torch.Tensor:
        features = self._model.get_image_features(**batch)
        return torch.cat([features.pooler_output[0], *(layer[0] for layer in features.deepstack_features)], dim=-1)

    def _clip(self, batch: Any) -> torch.Tensor:
        made: torch.Tensor = self._model.vision_model(**batch).last_hidden_state[0]
        return made

    _siglip = _clip

    def _siglip2(self, batch: Any) -> torch.Tensor:
        real = batch["pixel_attention_mask"][0].bool()
        made: torch.Tensor = self._model.vision_model(**batch).last_hidden_state[0][real]
        return made

    def _dinov2(self, batch: Any) -> torch.Tensor:
        made: torch.Tensor = self._model(**batch).last_hidden_state[0]
        return made

    def _internvl(self, batch: Any) -> torch.Tensor:
        made: torch.Tensor = self._model.get_image_features(pixel_values=batch["pixel_values"]).pooler_output
        return made.flatten(0, 1)

    def _pooled(self, batch: Any) -> torch.Tensor:
        whole = isinstance(self._model, transformers.Dinov2Model)
        output = self._model(**batch) if whole else self._model.get_image_features(**batch)
        made: torch.Tensor = output.pooler_output
        return made
