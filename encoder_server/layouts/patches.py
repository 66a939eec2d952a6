"""Layouts of CLIP, SigLIP, SigLIP 2 and DINOv2: pictures of one size, or patches with a mask.

Place: among `layouts`. Must never: differ in a name from what is published.
"""

from __future__ import annotations

from typing import Any

from encoder_server.layouts.parts import CLIP_MEAN, CLIP_STD, Layout, Shapes, linear, norm, under

HIDDEN, DEPTH, HEADS, INNER = 64, 3, 4, 128
CLIP_SIDE, CLIP_PATCH = 84, 14


def clip() -> Layout:
    """CLIP with both towers and the projections, its processor's file in the first published spelling."""
    config = {
        "architectures": ["CLIPModel"],
        "model_type": "clip",
        "projection_dim": 48,
        "torch_dtype": "float32",
        "text_config": _text("clip_text_model"),
        "vision_config": clip_vision() | {"projection_dim": 48},
    }
    processor = {
        "crop_size": CLIP_SIDE,
        "do_center_crop": True,
        "do_normalize": True,
        "do_resize": True,
        "feature_extractor_type": "CLIPFeatureExtractor",
        "image_mean": CLIP_MEAN,
        "image_std": CLIP_STD,
        "resample": 3,
        "size": CLIP_SIDE,
    }
    shapes = under("vision_model.", clip_tower()) | _text_tower() | {"logit_scale": ()}
    shapes |= {"vision_model.embeddings.position_ids": (1, (CLIP_SIDE // CLIP_PATCH) ** 2 + 1)}
    shapes |= {"visual_projection.weight": (48, HIDDEN), "text_projection.weight": (48, HIDDEN)}
    return _layout(config, processor, shapes)


def siglip() -> Layout:
    """SigLIP with both towers: no extra token, and an attention head that pools."""
    config = {
        "architectures": ["SiglipModel"],
        "model_type": "siglip",
        "torch_dtype": "float32",
        "text_config": _text("siglip_text_model"),
        "vision_config": _vision("siglip_vision_model") | {"image_size": 96},
    }
    processor = _half_processor("SiglipImageProcessor") | {"size": {"height": 96, "width": 96}}
    patch: Shapes = {"embeddings.patch_embedding.weight": (HIDDEN, 3, 16, 16)}
    return _layout(
        config, processor, under("vision_model.", patch | _siglip_tower()) | _text_tower() | {"logit_scale": (1,)}
    )


def siglip2() -> Layout:
    """SigLIP 2 in its form for any shape of picture: patches, a mask, and a grid for each."""
    config = {
        "architectures": ["Siglip2Model"],
        "model_type": "siglip2",
        "torch_dtype": "float32",
        "text_config": _text("siglip2_text_model"),
        "vision_config": _vision("siglip2_vision_model") | {"num_patches": 36},
    }
    processor = _half_processor("Siglip2ImageProcessor") | {"max_num_patches": 64, "patch_size": 16}
    patch: Shapes = {"embeddings.patch_embedding.weight": (HIDDEN, 3 * 16 * 16)}
    return _layout(
        config, processor, under("vision_model.", patch | _siglip_tower()) | _text_tower() | {"logit_scale": (1,)}
    )


def dinov2() -> Layout:
    """DINOv2: the tower alone, made for larger pictures than its processor cuts."""
    config = {
        "architectures": ["Dinov2Model"],
        "model_type": "dinov2",
        "torch_dtype": "float32",
        "hidden_act": "gelu",
        "hidden_size": HIDDEN,
        "image_size": 98,
        "layerscale_value": 1.0,
        "mlp_ratio": 2,
        "num_attention_heads": HEADS,
        "num_channels": 3,
        "num_hidden_layers": DEPTH,
        "patch_size": 14,
        "qkv_bias": True,
        "use_swiglu_ffn": False,
    }
    processor = {
        "crop_size": {"height": 84, "width": 84},
        "do_center_crop": True,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.485, 0.456, 0.406],
        "image_processor_type": "BitImageProcessor",
        "image_std": [0.229, 0.224, 0.225],
        "resample": 3,
        "rescale_factor": 0.00392156862745098,
        "size": {"shortest_edge": 96},
    }
    return _layout(config, processor, _dinov2_tower())


def clip_vision() -> dict[str, Any]:
    """The section that configures CLIP's vision tower."""
    return _vision("clip_vision_model") | {
        "hidden_act": "quick_gelu",
        "image_size": CLIP_SIDE,
        "patch_size": CLIP_PATCH,
    }


def clip_tower() -> Shapes:
    """CLIP's vision tower; `pre_layrnorm` is how its files spell it."""
    embeddings: Shapes = {
        "embeddings.class_embedding": (HIDDEN,),
        "embeddings.patch_embedding.weight": (HIDDEN, 3, CLIP_PATCH, CLIP_PATCH),
        "embeddings.position_embedding.weight": ((CLIP_SIDE // CLIP_PATCH) ** 2 + 1, HIDDEN),
    }
    return embeddings | norm("pre_layrnorm", HIDDEN) | _encoder() | norm("post_layernorm", HIDDEN)


def _dinov2_tower() -> Shapes:
    shapes: Shapes = {
        "embeddings.cls_token": (1, 1, HIDDEN),
        "embeddings.mask_token": (1, HIDDEN),
        "embeddings.position_embeddings": (1, 50, HIDDEN),
        "embeddings.patch_embeddings.projection.weight": (HIDDEN, 3, 14, 14),
        "embeddings.patch_embeddings.projection.bias": (HIDDEN,),
    }
    shapes |= norm("layernorm", HIDDEN)
    for layer in range(DEPTH):
        parts: Shapes = {"layer_scale1.lambda1": (HIDDEN,), "layer_scale2.lambda1": (HIDDEN,)}
        parts |= norm("norm1", HIDDEN) | norm("norm2", HIDDEN)
        for name in ("attention.query", "attention.key", "attention.value", "output.dense"):
            parts |= linear(f"attention.{name}", HIDDEN, HIDDEN)
        shapes |= under(f"encoder.layer.{layer}.", parts | _mlp("mlp."))
    return shapes


def _siglip_tower() -> Shapes:
    shapes: Shapes = {
        "embeddings.patch_embedding.bias": (HIDDEN,),
        "embeddings.position_embedding.weight": (36, HIDDEN),
        "head.probe": (1, 1, HIDDEN),
        "head.attention.in_proj_weight": (3 * HIDDEN, HIDDEN),
        "head.attention.in_proj_bias": (3 * HIDDEN,),
    }
    head = linear("head.attention.out_proj", HIDDEN, HIDDEN) | norm("head.layernorm", HIDDEN) | _mlp("head.mlp.")
    return shapes | head | _encoder() | norm("post_layernorm", HIDDEN)


def _encoder() -> Shapes:
    shapes: Shapes = {}
    for layer in range(DEPTH):
        parts = norm("layer_norm1", HIDDEN) | norm("layer_norm2", HIDDEN) | _mlp("mlp.")
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            parts |= linear(f"self_attn.{name}", HIDDEN, HIDDEN)
        shapes |= under(f"encoder.layers.{layer}.", parts)
    return shapes


def _mlp(prefix: str) -> Shapes:
    return linear(f"{prefix}fc1", INNER, HIDDEN) | linear(f"{prefix}fc2", HIDDEN, INNER)


def _vision(model_type: str) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_attention_heads": HEADS,
        "num_hidden_layers": DEPTH,
        "patch_size": 16,
    }


def _text(model_type: str) -> dict[str, Any]:
    return {
        "model_type": model_type,
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "max_position_embeddings": 8,
        "num_attention_heads": HEADS,
        "num_hidden_layers": 1,
        "vocab_size": 16,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 1,
    }


def _text_tower() -> Shapes:
    return {"text_model.embeddings.token_embedding.weight": (16, HIDDEN)}


def _half_processor(name: str) -> dict[str, Any]:
    return {
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_processor_type": name,
        "image_std": [0.5, 0.5, 0.5],
        "resample": 2,
        "rescale_factor": 0.00392156862745098,
    }


def _layout(config: dict[str, Any], processor: dict[str, Any], shapes: Shapes) -> Layout:
    return Layout(files={"config.json": config, "preprocessor_config.json": processor}, shapes=shapes)
