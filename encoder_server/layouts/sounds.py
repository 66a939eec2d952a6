"""Layouts of Whisper, Qwen2-Audio and Qwen3-Omni: convolutions over mel frames, then a transformer.

Place: among `layouts`. Must never: differ in a name from what is published.
"""

from __future__ import annotations

from typing import Any

from encoder_server.layouts.parts import Layout, Shapes, language_model, linear, norm, text_config, under

_HIDDEN, _DEPTH, _HEADS, _INNER, _OUT, _POSITIONS = 64, 2, 4, 128, 48, 1500
# The processor's one file is for pictures too.
_OMNI_PICTURES = {
    "image_processor_type": "Qwen2VLImageProcessor",
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "max_pixels": 12_845_056,
    "merge_size": 2,
    "min_pixels": 3136,
    "patch_size": 16,
    "temporal_patch_size": 2,
}


def whisper() -> Layout:
    """Whisper with both halves: the encoder, and some of the decoder."""
    config = {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "torch_dtype": "float32",
        "decoder_attention_heads": _HEADS,
        "decoder_ffn_dim": _INNER,
        "decoder_layers": 1,
        "max_target_positions": 8,
        "num_hidden_layers": _DEPTH,
        "vocab_size": 16,
        "bos_token_id": 0,
        "decoder_start_token_id": 1,
        "eos_token_id": 0,
        "pad_token_id": 0,
        "begin_suppress_tokens": [2, 3],
        **_encoder_config(80),
    }
    decoder: Shapes = {
        "model.decoder.embed_tokens.weight": (16, _HIDDEN),
        "model.decoder.embed_positions.weight": (8, _HIDDEN),
    }
    shapes = under("model.encoder.", _window_tower(80)) | decoder | norm("model.decoder.layer_norm", _HIDDEN)
    return _layout(config, _extractor(80, "WhisperProcessor", mask=False), shapes)


def qwen2_audio() -> Layout:
    """Qwen2-Audio: Whisper's tower with more mel bins and a pooling, and a projector into the language model."""
    config = {
        "architectures": ["Qwen2AudioForConditionalGeneration"],
        "model_type": "qwen2_audio",
        "torch_dtype": "float32",
        "audio_config": {"model_type": "qwen2_audio_encoder", **_encoder_config(128)},
        "audio_token_index": 11,
        "text_config": text_config("qwen2", _OUT),
    }
    shapes = under("audio_tower.", _window_tower(128)) | linear("multi_modal_projector.linear", _OUT, _HIDDEN)
    shapes |= language_model("language_model.model.", _OUT, head="language_model.lm_head.weight")
    return _layout(config, _extractor(128, "Qwen2AudioProcessor", mask=True), shapes)


def qwen3_omni() -> Layout:
    """Qwen3-Omni without its talker: the thinker's audio tower, and some of its language model; the processor's one
    file is for pictures too."""
    thinker = {
        "model_type": "qwen3_omni_moe_thinker",
        "audio_config": _omni_audio_config(),
        "audio_token_id": 11,
        "text_config": _experts_config(),
        "vision_config": _vision_config(),
    }
    config = {
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"],
        "model_type": "qwen3_omni_moe",
        "enable_audio_output": False,
        "thinker_config": thinker,
        "torch_dtype": "float32",
    }
    shapes = under("thinker.audio_tower.", _chunk_tower())
    shapes |= language_model("thinker.model.", _OUT, head="thinker.lm_head.weight")
    processor = _extractor(128, "Qwen3OmniMoeProcessor", mask=True) | {"n_samples": 4_800_000, "nb_max_frames": 30_000}
    return _layout(config, processor | _OMNI_PICTURES, shapes)


def _encoder_config(bins: int) -> dict[str, Any]:
    return {
        "activation_function": "gelu",
        "d_model": _HIDDEN,
        "encoder_attention_heads": _HEADS,
        "encoder_ffn_dim": _INNER,
        "encoder_layers": _DEPTH,
        "max_source_positions": _POSITIONS,
        "num_mel_bins": bins,
        "scale_embedding": False,
    }


