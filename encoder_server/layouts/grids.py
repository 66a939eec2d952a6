"""Layouts of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and GLM-4V: flat patches with a grid, merged by squares.

Place: among `layouts`. Must never: differ in a name from what is published. Sizes are tiny: a video processor's own
least size would scale every clip up to 336 pixels a side.
"""

from __future__ import annotations

from typing import Any

from encoder_server.layouts.parts import CLIP_MEAN, CLIP_STD, Layout, Shapes, language_model, linear, norm, under

_HIDDEN, _DEPTH, _HEADS, _INNER, _OUT, _TIME, _MERGE = 64, 3, 4, 128, 64, 2, 2
_MERGED = _HIDDEN * _MERGE**2
_QWEN_VIDEO = {
    "video_processor_type": "Qwen2VLVideoProcessor",
    "size": {"shortest_edge": 56 * 56, "longest_edge": 50_176},
    "do_sample_frames": False,
    "min_frames": 4,
    "max_frames": 768,
}


def qwen2_vl() -> Layout:
    """Qwen2-VL: the tower's hidden size is called embed_dim, and hidden_size is the language model's."""
    vision = {
        "model_type": "qwen2_vl",
        "depth": _DEPTH,
        "embed_dim": _HIDDEN,
        "mlp_ratio": 2,
        "num_heads": _HEADS,
        "in_chans": 3,
        "hidden_size": 48,
        "patch_size": 14,
        "spatial_merge_size": _MERGE,
        "spatial_patch_size": 14,
        "temporal_patch_size": _TIME,
    }
    tower: Shapes = {"patch_embed.proj.weight": (_HIDDEN, 3, _TIME, 14, 14)}
    tower |= (
        norm("merger.ln_q", _HIDDEN) | linear("merger.mlp.0", _MERGED, _MERGED) | linear("merger.mlp.2", 48, _MERGED)
    )
    for block in range(_DEPTH):
        tower |= under(f"blocks.{block}.", _block(bias=True) | _plain_mlp("fc1", "fc2"))
    config = _flat("Qwen2VLForConditionalGeneration", "qwen2_vl", 48) | {"vision_config": vision}
    return _layout(config, _qwen_processor("Qwen2VLProcessor"), _QWEN_VIDEO, tower, "visual.", 48)


def qwen2_5_vl() -> Layout:
    """Qwen2.5-VL: norms without bias, and windows."""
    vision = {
        "model_type": "qwen2_5_vl",
        "depth": _DEPTH,
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_heads": _HEADS,
        "in_chans": 3,
        "out_hidden_size": _OUT,
        "patch_size": 14,
        "spatial_merge_size": _MERGE,
        "spatial_patch_size": 14,
        "temporal_patch_size": _TIME,
        "tokens_per_second": 2,
        "window_size": 112,
        "fullatt_block_indexes": [_DEPTH - 1],
    }
    tower: Shapes = {"patch_embed.proj.weight": (_HIDDEN, 3, _TIME, 14, 14)}
    tower |= norm("merger.ln_q", _HIDDEN, bias=False)
    tower |= linear("merger.mlp.0", _MERGED, _MERGED) | linear("merger.mlp.2", _OUT, _MERGED)
    for block in range(_DEPTH):
        tower |= under(f"blocks.{block}.", _block(bias=False) | _gated_mlp(_HIDDEN, _INNER, bias=True))
    config = _flat("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", _OUT) | {"vision_config": vision}
    return _layout(config, _qwen_processor("Qwen2_5_VLProcessor"), _QWEN_VIDEO, tower, "visual.", _OUT)


