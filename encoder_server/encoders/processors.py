"""Image processors: the settings in a checkpoint folder, made into the library's own processor.

Place: called by a family's `load`. What is read here is the side that promises; its effective settings are the
exact part `processor` of the identity.

Must never: bring a setting into line with the model's geometry, guess one that decides a count, or name a class
from the file that is no processor of the library.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.image_processing_backends import TorchvisionBackend

from encoder_server.encoders import (
    Clip,
    LayoutError,
    Picture,
    RefusedError,
    UnfitMediaError,
    read_json,
    refuse_own_code,
)

MAX_RATIO = 200
"""Longer side to shorter: Qwen's own rule, and what keeps a processor that holds a picture's shape in memory."""

_WHOLE = "processor_config.json"
_IMAGE = "preprocessor_config.json"
_CLASS_NOW = {"Qwen2_5_VLImageProcessor": "Qwen2VLImageProcessor"}  # files written before the release
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What the image processor's file says: `file` is the name to refuse by."""

    file: str
    content: Mapping[str, Any]

    def whole(self, key: str, *, least: int = 1) -> int:
        """Give the whole number under `key`; raises RefusedError where there is none of at least `least`."""
        value = self.content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            kind = "positive" if least else "whole"
            raise RefusedError(f"{self.file}: {key} is missing or not a {kind} number")
        return value

    def taken(self) -> dict[str, Any]:
        """Give what a processor is made with: all but where the one who saved it ran it."""
        return {key: value for key, value in self.content.items() if key != "device"}

    def require(self, *keys: str) -> None:
        """Raise RefusedError naming the first of `keys` that is missing."""
        for key in keys:
            if self.content.get(key) is None:
                raise RefusedError(f"{self.file}: {key} is missing")


def read_settings(folder: Path) -> Settings:
    """Read the image processor's settings: a section of processor_config.json, or preprocessor_config.json."""
    nested = read_whole(folder).content.get("image_processor")
    if isinstance(nested, dict):
        return as_settings(_WHOLE, nested)
    return as_settings(_IMAGE, read_json(folder, _IMAGE))


def read_whole(folder: Path, *, needed: bool = False) -> Settings:
    """Read what processor_config.json says of text and pictures together; nothing where there is no such file, unless
    it is `needed`."""
    return as_settings(_WHOLE, read_json(folder, _WHOLE) if needed or (folder / _WHOLE).is_file() else {})


def as_settings(file: str, content: Mapping[str, Any]) -> Settings:
    """Give the `content` of `file`; raises RefusedError where it names code of its own."""
    refuse_own_code(content, file)
    return Settings(file=file, content=content)


def make(settings: Settings, *, gives: Sequence[str], called: str) -> Any:
    """Make the processor that `settings` name; its class must give `gives` beside pixels, `called` so in a refusal."""
    name = class_name(settings)
    family = getattr(transformers, name, None)
    if not isinstance(family, type) or not issubclass(family, TorchvisionBackend):
        raise RefusedError(f"{settings.file}: image_processor_type {name!r} is not known")
    if not {"pixel_values", *gives} <= set(getattr(family, "model_input_names", ())):
        raise RefusedError(f"{settings.file}: image_processor_type {name!r} gives no {called}")
    try:
        return family.from_dict(settings.taken())
    except Exception as error:
        _log.exception("%s was not taken", settings.file)
        raise RefusedError(f"{settings.file}: the settings are not ones of {name}") from error


def make_fixed(settings: Settings) -> Any:
    """Make a processor that gives pixels alone, all pictures of one size; that size must be said, not defaulted."""
    processor = make(settings, gives=(), called="pixels")
    extra = set(processor.model_input_names) - {"pixel_values"}
    if extra:
        name = type(processor).__name__
        raise RefusedError(f"{settings.file}: image_processor_type {name!r} gives {min(extra)}, not pixels alone")
    if processor.do_resize:
        settings.require("size")
    if getattr(processor, "do_center_crop", False):
        settings.require("crop_size")
    return processor


def run(processor: Any, media: Sequence[Picture], *, gives: Sequence[str], **options: object) -> Mapping[str, Any]:
    """Run `processor` on `media` as one batch; `options` are its own.

    Raises LayoutError unless it gives pixels and, for each of `media`, an entry under each of `gives`.
    """
    # Said, not guessed: a picture one pixel high would else pass for one with its channels first.
    result: Mapping[str, Any] = processor(
        images=[torch.from_numpy(picture.pixels) for picture in media],
        input_data_format="channels_last",
        **options,
    )
    for key in gives:
        if key not in result or len(result[key]) != len(media):
            raise LayoutError(f"the processor gave no {key} for each of {len(media)} items")
    if "pixel_values" not in result:
        raise LayoutError("the processor gave no pixel_values")
    return result


def refuse_thin(media: Sequence[Picture | Clip]) -> None:
    """Raise UnfitMediaError for a picture or clip whose sides differ by more than MAX_RATIO to 1."""
    for medium in media:
        height, width, _ = (medium.frames if isinstance(medium, Clip) else medium.pixels).shape[-3:]
        if max(height, width) > MAX_RATIO * min(height, width):
            raise UnfitMediaError(f"{width}x{height}: the sides differ by more than {MAX_RATIO} to 1")


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


def class_name(settings: Settings) -> str:
    """Give the name that the image processor's class has now; raises RefusedError where none is said."""
    # The first published checkpoints have a feature extractor for pictures, and some say so under the later key.
    said = settings.content.get("image_processor_type") or settings.content.get("feature_extractor_type")
    if said is None:
        raise RefusedError(f"{settings.file}: image_processor_type is missing")
    name = str(said).removesuffix("Fast").replace("FeatureExtractor", "ImageProcessor")
    return _CLASS_NOW.get(name, name)
