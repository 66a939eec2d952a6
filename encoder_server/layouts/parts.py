"""Parts of layouts: norms and linears by name, and what a layout is.

Place: under the families' modules. Must never: know a family.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Shapes = dict[str, tuple[int, ...]]

CLIP_MEAN = [0.48145466, 0.4578275, 0.40821073]
CLIP_STD = [0.26862954, 0.26130258, 0.27577711]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A checkpoint without its numbers: JSON files by name, and the shapes of the tensors in model.safetensors."""

    files: Mapping[str, Mapping[str, object]]
    shapes: Shapes


def norm(name: str, width: int, *, bias: bool = True) -> Shapes:
    """A norm over `width`."""
    shapes: Shapes = {f"{name}.weight": (width,)}
    return shapes | ({f"{name}.bias": (width,)} if bias else {})


def linear(name: str, rows: int, columns: int, *, bias: bool = True) -> Shapes:
    """A linear from `columns` to `rows`."""
    return {f"{name}.weight": (rows, columns)} | ({f"{name}.bias": (rows,)} if bias else {})


def under(prefix: str, shapes: Shapes) -> Shapes:
    """The same tensors under `prefix`."""
    return {f"{prefix}{name}": shape for name, shape in shapes.items()}


def language_model(prefix: str, width: int, *, head: str = "lm_head.weight") -> Shapes:
    """Some of a language model: a loader must pass it by, as it does with the gigabytes of a real checkpoint."""
    return {f"{prefix}embed_tokens.weight": (16, width), f"{prefix}norm.weight": (width,), head: (16, width)}


def text_config(model_type: str, width: int) -> dict[str, object]:
    """The configuration of a language model of `width`."""
    return {
        "model_type": model_type,
        "vocab_size": 16,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }
