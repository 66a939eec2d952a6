"""Make a tiny checkpoint of a family with seeded weights, in the layout of a published one.

Place: behind `encoder-server make-checkpoint`; for trying a pool out without gigabytes of weights.

Must never: write into a folder that holds something, or give other bytes for the same seed on another machine.
"""

from __future__ import annotations

import json
import math
from pathlib import Path

import blake3
import numpy as np
import numpy.typing as npt

from encoder_server.engine.integers import uniform
from encoder_server.layouts import FAMILIES


class DirectoryInUseError(Exception):
    """The folder exists and is not an empty folder."""


def make(directory: Path, *, seed: int, family: str = "qwen2_5_vl") -> None:
    """Write a checkpoint of `family` (a key of FAMILIES) into `directory`, made where it is missing.

    Raises DirectoryInUseError.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DirectoryInUseError(f"{directory} is not an empty folder")
    # Imported here, so that the command line knows the error without the library.
    from safetensors.numpy import save

    directory.mkdir(parents=True, exist_ok=True)
    layout = FAMILIES[family]()
    for name, content in layout.files.items():
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tensors = {name: _tensor(name, shape, seed) for name, shape in layout.shapes.items()}
    # Written here and not by the library, whose files only their owner may read: pods run as another user.
    (directory / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))


def _tensor(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32] | npt.NDArray[np.int64]:
    if name.endswith("position_ids"):  # in older files: a buffer, no weight
        return np.arange(math.prod(shape), dtype=np.int64).reshape(shape)
    own = int.from_bytes(blake3.blake3(f"{seed}/{name}".encode()).digest(8), "little")
    values = uniform(own, math.prod(shape)).reshape(shape)
    if name.endswith("bias"):
        return values * np.float32(0.1)
    if len(shape) == 1:
        return np.float32(1) + values * np.float32(0.1)
    # Keeps the variance from layer to layer, so that pictures and seeds are told apart at the output.
    return np.asarray(values * np.float32(math.sqrt(3 / math.prod(shape[1:]))))
