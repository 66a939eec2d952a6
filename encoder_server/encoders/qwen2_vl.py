"""Qwen2-VL: the vision tower and the processors of a checkpoint folder.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `grid_towers`.

Must never: anything that `grid_towers` must never.
"""

from __future__ import annotations

from transformers.models.qwen2_vl.configuration_qwen2_vl import Qwen2VLVisionConfig
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VisionTransformerPretrainedModel

from encoder_server.encoders.grid_towers import GridEncoder


class Qwen2VLEncoder(GridEncoder):
    """The `Encoder` for Qwen2-VL checkpoints (full model or tower alone)."""

    name = "Qwen2-VL"
    config_class = Qwen2VLVisionConfig
    model_class = Qwen2VisionTransformerPretrainedModel

    def width(self) -> int:
        """Give the width of a row: what the language model calls hidden, for the tower's own is `embed_dim`."""
        width: int = self._model.config.hidden_size
        return width
