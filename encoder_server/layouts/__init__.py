"""Layouts: what a published checkpoint of each family holds, made tiny: its JSON files, and its tensors' shapes.

Place: behind `checkpoint`, which fills the tensors. The names are written out, and not asked of the library: they
are what published files are read by, whatever the installed library calls them.

Must never: import torch or the library, or hold a layout that no published checkpoint has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from encoder_server.layouts import grids, joined, patches, sounds
from encoder_server.layouts.parts import Layout

FAMILIES: Mapping[str, Callable[[], Layout]] = {
    "qwen2_vl": grids.qwen2_vl,
    "qwen2_5_vl": grids.qwen2_5_vl,
    "qwen3_vl": grids.qwen3_vl,
    "glm4v": grids.glm4v,
    "clip": patches.clip,
    "siglip": patches.siglip,
    "siglip2": patches.siglip2,
    "dinov2": patches.dinov2,
    "llava": joined.llava,
    "pixtral": joined.pixtral,
    "internvl": joined.internvl,
    "whisper": sounds.whisper,
    "qwen2_audio": sounds.qwen2_audio,
    "qwen3_omni": sounds.qwen3_omni,
}
