"""GLM-4V: the vision tower and the image processor of a checkpoint folder.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `grid_towers`. The rows
are made by the model's own strided convolution, so its stride is what the promise is held against.

Must never: anything that `grid_towers` must never.
"""

from __future__ import annotations

from transformers.models.glm4v.configuration_glm4v import Glm4vVisionConfig
from transformers.models.glm4v.modeling_glm4v import Glm4vVisionModel

from encoder_server.encoders.grid_towers import GridEncoder


class Glm4vEncoder(GridEncoder):
    """The `Encoder` for GLM-4V checkpoints (full model or tower alone)."""

    name = "GLM-4V"
    config_class = Glm4vVisionConfig
    model_class = Glm4vVisionModel
