"""Layouts of Qwen2-VL, Qwen2.5-VL, Qwen3-VL and GLM-4V: flat patches with a grid, merged by squares.

Place: among `layouts`. Must never: differ in a name from what is published. Sizes are tiny: a video processor's own
least size would scale every clip up to 336 pixels a side.
"""

from __future__ import annotations

from encoder_server.layouts.parts import CLIP_MEAN, CLIP_STD, Layout, Shapes, linear, norm, under
from encoder_server.layouts.squares import (
    DEPTH,
    HEADS,
    HIDDEN,
    INNER,
    MERGE,
    MERGED,
    OUT,
    TIME,
    block,
    flat,
    gated_mlp,
    layout,
    nested,
    plain_mlp,
    qwen_processor,
)

_QWEN_VIDEO = {
    "video_processor_type": "Qwen2VLVideoProcessor",
    "size": {"shortest_edge": 56 * 56, "longest_edge": 50_176},
    "do_sample_frames": False,
    "min_frames": 4,
    "max_frames": 768,
}
_TAPPED = [0, 1]
_QWEN3_PROCESSOR = {
    "image_processor_type": "Qwen2VLImageProcessorFast",
    "processor_class": "Qwen3VLProcessor",
    "size": {"shortest_edge": 64 * 64, "longest_edge": 1_048_576},
    "patch_size": 16,
    "temporal_patch_size": TIME,
    "merge_size": MERGE,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
_GLM_PROCESSOR = {
    "image_processor_type": "Glm4vImageProcessor",
    "processor_class": "Glm4vProcessor",
    "size": {"shortest_edge": 56 * 56, "longest_edge": 1_003_520},
    "patch_size": 14,
    "temporal_patch_size": TIME,
    "merge_size": MERGE,
    "image_mean": CLIP_MEAN,
    "image_std": CLIP_STD,
}


def qwen2_vl() -> Layout:
    """Qwen2-VL: the tower's hidden size is called embed_dim, and hidden_size is the language model's."""
    vision = {
        "model_type": "qwen2_vl",
        "depth": DEPTH,
        "embed_dim": HIDDEN,
        "mlp_ratio": 2,
        "num_heads": HEADS,
        "in_chans": 3,
        "hidden_size": 48,
        "patch_size": 14,
        "spatial_merge_size": MERGE,
        "spatial_patch_size": 14,
        "temporal_patch_size": TIME,
    }
    tower: Shapes = {"patch_embed.proj.weight": (HIDDEN, 3, TIME, 14, 14)}
    tower |= norm("merger.ln_q", HIDDEN) | linear("merger.mlp.0", MERGED, MERGED) | linear("merger.mlp.2", 48, MERGED)
    for at in range(DEPTH):
        tower |= under(f"blocks.{at}.", block(bias=True) | plain_mlp("fc1", "fc2"))
    config = flat("Qwen2VLForConditionalGeneration", "qwen2_vl", 48) | {"vision_config": vision}
    return layout(config, qwen_processor("Qwen2VLProcessor"), _QWEN_VIDEO, tower, "visual.", 48)


def qwen2_5_vl() -> Layout:
    """Qwen2.5-VL: norms without bias, and windows."""
    vision = {
        "model_type": "qwen2_5_vl",
        "depth": DEPTH,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_heads": HEADS,
        "in_chans": 3,
        "out_hidden_size": OUT,
        "patch_size": 14,
        "spatial_merge_size": MERGE,
        "spatial_patch_size": 14,
        "temporal_patch_size": TIME,
        "tokens_per_second": 2,
        "window_size": 112,
        "fullatt_block_indexes": [DEPTH - 1],
    }
    tower: Shapes = {"patch_embed.proj.weight": (HIDDEN, 3, TIME, 14, 14)}
    tower |= norm("merger.ln_q", HIDDEN, bias=False)
    tower |= linear("merger.mlp.0", MERGED, MERGED) | linear("merger.mlp.2", OUT, MERGED)
    for at in range(DEPTH):
        tower |= under(f"blocks.{at}.", block(bias=False) | gated_mlp(HIDDEN, INNER, bias=True))
    config = flat("Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", OUT) | {"vision_config": vision}
    return layout(config, qwen_processor("Qwen2_5_VLProcessor"), _QWEN_VIDEO, tower, "visual.", OUT)


def qwen3_vl() -> Layout:
    """Qwen3-VL: learned positions, and two layers tapped for deepstack."""
    vision = {
        "model_type": "qwen3_vl",
        "deepstack_visual_indexes": _TAPPED,
        "depth": DEPTH,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": HIDDEN,
        "in_channels": 3,
        "intermediate_size": INNER,
        "num_heads": HEADS,
        "num_position_embeddings": 36,
        "out_hidden_size": 48,
        "patch_size": 16,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": TIME,
    }
    config = nested("Qwen3VLForConditionalGeneration", "qwen3_vl", "qwen3_vl_text", 48) | {"vision_config": vision}
    video = {
        "video_processor_type": "Qwen3VLVideoProcessor",
        "size": {"shortest_edge": 2 * 64 * 64, "longest_edge": 262_144},
        "do_sample_frames": True,
        "fps": 2,
        "min_frames": 4,
        "max_frames": 768,
    }
    return layout(
        config, _QWEN3_PROCESSOR, video, _qwen3_tower(), "model.visual.", 48, language="model.language_model."
    )


def glm4v() -> Layout:
    """GLM-4V: learned positions beside turned ones, and a strided convolution that merges."""
    vision = {
        "model_type": "glm4v",
        "attention_bias": False,
        "depth": DEPTH,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "image_size": 84,
        "in_channels": 3,
        "intermediate_size": INNER,
        "num_heads": HEADS,
        "out_hidden_size": 48,
        "patch_size": 14,
        "rms_norm_eps": 1e-05,
        "spatial_merge_size": MERGE,
        "temporal_patch_size": TIME,
    }
    config = nested("Glm4vForConditionalGeneration", "glm4v", "glm4v_text", 48) | {"vision_config": vision}
    video = {
        "video_processor_type": "Glm4vVideoProcessor",
        "size": {"shortest_edge": 2 * 56 * 56, "longest_edge": 262_144},
        "do_sample_frames": True,
        "fps": 2,
        "max_duration": 300,
    }
    return layout(config, _GLM_PROCESSOR, video, _glm_tower(), "model.visual.", 48, language="model.language_model.")


def _qwen3_tower() -> Shapes:
    tower: Shapes = {
        "patch_embed.proj.weight": (HIDDEN, 3, TIME, 16, 16),
        "patch_embed.proj.bias": (HIDDEN,),
        "pos_embed.weight": (36, HIDDEN),
    }
    for merger in ("merger", *(f"deepstack_merger_list.{at}" for at in range(len(_TAPPED)))):
        tower |= norm(f"{merger}.norm", HIDDEN if merger == "merger" else MERGED)
        tower |= linear(f"{merger}.linear_fc1", MERGED, MERGED) | linear(f"{merger}.linear_fc2", 48, MERGED)
    for at in range(DEPTH):
        tower |= under(f"blocks.{at}.", block(bias=True) | plain_mlp("linear_fc1", "linear_fc2"))
    return tower


def _glm_tower() -> Shapes:
    tower: Shapes = {
        "patch_embed.proj.weight": (HIDDEN, 3, TIME, 14, 14),
        "patch_embed.proj.bias": (HIDDEN,),
        "embeddings.position_embedding.weight": (36, HIDDEN),
        "downsample.weight": (48, HIDDEN, MERGE, MERGE),
        "downsample.bias": (48,),
    }
    for name in ("post_conv_layernorm", "post_layernorm"):
        tower |= norm(name, HIDDEN, bias=False)
    tower |= linear("merger.proj", 48, 48, bias=False) | norm("merger.post_projection_norm", 48)
    for name, rows, columns in (("gate_proj", INNER, 48), ("up_proj", INNER, 48), ("down_proj", 48, INNER)):
        tower |= linear(f"merger.{name}", rows, columns, bias=False)
    for at in range(DEPTH):
        parts = block(bias=False, attention_bias=False) | gated_mlp(HIDDEN, 48, bias=False)
        tower |= under(f"blocks.{at}.", parts)
    return tower
