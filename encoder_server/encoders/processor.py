"""Load the image processor of a Hugging Face checkpoint folder, and say what it really does.

Place: called by a family's `load` and `describe`. Its settings' digest is the exact part `processor` of the identity.

Must never: guess a setting that the folder does not state, or take a processor that gives no grids.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import transformers
from transformers.image_processing_backends import TorchvisionBackend

from encoder_server.encoders import RefusedError, read_json

_GEOMETRY = ("patch_size", "temporal_patch_size", "merge_size")
_CLASS_NOW = {"Qwen2_5_VLImageProcessor": "Qwen2VLImageProcessor"}  # files written before the release
_log = logging.getLogger(__name__)


def load_processor(folder: Path) -> TorchvisionBackend:
    """Return the processor that `folder` states; raises RefusedError naming the file and key."""
    file = "processor_config.json"
    settings = read_json(folder, file).get("image_processor") if (folder / file).is_file() else None
    if not isinstance(settings, dict):
        file = "preprocessor_config.json"
        settings = read_json(folder, file)
    for key in _GEOMETRY:
        value = settings.get(key)
        if not isinstance(value, int) or value < 1:
            raise RefusedError(f"{file}: {key} is missing or not a positive number")
    size = settings.get("size")
    limits = size if isinstance(size, dict) else {}
    if not {"min_pixels", "max_pixels"} <= settings.keys() and not {"shortest_edge", "longest_edge"} <= limits.keys():
        raise RefusedError(f"{file}: size or min_pixels and max_pixels are missing")
    name = str(settings.get("image_processor_type")).removesuffix("Fast")
    family = getattr(transformers, _CLASS_NOW.get(name, name), None)
    if not isinstance(family, type) or not issubclass(family, TorchvisionBackend):
        raise RefusedError(f"{file}: image_processor_type {name!r} is not known")
    if "image_grid_thw" not in getattr(family, "model_input_names", ()):
        raise RefusedError(f"{file}: image_processor_type {name!r} gives no grids")
    try:
        processor: TorchvisionBackend = family.from_dict(settings)
    except Exception as error:
        _log.exception("%s was not taken", file)
        raise RefusedError(f"{file}: the settings are not ones of {name}") from error
    return processor


def effective(processor: Any) -> dict[str, object]:
    """Give the settings that the processor really uses: the keys it knows, as they are after loading."""
    known = sorted(processor.valid_kwargs.__annotations__)
    settings = {key: getattr(processor, key, None) for key in known}
    settings = {
        key: dict(value) if isinstance(value, Mapping) else value
        for key, value in settings.items()
        if value is not None
    }
    return {"class": type(processor).__name__, "backend": processor.backend, **settings}
