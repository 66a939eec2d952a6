"""Qwen3-VL: the vision tower, its deepstack features and the processors of a checkpoint folder.

A row is [merged | deepstack of the first tapped layer | of the second | ...]: the features that the language
model takes as input embeddings, then those that it adds to its first layers, in the order of the tapped layers.
The declared width is `out_hidden_size` times one more than there are such layers: a receiver cuts by it.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `grid_towers`.

Must never: anything that `grid_towers` must never.
"""

from __future__ import annotations

from typing import Any

import torch
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

from encoder_server.encoders.grid_towers import GridEncoder


class Qwen3VLEncoder(GridEncoder):
    """The `Encoder` for Qwen3-VL checkpoints (full model or tower alone)."""

    name = "Qwen3-VL"
    config_class = Qwen3VLVisionConfig
    model_class = Qwen3VLVisionModel
    video_class = "Qwen3VLVideoProcessor"

    def width(self) -> int:
        """Give the width of a row, deepstack features included."""
        config = self._model.config
        width: int = config.out_hidden_size * (1 + len(config.deepstack_visual_indexes))
        return width

    def rows_of(self, output: Any) -> torch.Tensor:
        """Give all items' rows, one after another, merged and deepstack features side by side."""
        return torch.cat([output.pooler_output, *output.deepstack_features], dim=-1)
