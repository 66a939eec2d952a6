"""The registry: which encoder class a checkpoint is for, by the entry point's name or by its model_type.

Place: asked by the engine's pipeline before a family's `load`. Entry points are of the group
`encoder_server.encoders`, of this package and of any other.

Must never: import an encoder that was not asked for, or run code that comes with a checkpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, cast

from encoder_server.encoders import Encoder, RefusedError, read_json, refuse_own_code

GROUP = "encoder_server.encoders"
AUTO = "Auto"

# A model_type, a bare tower's or a whole model's, where it is not an entry point's name itself. A language model of
# experts (MoE) has the same tower.
_ENTRY_BY_MODEL_TYPE = {
    "clip_vision_model": "clip",
    "glm46v": "glm4v",
    "glm4v_moe": "glm4v",
    "glm4v_vision": "glm4v",
    "qwen2_5_vl_vision": "qwen2_5_vl",
    "qwen2_audio_encoder": "qwen2_audio",
    "qwen2_vl_vision": "qwen2_vl",
    "qwen3_omni_moe": "qwen3_omni",
    "qwen3_omni_moe_audio_encoder": "qwen3_omni",
    "qwen3_omni_moe_thinker": "qwen3_omni",
    "qwen3_vl_moe": "qwen3_vl",
    "qwen3_vl_vision": "qwen3_vl",
    "siglip2_vision_model": "siglip2",
    "siglip_vision_model": "siglip",
}
_SERVED_ELSEWHERE = {"internvl_chat": "the same model is published in the library's form too, in folders named -hf"}
_log = logging.getLogger(__name__)


def find(name: str, model: Path) -> type[Encoder[Any]]:
    """Give the encoder class registered as `name`, or, for `Auto`, for the model_type in `model`'s config.json.

    Raises RefusedError naming what was asked for and what there is.
    """
    entries = {entry.name: entry for entry in entry_points(group=GROUP)}
    present = ", ".join(sorted(entries)) or "none"
    if name == AUTO:
        content = read_json(model, "config.json")
        wanted = _family(content)
        if wanted not in entries:
            raise RefusedError(f"config.json: no encoder for {_unknown(content)}; there are: {present}")
    else:
        wanted = name
        if wanted not in entries:
            raise RefusedError(f"no encoder is registered as {name!r}; there are: {present}")
    if _is_ours(entries[wanted]):
        _refuse_another_family(wanted, entries, read_json(model, "config.json"))
    try:
        return cast("type[Encoder[Any]]", entries[wanted].load())
    except (ImportError, AttributeError) as error:
        _log.exception("encoder %s could not be imported", wanted)
        raise RefusedError(f"encoder {wanted!r} is registered but could not be imported") from error


def _family(content: Mapping[str, object]) -> str:
    """Give the entry point's name for the model_type of a config.json."""
    model_type, section = content.get("model_type"), content.get("vision_config")
    if model_type == "llava" and isinstance(section, dict) and section.get("model_type") == "pixtral":
        return "pixtral"
    return _ENTRY_BY_MODEL_TYPE.get(str(model_type), str(model_type))


def _unknown(content: Mapping[str, object]) -> str:
    """Say what model_type it is that no encoder takes, and what is known of it."""
    model_type = str(content.get("model_type"))
    said = f"model_type {model_type!r}"
    if content.get("auto_map"):
        said += ", whose code is the checkpoint's own (auto_map) and is never run"
    if model_type in _SERVED_ELSEWHERE:
        said += f" ({_SERVED_ELSEWHERE[model_type]})"
    return said


def _is_ours(entry: EntryPoint) -> bool:
    return entry.value.startswith("encoder_server.encoders.")


def _refuse_another_family(wanted: str, entries: Mapping[str, EntryPoint], content: Mapping[str, object]) -> None:
    """Raise RefusedError where a config.json is of another family of this package than the encoder `wanted`, or names
    code of its own: what that computes is not known.

    An encoder of a user's own package takes what it likes; of a model_type that nobody knows the tensors will tell.
    """
    refuse_own_code(content, "config.json")
    own = _family(content)
    if own in entries and _is_ours(entries[own]) and own != wanted.removesuffix("_pooled"):
        said = f"config.json: model_type {content.get('model_type')!r}"
        raise RefusedError(f"{said} is for the encoder {own!r}, not for {wanted!r}")
