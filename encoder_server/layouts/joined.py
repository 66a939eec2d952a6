"""Layouts of LLaVA, Pixtral and InternVL: a tower, a projector into the language model, and a file of their own
that says how many tokens a picture takes up.

Place: among `layouts`. Must never: differ in a name from what is published.
"""

from __future__ import annotations

from encoder_server.layouts import patches
from encoder_server.layouts.parts import (
    CLIP_MEAN,
    CLIP_STD,
    Layout,
    Shapes,
    language_model,
    linear,
    norm,
    text_config,
    under,
)

_HIDDEN, _DEPTH, _HEADS, _INNER, _OUT = patches.HIDDEN, patches.DEPTH, patches.HEADS, patches.INNER, 48
_PIXTRAL_PROCESSOR = {
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": CLIP_MEAN,
    "image_processor_type": "PixtralImageProcessor",
    "image_std": CLIP_STD,
    "patch_size": {"height": 16, "width": 16},
    "resample": 3,
    "size": {"longest_edge": 256},
}
_INTERNVL_PROCESSOR = {
    "crop_to_patches": False,
    "do_convert_rgb": True,
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.485, 0.456, 0.406],
    "image_processor_type": "GotOcr2ImageProcessor",
    "image_std": [0.229, 0.224, 0.225],
    "max_patches": 12,
    "min_patches": 1,
    "resample": 3,
    "size": {"height": 56, "width": 56},
}


def llava() -> Layout:
    """LLaVA 1.5: CLIP's tower, its last layer but one without the class token."""
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "projector_hidden_act": "gelu",
        "torch_dtype": "float32",
        "text_config": text_config("llama", _OUT),
        "vision_config": patches.clip_vision(),
        "vision_feature_layer": -2,
        "vision_feature_select_strategy": "default",
    }
    processor = {
        "crop_size": {"height": patches.CLIP_SIDE, "width": patches.CLIP_SIDE},
        "do_center_crop": True,
        "do_convert_rgb": True,
        "do_normalize": True,
        "do_rescale": True,
        "do_resize": True,
        "image_mean": CLIP_MEAN,
        "image_processor_type": "CLIPImageProcessor",
        "image_std": CLIP_STD,
        "resample": 3,
        "size": {"shortest_edge": patches.CLIP_SIDE},
    }
    whole = {
        "image_token": "<image>",
        "num_additional_image_tokens": 1,
        "patch_size": patches.CLIP_PATCH,
        "processor_class": "LlavaProcessor",
        "vision_feature_select_strategy": "default",
    }
    return Layout(
        files={"config.json": config, "preprocessor_config.json": processor, "processor_config.json": whole},
        shapes=under("vision_tower.vision_model.", patches.clip_tower()) | _projector() | _language_model(),
    )


def pixtral() -> Layout:
    """Pixtral 12B, which is published as a LLaVA with Pixtral's tower: any shape of picture, turned positions."""
    config = {
        "architectures": ["LlavaForConditionalGeneration"],
        "model_type": "llava",
        "projector_hidden_act": "gelu",
        "torch_dtype": "float32",
        "text_config": text_config("mistral", _OUT),
        "vision_config": {
            "model_type": "pixtral",
            "head_dim": _HIDDEN // _HEADS,
            "hidden_act": "silu",
            "hidden_size": _HIDDEN,
            "image_size": 256,
            "intermediate_size": _INNER,
            "num_attention_heads": _HEADS,
            "num_hidden_layers": _DEPTH,
            "patch_size": 16,
            "rope_theta": 10_000.0,
        },
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "full",
    }
    whole = {"image_token": "[IMG]", "patch_size": 16, "processor_class": "PixtralProcessor"}
    return Layout(
        files={"config.json": config, "preprocessor_config.json": _PIXTRAL_PROCESSOR, "processor_config.json": whole},
        shapes=under("vision_tower.", _pixtral_tower()) | _projector() | _language_model(),
    )


def internvl() -> Layout:
    """InternVL 3 in the library's form: a picture is cut into tiles, and a tile's patches are shuffled into fewer."""
    config = {
        "architectures": ["InternVLForConditionalGeneration"],
        "model_type": "internvl",
        "downsample_ratio": 0.5,
        "image_seq_length": 4,
        "projector_hidden_act": "gelu",
        "torch_dtype": "float32",
        "text_config": text_config("qwen2", _OUT),
        "vision_config": {
            "model_type": "internvl_vision",
            "attention_bias": True,
            "hidden_act": "gelu",
            "hidden_size": _HIDDEN,
            "image_size": [56, 56],
            "intermediate_size": _INNER,
            "norm_type": "layer_norm",
            "num_attention_heads": _HEADS,
            "num_hidden_layers": _DEPTH,
            "patch_size": [14, 14],
            "use_absolute_position_embeddings": True,
            "use_mean_pooling": True,
            "use_qk_norm": False,
        },
        "vision_feature_layer": -1,
        "vision_feature_select_strategy": "default",
    }
    whole = {"image_seq_length": 4, "processor_class": "InternVLProcessor"}
    projector = norm("multi_modal_projector.layer_norm", 4 * _HIDDEN)
    return Layout(
        files={"config.json": config, "preprocessor_config.json": _INTERNVL_PROCESSOR, "processor_config.json": whole},
        shapes=under("vision_tower.", _internvl_tower()) | projector | _projector(4 * _HIDDEN) | _language_model(),
    )


def _pixtral_tower() -> Shapes:
    tower: Shapes = {"patch_conv.weight": (_HIDDEN, 3, 16, 16), "ln_pre.weight": (_HIDDEN,)}
    for layer in range(_DEPTH):
        parts = norm("attention_norm", _HIDDEN, bias=False) | norm("ffn_norm", _HIDDEN, bias=False)
        for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
            parts |= linear(f"attention.{name}", _HIDDEN, _HIDDEN, bias=False)
        for name, rows, columns in (("gate", _INNER, _HIDDEN), ("up", _INNER, _HIDDEN), ("down", _HIDDEN, _INNER)):
            parts |= linear(f"feed_forward.{name}_proj", rows, columns, bias=False)
        tower |= under(f"transformer.layers.{layer}.", parts)
    return tower


def _internvl_tower() -> Shapes:
    tower: Shapes = {
        "embeddings.cls_token": (1, 1, _HIDDEN),
        "embeddings.position_embeddings": (1, 17, _HIDDEN),
        "embeddings.patch_embeddings.projection.weight": (_HIDDEN, 3, 14, 14),
        "embeddings.patch_embeddings.projection.bias": (_HIDDEN,),
    }
    for layer in range(_DEPTH):
        parts: Shapes = {"lambda_1": (_HIDDEN,), "lambda_2": (_HIDDEN,)}
        parts |= norm("layernorm_before", _HIDDEN) | norm("layernorm_after", _HIDDEN)
        for name in ("q_proj", "k_proj", "v_proj", "projection_layer"):
            parts |= linear(f"attention.{name}", _HIDDEN, _HIDDEN)
        parts |= linear("mlp.fc1", _INNER, _HIDDEN) | linear("mlp.fc2", _HIDDEN, _INNER)
        tower |= under(f"encoder.layer.{layer}.", parts)
    return tower


def _projector(width: int = _HIDDEN) -> Shapes:
    first = linear("multi_modal_projector.linear_1", _OUT, width)
    return first | linear("multi_modal_projector.linear_2", _OUT, _OUT)


def _language_model() -> Shapes:
    return language_model("language_model.model.", _OUT, head="language_model.lm_head.weight")
