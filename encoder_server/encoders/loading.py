"""From a checkpoint folder to a tower in memory: configuration, weights, dtype, and what is told of them.

Place: called by a family's `load` and `describe`, after `weights` has read the tensors.

Must never: let a model out with a tensor that the checkpoint has not (the library fills one with random numbers,
and says so), cast a buffer (the angles of positions stay float32, as the library loads them), or reach for a network.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from huggingface_hub.errors import StrictDataclassFieldValidationError
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.utils import logging as library_logging

from encoder_server.encoders import Description, RefusedError, Source, progress, read_json
from encoder_server.encoders.convolutions import widen
from encoder_server.encoders.weights import Tower, refuse, refuse_quantised, require
from encoder_server.engine.messages import Declared

TOGETHER = 16
"""Pictures or tiles of one size in one run of a tower: beyond it a batch gains nothing and costs memory."""

# What a tower computes with beside its weights, in whatever family. By name, because a release of the library adds
# to what a configuration holds, and the same tower must keep its fingerprint.
_ARITHMETIC = (
    "activation_function",
    "attention_bias",
    "deepstack_visual_indexes",
    "depth",
    "embed_dim",
    "fullatt_block_indexes",
    "head_dim",
    "hidden_act",
    "hidden_size",
    "image_size",
    "in_channels",
    "intermediate_size",
    "layer_norm_eps",
    "max_source_positions",
    "mlp_ratio",
    "n_window",
    "n_window_infer",
    "norm_type",
    "num_attention_heads",
    "num_channels",
    "num_heads",
    "num_hidden_layers",
    "num_mel_bins",
    "num_patches",
    "num_position_embeddings",
    "out_hidden_size",
    "patch_size",
    "qkv_bias",
    "rms_norm_eps",
    "rope_parameters",
    "spatial_merge_size",
    "temporal_patch_size",
    "use_absolute_position_embeddings",
    "use_mean_pooling",
    "use_qk_norm",
    "use_swiglu_ffn",
    "window_size",
)
# What the whole model's configuration says of the way from the tower's hidden states to the rows.
_SELECTION = ("downsample_ratio", "projector_hidden_act", "vision_feature_layer", "vision_feature_select_strategy")
_log = logging.getLogger(__name__)


def is_bare(folder: Path, model_type: str) -> bool:
    """Say whether the folder holds a tower alone, as `model_type` says: else a language model is beside it."""
    return read_json(folder, "config.json").get("model_type") == model_type


def read_config(
    folder: Path,
    family: type[PreTrainedConfig],
    *,
    bare: Collection[str] = (),
    name: str,
    section: str = "vision_config",
    within: str = "",
) -> Any:
    """Read the tower's configuration: `section`, or the file itself for a model_type in `bare`.

    The section may lie in another, `within`. Raises RefusedError in the words "one of a `name` tower".
    """
    content = read_json(folder, "config.json")
    if isinstance(outer := content.get(within), dict):
        content = outer
    said = "config.json:"
    if content.get("model_type") not in bare:
        nested = content.get(section)
        if not isinstance(nested, dict):
            raise RefusedError(f"config.json: {section} is missing")
        content, said = nested, f"config.json: {section} is"
    # Published checkpoints carry the full model's model_type in the section too.
    settings = {key: value for key, value in content.items() if key != "model_type"}
    try:
        return family.from_dict(settings)
    except Exception as error:
        _log.exception("config.json was not taken")
        raise RefusedError(f"{said} not one of a {name} tower{_field(error)}") from error


def read_full_config(folder: Path, family: type[PreTrainedConfig], *, name: str, section: str = "vision_config") -> Any:
    """Read the whole model's configuration, where more than the tower's `section` decides what its rows are."""
    content = read_json(folder, "config.json")
    if not isinstance(content.get(section), dict):
        raise RefusedError(f"config.json: {section} is missing")
    try:
        return family.from_dict(content)
    except Exception as error:
        _log.exception("config.json was not taken")
        raise RefusedError(f"config.json: not one of a {name} model{_field(error)}") from error


def build(family: type[PreTrainedModel], config: PreTrainedConfig, tower: Tower, source: Source) -> Any:
    """Build the library's model with the tensors of `tower`, on the device and in the dtype of `source`.

    The library renames what older files call otherwise. Raises RefusedError naming the tensor at fault.
    """
    refuse_quantised(tower)
    dtype = dtype_of(source.dtype, tower)
    library_logging.disable_progress_bar()
    progress.tell("building")
    try:
        # Typed by the library as a model alone, whatever it is asked for.
        loaded: Any = family.from_pretrained(
            None,
            config=config,
            state_dict=dict(tower.tensors),
            dtype=dtype,
            output_loading_info=True,
            ignore_mismatched_sizes=True,
        )
    except Exception as error:
        _log.exception("the tower could not be built")
        raise RefusedError("config.json: no tower can be built from it") from error
    model, report = loaded
    refuse(report["missing_keys"], report["unexpected_keys"], report["mismatched_keys"])
    if torch.device(source.device).type == "cpu" and dtype.itemsize == 2:
        widen(model)
    return model.to(device=torch.device(source.device)).eval().requires_grad_(False)


def fill(module: torch.nn.Module, tower: Tower, source: Source, dtype: torch.dtype, *, prefix: str) -> Any:
    """Fill a projector, no model of the library's, with the tensors of `tower`, found under `prefix`, as `dtype`."""
    require(tower, module.state_dict(), prefix)
    module.load_state_dict(dict(tower.tensors))
    return module.to(dtype=dtype, device=torch.device(source.device)).eval().requires_grad_(False)


