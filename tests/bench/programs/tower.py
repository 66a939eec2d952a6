"""What the peers' programs share: the very tower that this server runs, so that only the servers differ."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from encoder_server.encoders import Picture, Source
from encoder_server.encoders.clip import PooledClipEncoder
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder


class Tower:
    """The encoder of a checkpoint folder, found without entry points: a peer's environment has not this package."""

    def __init__(self, checkpoint: str) -> None:
        torch.set_num_threads(1)
        folder = Path(checkpoint)
        kind = json.loads((folder / "config.json").read_text())["model_type"]
        family: Any = PooledClipEncoder if kind.startswith("clip") else Qwen25VLEncoder
        self._encoder = family.load(Source(model=folder, processor=folder, device="cpu", dtype="float32"))

    def rows(self, contents: Sequence[bytes]) -> list[bytes]:
        """Encode pictures as one batch; each picture's rows as bytes."""
        with torch.inference_mode():
            pictures = [Picture(pixels=np.array(Image.open(io.BytesIO(each)).convert("RGB"))) for each in contents]
            return [rows.numpy().tobytes() for rows in self._encoder.encode(self._encoder.preprocess(pictures))]