def _omni_audio_config() -> dict[str, Any]:
    return {
        "model_type": "qwen3_omni_moe_audio_encoder",
        "activation_function": "gelu",
        "conv_chunksize": 500,
        "d_model": _HIDDEN,
        "downsample_hidden_size": 16,
        "encoder_attention_heads": _HEADS,
        "encoder_ffn_dim": _INNER,
        "encoder_layers": _DEPTH,
        "max_source_positions": _POSITIONS,
        "n_window": 50,
        "n_window_infer": 400,
        "num_mel_bins": 128,
        "output_dim": _OUT,
        "scale_embedding": False,
    }


def _window_tower(bins: int) -> Shapes:
    shapes: Shapes = {
        "conv1.weight": (_HIDDEN, bins, 3),
        "conv1.bias": (_HIDDEN,),
        "conv2.weight": (_HIDDEN, _HIDDEN, 3),
        "conv2.bias": (_HIDDEN,),
        "embed_positions.weight": (_POSITIONS, _HIDDEN),
    }
    return shapes | _layers(key_bias=False) | norm("layer_norm", _HIDDEN)


def _chunk_tower() -> Shapes:
    shapes: Shapes = {}
    for at, channels in ((1, 1), (2, 16), (3, 16)):
        shapes |= {f"conv2d{at}.weight": (16, channels, 3, 3), f"conv2d{at}.bias": (16,)}
    shapes |= linear("conv_out", _HIDDEN, 16 * 16, bias=False) | norm("ln_post", _HIDDEN)
    return shapes | _layers(key_bias=True) | linear("proj1", _HIDDEN, _HIDDEN) | linear("proj2", _OUT, _HIDDEN)


def _layers(*, key_bias: bool) -> Shapes:
    shapes: Shapes = {}
    for layer in range(_DEPTH):
        parts = norm("self_attn_layer_norm", _HIDDEN) | norm("final_layer_norm", _HIDDEN)
        for name in ("q_proj", "k_proj", "v_proj", "out_proj"):
            parts |= linear(f"self_attn.{name}", _HIDDEN, _HIDDEN, bias=key_bias or name != "k_proj")
        parts |= linear("fc1", _INNER, _HIDDEN) | linear("fc2", _HIDDEN, _INNER)
        shapes |= under(f"layers.{layer}.", parts)
    return shapes


def _experts_config() -> dict[str, Any]:
    turned = {"rope_type": "default", "mrope_section": [2, 2, 2], "rope_theta": 10_000}
    experts = {"num_experts": 2, "num_experts_per_tok": 1, "moe_intermediate_size": 16}
    return {**text_config("qwen3_omni_moe_text", _OUT), "head_dim": 12, "rope_parameters": turned, **experts}


def _vision_config() -> dict[str, Any]:
    return {
        "model_type": "qwen3_omni_moe_vision_encoder",
        "deepstack_visual_indexes": [0],
        "depth": 1,
        "hidden_size": _HIDDEN,
        "intermediate_size": _INNER,
        "num_heads": _HEADS,
        "num_position_embeddings": 36,
        "out_hidden_size": _OUT,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
    }


def _extractor(bins: int, processor_class: str, *, mask: bool) -> dict[str, Any]:
    return {
        "chunk_length": 30,
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": bins,
        "hop_length": 160,
        "n_fft": 400,
        "n_samples": 480_000,
        "nb_max_frames": 3000,
        "padding_side": "right",
        "padding_value": 0.0,
        "processor_class": processor_class,
        "return_attention_mask": mask,
        "sampling_rate": 16_000,
    }


def _layout(config: dict[str, Any], processor: dict[str, Any], shapes: Shapes) -> Layout:
    return Layout(files={"config.json": config, "preprocessor_config.json": processor}, shapes=shapes)
