"""Qwen2.5-VL: the vision tower and the processors of a checkpoint folder.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `grid_towers`.

Must never: anything that `grid_towers` must never.
"""

from __future__ import annotations

from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

from encoder_server.encoders.grid_towers import GridEncoder


class Qwen25VLEncoder(GridEncoder):
    """The `Encoder` for Qwen2.5-VL checkpoints (full model or tower alone)."""

    name = "Qwen2.5-VL"
    config_class = Qwen2_5_VLVisionConfig
    model_class = Qwen2_5_VisionTransformerPretrainedModel
