"""Sounds for encoders in this process, and the library's truth on the same checkpoint, as it documents its use."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import torch
import transformers
from numpy.typing import NDArray
from transformers.utils import logging

from encoder_server.encoders import Encoder, Sound, Source
from encoder_server.encoders.registry import find

RATE = 16_000
_SPOKEN = 40 * RATE
FAMILIES = ("qwen2_audio", "qwen3_omni", "whisper")
Rows = NDArray[numpy.float32]

_MODELS = {
    "qwen2_audio": "Qwen2AudioForConditionalGeneration",
    "qwen3_omni": "Qwen3OmniMoeForConditionalGeneration",
    "whisper": "WhisperModel",
}


def speech(samples: int, seed: int = 0) -> Sound:
    """So many samples of a voice; another place in what it says for every `seed`."""
    start = seed * 7919 % (_SPOKEN - samples)
    return Sound(samples=_voice()[start : start + samples].copy(), rate=RATE)


@cache
def _voice() -> Rows:
    """Something like a voice: syllables of a gliding pitch's harmonics under two moving formants, and breath."""
    time = numpy.arange(_SPOKEN) / RATE
    pitch = 120 + 30 * numpy.sin(2 * numpy.pi * 0.7 * time) + 8 * numpy.sin(2 * numpy.pi * 5 * time)
    angle = 2 * numpy.pi * numpy.cumsum(pitch) / RATE
    voice = numpy.zeros(_SPOKEN)
    for harmonic in range(1, 25):
        centres = (500 + 250 * numpy.sin(3.1 * time), 1600 + 600 * numpy.sin(2.3 * time))
        weight = sum(numpy.exp(-(((harmonic * pitch - centre) / 180) ** 2)) for centre in centres)
        voice += (0.1 + weight) / harmonic * numpy.sin(harmonic * angle)
    syllables = numpy.clip(numpy.sin(2 * numpy.pi * 3.3 * time), 0, None) ** 0.5
    breath = numpy.random.default_rng(0).standard_normal(_SPOKEN)
    return (0.2 * syllables * voice + 0.005 * breath).astype(numpy.float32)


def load(folder: Path, dtype: str = "auto") -> Any:
    """The encoder of a checkpoint folder, found by its model_type."""
    torch.set_num_threads(1)
    return find("Auto", folder).load(Source(model=folder, processor=folder, device="cpu", dtype=dtype))


def rows(encoder: Encoder[Any], *sounds: Sound) -> list[Rows]:
    """The rows of sounds that share one batch."""
    return [made.float().numpy() for made in encoder.encode(encoder.preprocess(sounds))]


class SoundLibrary:
    """The checkpoint of `family` in `folder`, one sound at a time."""

    def __init__(self, folder: Path, family: str, *, dtype: str = "auto") -> None:
        logging.set_verbosity_error()
        logging.disable_progress_bar()
        self._family = family
        model, self.report = getattr(transformers, _MODELS[family]).from_pretrained(
            folder, local_files_only=True, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
        )
        self._model: Any = model.eval()
        self._extractor: Any = transformers.AutoFeatureExtractor.from_pretrained(folder, local_files_only=True)

    def save(self, folder: Path) -> None:
        """Write the model's weights and configuration as the library does."""
        self._model.save_pretrained(folder)

    def rows(self, sound: Sound) -> Rows:
        """A row of each token."""
        with torch.no_grad():
            made: torch.Tensor = getattr(self, f"_{self._family}")(sound)
        return made.float().numpy()

    def _extract(self, sound: Sound, **options: Any) -> tuple[torch.Tensor, torch.Tensor]:
        made = self._extractor(
            sound.samples, sampling_rate=sound.rate, return_attention_mask=True, return_tensors="pt", **options
        )
        return made["input_features"], made["attention_mask"]

    def _whisper(self, sound: Sound) -> torch.Tensor:
        features, mask = self._extract(sound)
        made: torch.Tensor = self._model.encoder(features).last_hidden_state[0]
        return made[: self._model._get_feat_extract_output_lengths(mask.sum())]

    def _qwen2_audio(self, sound: Sound) -> torch.Tensor:
        """What the language model is given in the places that a prompt has for the sound."""
        features, mask = self._extract(sound)
        tower, token = self._model.model.audio_tower, self._model.config.audio_token_index
        _, count = tower._get_feat_extract_output_lengths(mask.sum())
        given: list[torch.Tensor] = []
        hook = self._model.model.language_model.register_forward_pre_hook(
            lambda _, __, named: given.append(named["inputs_embeds"]), with_kwargs=True
        )
        prompt = torch.tensor([[1, *[token] * int(count), 2]])
        self._model(
            input_ids=prompt,
            attention_mask=torch.ones_like(prompt),
            input_features=features,
            feature_attention_mask=mask,
        )
        hook.remove()
        return given[0][0, 1:-1]

    def _qwen3_omni(self, sound: Sound) -> torch.Tensor:
        features, mask = self._extract(sound, padding=True, truncation=False)
        made: torch.Tensor = self._model.thinker.get_audio_features(features, mask).last_hidden_state
        return made


def same(ours: Sequence[Rows], theirs: Sequence[Rows], tolerance: float) -> bool:
    """Whether the rows are as many, and their numbers no further apart than `tolerance`."""
    return all(
        one.shape == other.shape and numpy.abs(one - other).max() < tolerance
        for one, other in zip(ours, theirs, strict=True)
    )
