"""GLM-4V: the vision tower and the processors of a checkpoint folder.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `grid_towers`. The rows
are made by the model's own strided convolution, so its stride is what the promise is held against. To this tower each
step in time of a clip is a picture of its own.

Must never: anything that `grid_towers` must never.
"""

from __future__ import annotations

import torch
from transformers.models.glm4v.configuration_glm4v import Glm4vVisionConfig
from transformers.models.glm4v.modeling_glm4v import Glm4vVisionModel

from encoder_server.encoders.grid_towers import GridEncoder


class Glm4vEncoder(GridEncoder):
    """The `Encoder` for GLM-4V checkpoints (full model or tower alone)."""

    name = "GLM-4V"
    config_class = Glm4vVisionConfig
    model_class = Glm4vVisionModel
    video_class = "Glm4vVideoProcessor"

    def frames_of(self, grids: torch.Tensor) -> torch.Tensor:
        """Give a grid for each step in time, as the whole model does."""
        steps = grids.repeat_interleave(grids[:, 0], dim=0)
        steps[:, 0] = 1
        return steps
