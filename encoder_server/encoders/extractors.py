"""Feature extractors of audio: the settings in a checkpoint folder, made into the library's own extractor, and run.

Place: called by the audio families; what `processors` is to pictures. The extractor's attention mask says how many
frames of its output are of the sound and not of padding: that number is what a promise is made from.

Must never: resample (the Protocol's sounds have the extractor's rate already), cut a sound short without a word, or
bring a setting into line with the model's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import WhisperFeatureExtractor

from encoder_server.encoders import LayoutError, RefusedError, Sound, UnfitMediaError, read_json
from encoder_server.encoders.processors import Settings, as_settings, read_whole

_FILE = "preprocessor_config.json"
_CLASS = "WhisperFeatureExtractor"
# What decides frames, beside a window's length: none of it may be a default.
_GEOMETRY = ("feature_size", "hop_length", "n_fft", "sampling_rate")
_log = logging.getLogger(__name__)


def load(folder: Path, *needs: str) -> Any:
    """Load the extractor of a folder, whose settings must say `needs` too.

    Raises RefusedError naming the file, and the key at fault.
    """
    settings = _read(folder)
    settings.require("feature_extractor_type")
    name = settings.content["feature_extractor_type"]
    if name != _CLASS:
        raise RefusedError(f"{settings.file}: feature_extractor_type {str(name)!r} is not known")
    for key in (*_GEOMETRY, *needs):
        settings.whole(key)
    if settings.content.get("dither"):
        raise RefusedError(f"{settings.file}: dither is not 0: the same sound would give other rows each time")
    try:
        return WhisperFeatureExtractor.from_dict(settings.taken())
    except Exception as error:
        _log.exception("%s was not taken", settings.file)
        raise RefusedError(f"{settings.file}: the settings are not ones of {_CLASS}") from error


def effective(extractor: Any, *more: str) -> dict[str, object]:
    """Give the settings that decide what comes out, as they are after loading; `more` of them by name."""
    keys = sorted((*_GEOMETRY, "padding_side", "padding_value", *more))
    return {"class": type(extractor).__name__} | {key: getattr(extractor, key) for key in keys}


def refuse_short(extractor: Any, media: Sequence[Sound], least: int) -> None:
    """Raise UnfitMediaError for a sound of fewer than `least` samples, LayoutError for one of another rate."""
    rate = extractor.sampling_rate
    for sound in media:
        if sound.rate != rate:
            raise LayoutError(f"a sound at {sound.rate} Hz, the processor takes {rate} Hz")
        if sound.samples.size < least:
            raise UnfitMediaError(f"{sound.samples.size} samples at {rate} Hz: one token takes {least}")


def run(extractor: Any, media: Sequence[Sound], **options: object) -> list[tuple[torch.Tensor, int]]:
    """Run `extractor` on `media` as one batch; `options` are its own. For each: features (mel bins, frames), float32,
    and how many of the frames, the first ones, are the sound's.

    Raises LayoutError where it gave something else.
    """
    result = extractor(
        [sound.samples for sound in media],
        sampling_rate=extractor.sampling_rate,
        return_attention_mask=True,
        return_tensors="pt",
        **options,
    )
    features, masks = result["input_features"], result["attention_mask"]
    if len(features) != len(media) or masks.shape != (len(media), features.shape[-1]):
        raise LayoutError(f"{len(media)} sounds, features {tuple(features.shape)}, masks {tuple(masks.shape)}")
    frames = [int(mask.sum()) for mask in masks]
    if not all(bool(mask[:count].all()) for mask, count in zip(masks, frames, strict=True)):
        raise LayoutError("the processor pads a sound before its end")
    return list(zip(features, frames, strict=True))


def _read(folder: Path) -> Settings:
    """Read its settings: a section of processor_config.json, or preprocessor_config.json."""
    whole = read_whole(folder)
    nested = whole.content.get("feature_extractor")
    if isinstance(nested, dict):
        return as_settings(whole.file, nested)
    return as_settings(_FILE, read_json(folder, _FILE))
