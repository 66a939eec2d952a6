"""What is wrong with a checkpoint of audio: refused by name where it cannot run, and seen item by item where it does;
what it computes with is in its fingerprint."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from encoder_server.encoders import LayoutError, RefusedError, Sound
from encoder_server.engine.measure import settings_digest
from encoder_server.engine.misfit import is_misfit
from tests.support.families import CONFIG, IMAGE, WHOLE, Families, Tensors, rewrite
from tests.support.sounds import FAMILIES, load, rows, speech

SETTINGS = IMAGE  # the one file holds the settings of pictures and of audio
Changes = Mapping[str, Mapping[str, Any]]


def settings(**keys: Any) -> Changes:
    return {SETTINGS: keys}


def tower(families: Families, family: str, **keys: Any) -> Path:
    """A copy of the family's checkpoint with settings of its tower changed."""
    content = json.loads((families.folder(family) / CONFIG).read_text())
    section = content.get("thinker_config", content)
    section.get("audio_config", section).update(keys)
    return families.copy(family, {CONFIG: content})


def refusal(folder: Path) -> str:
    with pytest.raises(RefusedError) as refused:
        load(folder)
    return str(refused.value)


@pytest.fixture(scope="session")
def encoder(families: Families) -> Callable[[str], Any]:
    return cache(lambda family: load(families.folder(family)))


@pytest.mark.parametrize(
    ("family", "changes", "named"),
    [
        ("whisper", settings(chunk_length=None), f"{SETTINGS}: chunk_length is missing or not a positive number"),
        ("whisper", settings(hop_length=0), f"{SETTINGS}: hop_length is missing or not a positive number"),
        ("qwen2_audio", settings(feature_size="all"), f"{SETTINGS}: feature_size is missing or not a positive number"),
        ("qwen3_omni", settings(sampling_rate=None), f"{SETTINGS}: sampling_rate is missing or not a positive number"),
        ("qwen3_omni", settings(n_fft=None), f"{SETTINGS}: n_fft is missing or not a positive number"),
        ("whisper", settings(hop_length=480_001), "hop_length is more than a whole window"),
        ("whisper", settings(dither=0.0001), f"{SETTINGS}: dither is not 0: the same sound would give other rows"),
        ("qwen2_audio", settings(feature_extractor_type=None), f"{SETTINGS}: feature_extractor_type is missing"),
        ("qwen3_omni", settings(feature_extractor_type="ClapFeatureExtractor"), "'ClapFeatureExtractor' is not known"),
        ("qwen2_audio", {CONFIG: {"audio_config": None}}, "config.json: audio_config is missing"),
        ("qwen3_omni", {CONFIG: {"thinker_config": {}}}, "config.json: audio_config is missing"),
        ("qwen2_audio", {CONFIG: {"text_config": 7}}, "config.json: not one of a Qwen2-Audio model"),
        ("whisper", {CONFIG: {"d_model": "wide"}}, "config.json: not one of a Whisper tower"),
    ],
)
def test_what_cannot_run_is_refused_by_its_name(families: Families, family: str, changes: Changes, named: str) -> None:
    assert named in refusal(families.copy(family, changes))


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"d_model": "wide"}, "config.json: audio_config is not one of a Qwen3-Omni audio tower: d_model"),
        # The library counts thirteen rows to a window of any length, and takes rows of the next for this one's.
        ({"n_window": 25}, "config.json: n_window is 25: 7 rows to a window, not 13"),
        ({"n_window": 100}, "config.json: n_window is 100: 25 rows to a window, not 13"),
        ({"n_window_infer": 50}, "config.json: n_window_infer is less than a window of 100 frames"),
    ],
)
def test_a_tower_that_the_library_would_run_wrongly_is_refused(
    families: Families, keys: dict[str, Any], named: str
) -> None:
    assert refusal(tower(families, "qwen3_omni", **keys)) == named


def test_a_window_of_qwen3_omnis_processor_that_is_no_number_is_refused(families: Families) -> None:
    folder = families.copy("qwen3_omni")
    (folder / WHOLE).write_text('{"n_window": 0}')
    assert refusal(folder) == f"{WHOLE}: n_window is missing or not a positive number"


@pytest.mark.parametrize("side", ["processor", "model"])
def test_qwen3_omnis_two_windows_are_held_against_each_other(families: Families, side: str) -> None:
    """Windows of 104 frames on one side: what was promised is not what comes out, beyond the first window."""
    folder = families.copy("qwen3_omni") if side == "processor" else tower(families, "qwen3_omni", n_window=52)
    if side == "processor":
        (folder / WHOLE).write_text('{"n_window": 52}')
    encoder = load(folder)
    features = encoder.preprocess([speech(frames * 160) for frames in (90, 250, 300, 301)])
    made = encoder.encode(features)
    assert [item.tokens == len(part) for item, part in zip(features, made, strict=True)] == [True, False, False, False]
    alone = [encoder.encode([item])[0] for item in features]
    assert [len(part) for part in alone] == [len(part) for part in made]


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("whisper", settings(chunk_length=20)),
        ("whisper", settings(feature_size=128)),
        ("whisper", settings(hop_length=320)),
        ("qwen2_audio", settings(chunk_length=35)),
        ("qwen2_audio", settings(feature_size=80)),
        ("qwen3_omni", settings(feature_size=80)),
    ],
)
def test_a_processor_that_does_not_fit_the_model_fails_every_item_as_layout(
    families: Families, family: str, changes: Changes
) -> None:
    encoder = load(families.copy(family, changes))
    encoder.warm_up()
    for sounds in ([speech(16_000)], [speech(16_000), speech(17_000)]):
        with pytest.raises(LayoutError, match=r"the processor gave .* the model takes "):
            encoder.encode(encoder.preprocess(sounds))