def dtype_of(name: str, tower: Tower) -> torch.dtype:
    """Give the dtype called `name`; `auto` is the one that most of the tower's numbers have."""
    if name == "auto":
        numbers: Counter[torch.dtype] = Counter()
        for tensor in tower.tensors.values():
            numbers[tensor.dtype] += tensor.numel()
        return max(numbers, key=numbers.__getitem__, default=torch.float32)
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise RefusedError(f"dtype {name!r} is not a floating point type")
    return dtype


def describe(
    encoder: object,
    model: Any,
    processor: Any,
    *,
    weights: str,
    settings: Mapping[str, object],
    width: int,
    check: Literal["promise", "self"] = "promise",
    joined: PreTrainedConfig | None = None,
    modality: str = "image",
    sampling_rate: int | None = None,
    max_seconds: float | None = None,
) -> Description:
    """Give the Description of an encoder of this package. What is added to an identity is added here.

    `width` is a row's, `check` what its promise is held against (see `Declared`).
    `joined` is the whole model's configuration, where rows are more than the tower's own hidden states.
    `sampling_rate` is of the audio that it takes, `max_seconds` how long a sound of it may be.
    """
    dtype = str(model.dtype).removeprefix("torch.")
    return Description(
        weights=weights,
        processor=settings,
        config=_stated(model.config, _ARITHMETIC) | _stated(joined, _SELECTION),
        classes={
            "encoder": type(encoder).__name__,
            "model": type(model).__name__,
            "processor": type(processor).__name__,
        },
        declared={modality: Declared(width=width, dtype=dtype, check=check, max_seconds=max_seconds)},
        together=True,
        dtype=dtype,
        device=str(model.device),
        sampling_rate=sampling_rate,
    )


def _field(error: Exception) -> str:
    """Name the setting that the library did not take, where it says which."""
    found = re.search(r"field '(\w+)'", str(error)) if isinstance(error, StrictDataclassFieldValidationError) else None
    return f": {found[1]}" if found else ""


def _stated(config: PreTrainedConfig | None, names: Sequence[str]) -> dict[str, object]:
    """Give those of `names` that `config` has, as the model was built with them."""
    return {name: getattr(config, name) for name in names if hasattr(config, name)}
