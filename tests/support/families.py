"""The families' tiny checkpoints, each made once, and what is done to a copy of one."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from encoder_server.checkpoint import make
from encoder_server.engine.messages import Measured, ProbeItem
from encoder_server.engine.pipeline import Pipeline
from tests.support.library import Library

FAMILIES = (
    "clip",
    "dinov2",
    "glm4v",
    "internvl",
    "llava",
    "pixtral",
    "qwen2_5_vl",
    "qwen2_vl",
    "qwen3_vl",
    "siglip",
    "siglip2",
)
WITH_VIDEO = ("glm4v", "qwen2_5_vl", "qwen2_vl", "qwen3_vl")
POOLED = ("clip", "dinov2", "siglip", "siglip2")
CONFIG, IMAGE, VIDEO, WHOLE, WEIGHTS = (
    "config.json",
    "preprocessor_config.json",
    "video_preprocessor_config.json",
    "processor_config.json",
    "model.safetensors",
)
Tensors = dict[str, torch.Tensor]


class Families:
    """Checkpoints, pipelines in this process and the library's truth, by family; none is ever changed."""

    def __init__(self, root: Path) -> None:
        # One thread as in an engine: more sum in another order.
        torch.set_num_threads(1)
        self._root = root
        self.pipeline: Callable[..., Pipeline] = cache(self._pipeline)
        self.library: Callable[[str], Library] = cache(self._library)

    def folder(self, family: str) -> Path:
        """The checkpoint as made."""
        folder = self._root / family
        if not folder.exists():
            make(folder, seed=7, family=family)
        return folder

    def copy(self, family: str, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Path:
        """A copy of it with keys of its JSON files changed (None takes a key out)."""
        folder = self._root / f"copy-{len(list(self._root.iterdir()))}"
        shutil.copytree(self.folder(family), folder)
        for file, keys in (changes or {}).items():
            content = {**json.loads((folder / file).read_text()), **keys}
            (folder / file).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
        return folder

    def _pipeline(self, family: str, *, pooled: bool = False) -> Pipeline:
        return Pipeline.load(self.folder(family), encoder=f"{family}_pooled" if pooled else "Auto")

    def _library(self, family: str) -> Library:
        return Library(self.folder(family), family)


def of_pictures(measured: Measured) -> list[ProbeItem]:
    """The golden probe's pictures, where the encoder takes video too; what is not theirs must be well."""
    others = [item.result for item in measured.probe if item.modality != "image"]
    assert set(others) <= {"ok"}
    return [item for item in measured.probe if item.modality == "image"]


def tensors(folder: Path) -> Tensors:
    """A checkpoint's tensors by name."""
    return load_file(folder / WEIGHTS)


def rewrite(folder: Path, change: Callable[[Tensors], Tensors]) -> None:
    """Write a checkpoint's tensors anew as `change` makes them."""
    save_file(change(tensors(folder)), folder / WEIGHTS)
