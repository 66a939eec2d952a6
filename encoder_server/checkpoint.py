"""Make a tiny Qwen2.5-VL checkpoint with seeded weights, in the layout of a published one.

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

_HIDDEN, _DEPTH, _HEADS, _INNER, _OUT, _PATCH, _TIME, _MERGE = 64, 3, 4, 128, 64, 14, 2, 2

_CONFIG = {
    "architectures": ["Qwen2_5_VLForConditionalGeneration"],
    "model_type": "qwen2_5_vl",
    "torch_dtype": "float32",
    "vocab_size": 16,
    "hidden_size": _OUT,
    "intermediate_size": 2 * _OUT,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "vision_config": {
        "model_type": "qwen2_5_vl",
        "depth": _DEPTH,
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_heads": _HEADS,
        "in_chans": 3,
        "out_hidden_size": _OUT,
        "patch_size": _PATCH,
        "spatial_merge_size": _MERGE,
        "spatial_patch_size": _PATCH,
        "temporal_patch_size": _TIME,
        "tokens_per_second": 2,
        "window_size": 112,
        "fullatt_block_indexes": [_DEPTH - 1],
    },
}

_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "processor_class": "Qwen2_5_VLProcessor",
    "min_pixels": 56 * 56,
    "max_pixels": 1_003_520,
    "patch_size": _PATCH,
    "temporal_patch_size": _TIME,
    "merge_size": _MERGE,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}


class DirectoryInUseError(Exception):
    """The folder exists and is not an empty folder."""


def make(directory: Path, *, seed: int) -> None:
    """Write the checkpoint into `directory`, made where it is missing; raises DirectoryInUseError."""
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise DirectoryInUseError(f"{directory} is not an empty folder")
    # Imported here, so that the command line knows the error without the library.
    from safetensors.numpy import save

    directory.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", _CONFIG), ("preprocessor_config.json", _PROCESSOR)):
        (directory / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    tensors = {name: _tensor(name, shape, seed) for name, shape in _shapes().items()}
    # Written here and not by the library, whose files only their owner may read: pods run as another user.
    (directory / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))


def _shapes() -> dict[str, tuple[int, ...]]:
    merged = _HIDDEN * _MERGE**2
    shapes: dict[str, tuple[int, ...]] = {
        "visual.patch_embed.proj.weight": (_HIDDEN, 3, _TIME, _PATCH, _PATCH),
        "visual.merger.ln_q.weight": (_HIDDEN,),
        "visual.merger.mlp.0.weight": (merged, merged),
        "visual.merger.mlp.0.bias": (merged,),
        "visual.merger.mlp.2.weight": (_OUT, merged),
        "visual.merger.mlp.2.bias": (_OUT,),
        # The tower's loader must pass these by, as it does with the gigabytes of a real checkpoint.
        "model.embed_tokens.weight": (16, _OUT),
        "model.norm.weight": (_OUT,),
        "lm_head.weight": (16, _OUT),
    }
    linears = {
        "attn.qkv": (3 * _HIDDEN, _HIDDEN),
        "attn.proj": (_HIDDEN, _HIDDEN),
        "mlp.gate_proj": (_INNER, _HIDDEN),
        "mlp.up_proj": (_INNER, _HIDDEN),
        "mlp.down_proj": (_HIDDEN, _INNER),
    }
    for block in range(_DEPTH):
        prefix = f"visual.blocks.{block}."
        for norm in ("norm1", "norm2"):
            shapes[f"{prefix}{norm}.weight"] = (_HIDDEN,)
        for name, shape in linears.items():
            shapes[f"{prefix}{name}.weight"] = shape
            shapes[f"{prefix}{name}.bias"] = shape[:1]
    return shapes


def _tensor(name: str, shape: tuple[int, ...], seed: int) -> npt.NDArray[np.float32]:
    own = int.from_bytes(blake3.blake3(f"{seed}/{name}".encode()).digest(8), "little")
    values = uniform(own, math.prod(shape)).reshape(shape)
    if name.endswith("bias"):
        return values * np.float32(0.1)
    if len(shape) == 1:
        return np.float32(1) + values * np.float32(0.1)
    # Keeps the variance from layer to layer, so that pictures and seeds are told apart at the output.
    return values * np.float32(math.sqrt(3 / math.prod(shape[1:])))
