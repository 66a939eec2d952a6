"""Parts of layouts whose patches are flat, with a grid, and merged by squares: Qwen's and GLM-4V's.

Place: under `grids`. Must never: know a family's own names.
"""

from __future__ import annotations

from typing import Any

from encoder_server.layouts.parts import CLIP_MEAN, CLIP_STD, Layout, Shapes, language_model, linear, norm, under

HIDDEN, DEPTH, HEADS, INNER, OUT, TIME, MERGE = 64, 3, 4, 128, 64, 2, 2
MERGED = HIDDEN * MERGE**2


def block(*, bias: bool, attention_bias: bool = True) -> Shapes:
    """The norms and the attention of one block of a tower."""
    norms = norm("norm1", HIDDEN, bias=bias) | norm("norm2", HIDDEN, bias=bias)
    qkv = linear("attn.qkv", 3 * HIDDEN, HIDDEN, bias=attention_bias)
    return norms | qkv | linear("attn.proj", HIDDEN, HIDDEN, bias=attention_bias)


def plain_mlp(first: str, second: str) -> Shapes:
    """Two linears, called `first` and `second`."""
    return linear(f"mlp.{first}", INNER, HIDDEN) | linear(f"mlp.{second}", HIDDEN, INNER)


def gated_mlp(width: int, inner: int, *, bias: bool) -> Shapes:
    """A gate beside the way up, and the way down."""
    into = linear("mlp.gate_proj", inner, width, bias=bias) | linear("mlp.up_proj", inner, width, bias=bias)
    return into | linear("mlp.down_proj", width, inner, bias=bias)


def flat(architecture: str, model_type: str, width: int) -> dict[str, Any]:
    """A configuration that holds the language model's keys beside the tower's section, as older files do."""
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "torch_dtype": "float32",
        "vocab_size": 16,
        "hidden_size": width,
        "intermediate_size": 2 * width,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
    }


def nested(architecture: str, model_type: str, text_type: str, width: int) -> dict[str, Any]:
    """A configuration with the language model's keys in a section of their own."""
    text = {key: value for key, value in flat(architecture, text_type, width).items() if key != "architectures"}
    turned = {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10_000}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "text_config": {**text, "head_dim": width // 4, "rope_parameters": turned},
    }


def qwen_processor(processor_class: str) -> dict[str, Any]:
    """The processor's file of Qwen2-VL and Qwen2.5-VL."""
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": processor_class,
        "min_pixels": 56 * 56,
        "max_pixels": 1_003_520,
        "patch_size": 14,
        "temporal_patch_size": TIME,
        "merge_size": MERGE,
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
    }


def layout(
    config: dict[str, Any],
    processor: dict[str, Any],
    video: dict[str, Any],
    tower: Shapes,
    prefix: str,
    width: int,
    language: str = "model.",
) -> Layout:
    """A layout of both processors' files, and of a tower under `prefix` beside some of a language model."""
    shared = ("processor_class", "patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")
    clips = {**video, **{key: processor[key] for key in shared}}
    return Layout(
        files={"config.json": config, "preprocessor_config.json": processor, "video_preprocessor_config.json": clips},
        shapes=under(prefix, tower) | language_model(language, width),
    )