def test_a_processor_that_fills_up_before_a_sound_fails_every_item_as_layout(families: Families) -> None:
    encoder = load(families.copy("whisper", settings(padding_side="left")))
    with pytest.raises(LayoutError, match="the processor pads a sound before its end"):
        encoder.preprocess([speech(16_000)])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_sound_at_another_rate_than_the_processors_is_a_misfit(encoder: Callable[[str], Any], family: str) -> None:
    with pytest.raises(LayoutError, match="a sound at 24000 Hz, the processor takes 16000 Hz") as raised:
        encoder(family).preprocess([Sound(samples=numpy.zeros(24_000, dtype=numpy.float32), rate=24_000)])
    assert is_misfit(raised.value)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_of_another_rate_asks_for_it(
    families: Families, encoder: Callable[[str], Any], family: str
) -> None:
    other = load(families.copy(family, settings(sampling_rate=24_000, chunk_length=20, n_fft=600)))
    assert other.describe().sampling_rate == 24_000
    (made,) = rows(other, Sound(samples=speech(16_000).samples, rate=24_000))
    assert len(made) == len(rows(encoder(family), speech(16_000))[0])


TENSORS = {
    "qwen2_audio": "audio_tower.layers.1.fc1.weight",
    "qwen3_omni": "thinker.audio_tower.layers.1.fc1.weight",
    "whisper": "model.encoder.layers.1.fc1.weight",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tensor_that_is_missing_strange_misshapen_or_quantised_is_named(families: Families, family: str) -> None:
    name, short = TENSORS[family], "layers.1.fc1.weight"
    faults: dict[str, Callable[[torch.Tensor], Tensors]] = {
        f"weights: {short} is missing": lambda _: {},
        f"weights: {short}.more is not a tensor of this model": lambda held: {name: held, f"{name}.more": held.clone()},
        f"weights: {short} has shape (3, 5), config.json asks for": lambda _: {name: torch.ones(3, 5)},
        f"weights: {short} has dtype int8": lambda held: {name: held.to(torch.int8)},
    }
    for named, fault in faults.items():
        folder = families.copy(family)

        def change(held: Tensors, fault: Callable[[torch.Tensor], Tensors] = fault) -> Tensors:
            return {key: value for key, value in held.items() if key != name} | fault(held[name])

        rewrite(folder, change)
        assert refusal(folder).startswith(named)


def test_a_qwen2_audio_without_a_projector_or_a_tower_is_refused(families: Families) -> None:
    for part in ("audio_tower.", "multi_modal_projector."):
        folder = families.copy("qwen2_audio")
        rewrite(
            folder,
            lambda held, part=part: {name: held[name] for name in held if not name.startswith(part)},  # type: ignore[misc]
        )
        assert refusal(folder) == f"weights: {part}* is missing"


@pytest.mark.parametrize(
    ("family", "keys"),
    [
        ("qwen2_audio", {"encoder_attention_heads": 2}),
        ("qwen2_audio", {"activation_function": "relu"}),
        ("qwen3_omni", {"encoder_attention_heads": 2}),
        ("qwen3_omni", {"activation_function": "relu"}),
        ("qwen3_omni", {"n_window_infer": 100}),
        ("qwen3_omni", {"n_window": 49}),
        ("whisper", {"encoder_attention_heads": 2}),
        ("whisper", {"activation_function": "relu"}),
    ],
)
def test_other_arithmetic_of_a_tower_is_another_config(
    families: Families, encoder: Callable[[str], Any], family: str, keys: dict[str, Any]
) -> None:
    drifted, healthy = load(tower(families, family, **keys)), encoder(family)
    assert settings_digest(drifted.describe().config) != settings_digest(healthy.describe().config)
    assert drifted.describe().weights == healthy.describe().weights
    sound = speech(20 * 16_000)
    ours, theirs = rows(drifted, sound)[0], rows(healthy, sound)[0]
    assert ours.shape != theirs.shape or numpy.abs(ours - theirs).max() > 1e-3


@pytest.mark.parametrize("family", FAMILIES)
def test_path_dtype_and_what_no_model_computes_with_leave_the_config(
    families: Families, encoder: Callable[[str], Any], family: str
) -> None:
    elsewhere = {
        "_name_or_path": "/elsewhere",
        "attention_dropout": 0.25,
        "dropout": 0.25,
        "initializer_range": 0.5,
        "scale_embedding": True,
        "transformers_version": "4.50.0",
    }
    moved, healthy = load(tower(families, family, **elsewhere), dtype="bfloat16"), encoder(family)
    assert settings_digest(moved.describe().config) == settings_digest(healthy.describe().config)
    assert re.fullmatch("[0-9a-f]{64}", moved.describe().weights)
    assert moved.describe().weights == healthy.describe().weights


@pytest.mark.parametrize(
    ("family", "keys"),
    [
        ("whisper", {"hop_length": 320, "chunk_length": 60}),
        ("qwen2_audio", {"n_fft": 512}),
        ("qwen2_audio", {"padding_value": 0.1}),
        ("qwen3_omni", {"n_fft": 512}),
        ("qwen3_omni", {"hop_length": 320}),
    ],
)
def test_another_setting_of_the_processor_is_another_digest_of_it(
    families: Families, encoder: Callable[[str], Any], family: str, keys: dict[str, Any]
) -> None:
    drifted, healthy = load(families.copy(family, settings(**keys))), encoder(family)
    assert settings_digest(drifted.describe().processor) != settings_digest(healthy.describe().processor)