def qwen3_vl() -> Layout:
    """Qwen3-VL: learned positions, and two layers tapped for deepstack."""
    tapped = [0, 1]
    vision = {
        "model_type": "qwen3_vl",
        "deepstack_visual_indexes": tapped,
        "depth": _DEPTH,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": _HIDDEN,
        "in_channels": 3,
        "intermediate_size": _INNER,
        "num_heads": _HEADS,
        "num_position_embeddings": 36,
        "out_hidden_size": 48,
        "patch_size": 16,
        "spatial_merge_size": _MERGE,
        "temporal_patch_size": _TIME,
    }
    tower: Shapes = {
        "patch_embed.proj.weight": (_HIDDEN, 3, _TIME, 16, 16),
        "patch_embed.proj.bias": (_HIDDEN,),
        "pos_embed.weight": (36, _HIDDEN),
    }
    for merger in ("merger", *(f"deepstack_merger_list.{at}" for at in range(len(tapped)))):
        tower |= norm(f"{merger}.norm", _HIDDEN if merger == "merger" else _MERGED)
        tower |= linear(f"{merger}.linear_fc1", _MERGED, _MERGED) | linear(f"{merger}.linear_fc2", 48, _MERGED)
    for block in range(_DEPTH):
        tower |= under(f"blocks.{block}.", _block(bias=True) | _plain_mlp("linear_fc1", "linear_fc2"))
    config = _nested("Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", 48) | {"vision_config": vision}
    processor = {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
        "size": {"shortest_edge": 64 * 64, "longest_edge": 1_048_576},
        "patch_size": 16,
        "temporal_patch_size": _TIME,
        "merge_size": _MERGE,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    video = {
        "video_processor_type": "Qwen3VLVideoProcessor",
        "size": {"shortest_edge": 2 * 64 * 64, "longest_edge": 262_144},
        "do_sample_frames": True,
        "fps": 2,
        "min_frames": 4,
        "max_frames": 768,
    }
    return _layout(config, processor, video, tower, "model.visual.", 48, language="model.language_model.")


def glm4v() -> Layout:
    """GLM-4V: learned positions beside turned ones, and a strided convolution that merges."""
    vision = {
        "model_type": "glm4v",
        "attention_bias": False,
        "depth": _DEPTH,
        "hidden_act": "silu",
        "hidden_size": _HIDDEN,
        "image_size": 84,
        "in_channels": 3,
        "intermediate_size": _INNER,
        "num_heads": _HEADS,
        "out_hidden_size": 48,
        "patch_size": 14,
        "rms_norm_eps": 1e-05,
        "spatial_merge_size": _MERGE,
        "temporal_patch_size": _TIME,
    }
    tower: Shapes = {
        "patch_embed.proj.weight": (_HIDDEN, 3, _TIME, 14, 14),
        "patch_embed.proj.bias": (_HIDDEN,),
        "embeddings.position_embedding.weight": (36, _HIDDEN),
        "downsample.weight": (48, _HIDDEN, _MERGE, _MERGE),
        "downsample.bias": (48,),
    }
    for name in ("post_conv_layernorm", "post_layernorm"):
        tower |= norm(name, _HIDDEN, bias=False)
    tower |= linear("merger.proj", 48, 48, bias=False) | norm("merger.post_projection_norm", 48)
    for name, rows, columns in (("gate_proj", _INNER, 48), ("up_proj", _INNER, 48), ("down_proj", 48, _INNER)):
        tower |= linear(f"merger.{name}", rows, columns, bias=False)
    for block in range(_DEPTH):
        parts = _block(bias=False, attention_bias=False) | _gated_mlp(_HIDDEN, 48, bias=False)
        tower |= under(f"blocks.{block}.", parts)
    config = _nested("Glm4vForConditionalGeneration", "glm4v", "glm4v_text", 48) | {"vision_config": vision}
    processor = {
        "image_processor_type": "Glm4vImageProcessor",
        "processor_class": "Glm4vProcessor",
        "size": {"shortest_edge": 56 * 56, "longest_edge": 1_003_520},
        "patch_size": 14,
        "temporal_patch_size": _TIME,
        "merge_size": _MERGE,
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
    }
    video = {
        "video_processor_type": "Glm4vVideoProcessor",
        "size": {"shortest_edge": 2 * 56 * 56, "longest_edge": 262_144},
        "do_sample_frames": True,
        "fps": 2,
        "max_duration": 300,
    }
    return _layout(config, processor, video, tower, "model.visual.", 48, language="model.language_model.")


def _block(*, bias: bool, attention_bias: bool = True) -> Shapes:
    norms = norm("norm1", _HIDDEN, bias=bias) | norm("norm2", _HIDDEN, bias=bias)
    qkv = linear("attn.qkv", 3 * _HIDDEN, _HIDDEN, bias=attention_bias)
    return norms | qkv | linear("attn.proj", _HIDDEN, _HIDDEN, bias=attention_bias)


def _plain_mlp(first: str, second: str) -> Shapes:
    return linear(f"mlp.{first}", _INNER, _HIDDEN) | linear(f"mlp.{second}", _HIDDEN, _INNER)


def _gated_mlp(width: int, inner: int, *, bias: bool) -> Shapes:
    into = linear("mlp.gate_proj", inner, width, bias=bias) | linear("mlp.up_proj", inner, width, bias=bias)
    return into | linear("mlp.down_proj", width, inner, bias=bias)


def _flat(architecture: str, model_type: str, width: int) -> dict[str, Any]:
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


def _nested(architecture: str, model_type: str, text_type: str, width: int) -> dict[str, Any]:
    text = {key: value for key, value in _flat(architecture, text_type, width).items() if key != "architectures"}
    turned = {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10_000}
    return {
        "architectures": [architecture],
        "model_type": model_type,
        "text_config": {**text, "head_dim": width // 4, "rope_parameters": turned},
    }


def _qwen_processor(processor_class: str) -> dict[str, Any]:
    return {
        "image_processor_type": "Qwen2VLImageProcessor",
        "processor_class": processor_class,
        "min_pixels": 56 * 56,
        "max_pixels": 1_003_520,
        "patch_size": 14,
        "temporal_patch_size": _TIME,
        "merge_size": _MERGE,
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
    }


def _layout(
    config: dict[str, Any],
    processor: dict[str, Any],
    video: dict[str, Any],
    tower: Shapes,
    prefix: str,
    width: int,
    language: str = "model.",
) -> Layout:
    shared = ("processor_class", "patch_size", "temporal_patch_size", "merge_size", "image_mean", "image_std")
    clips = {**video, **{key: processor[key] for key in shared}}
    return Layout(
        files={"config.json": config, "preprocessor_config.json": processor, "video_preprocessor_config.json": clips},
        shapes=under(prefix, tower) | language_model(language, width),
    )
