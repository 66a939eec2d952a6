"""Every family of audio: the library's rows, whoever shares the batch, from the tower's tensors alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from encoder_server.encoders import UnfitMediaError
from encoder_server.encoders.audio_towers import through
from encoder_server.engine.measure import settings_digest
from tests.support.families import CONFIG, WEIGHTS, WHOLE, Families, Tensors, rewrite, tensors
from tests.support.sounds import FAMILIES, RATE, SoundLibrary, load, rows, same, speech

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, 0.2 and more.
TOLERANCE = 2e-5
# Samples: a frame has 160. Around whole frames, both parities of the convolutions, the windows of a hundred frames.
LENGTHS = (641, 800, 15_840, 16_000, 16_161, 31_999, 48_161, 176_123, 480_000)
WINDOWED = ("qwen2_audio", "whisper")
TOWER = {"qwen2_audio": "audio_tower.", "qwen3_omni": "thinker.audio_tower.", "whisper": "model.encoder."}


@pytest.fixture(scope="session")
def encoder(families: Families) -> Callable[[str], Any]:
    return cache(lambda family: load(families.folder(family)))


@pytest.fixture(scope="session")
def library(families: Families) -> Callable[[str], SoundLibrary]:
    return cache(lambda family: SoundLibrary(families.folder(family), family))


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_the_library_alone_and_in_a_batch_of_any_order(
    encoder: Callable[[str], Any], library: Callable[[str], SoundLibrary], family: str
) -> None:
    sounds = [speech(length, seed) for seed, length in enumerate(LENGTHS)]
    promised = [item.tokens for item in encoder(family).preprocess(sounds)]
    alone = [rows(encoder(family), sound)[0] for sound in sounds]
    assert [len(made) for made in alone] == promised
    assert same(alone, [library(family).rows(sound) for sound in sounds], TOLERANCE)
    assert same(rows(encoder(family), *sounds), alone, TOLERANCE)
    assert same(rows(encoder(family), *sounds[::-1]), alone[::-1], TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_sounds_of_other_content_get_other_rows_and_the_same_one_the_same(
    encoder: Callable[[str], Any], family: str
) -> None:
    one, other, again = (rows(encoder(family), speech(16_000, seed))[0] for seed in (1, 2, 1))
    assert numpy.abs(one - other).max() > 500 * TOLERANCE
    assert numpy.array_equal(one, again)


@pytest.mark.parametrize("family", WINDOWED)
def test_as_many_rows_are_promised_as_the_convolutions_make_of_every_number_of_frames(
    encoder: Callable[[str], Any], family: str
) -> None:
    tower = encoder(family)
    least = {"qwen2_audio": 3, "whisper": 1}[family]
    assert [tower.rows(frames) for frames in range(least, 3001)] == [
        tower.promise(frames) for frames in range(least, 3001)
    ]
    layers = [tower._model.conv1, tower._model.conv2]
    if family == "qwen2_audio":
        layers.append(tower._model.avg_pooler)
    for frames in range(least, 24):
        made = torch.zeros(tower._window[0], frames)
        for layer in layers:
            made = layer(made)
        assert made.shape[-1] == through(frames, *layers) == tower.promise(frames)


@pytest.mark.parametrize("seconds", [1, 2, 3, 4, 5, 8, 9, 16, 30, 35])
def test_qwen3_omni_makes_the_rows_it_promises_around_every_second_and_has_no_longest_sound(
    encoder: Callable[[str], Any], seconds: int
) -> None:
    sounds = [speech(seconds * RATE + step, seconds) for step in (-161, -160, -1, 0, 159, 160)]
    features = encoder("qwen3_omni").preprocess(sounds)
    assert [item.grid for item in features] == [(len(sound.samples) // 160,) for sound in sounds]
    alone = [encoder("qwen3_omni").encode([item])[0] for item in features]
    assert [len(made) for made in alone] == [item.tokens for item in features]
    together = encoder("qwen3_omni").encode(features)
    assert same([made.numpy() for made in together], [made.numpy() for made in alone], TOLERANCE)


def test_qwen3_omni_makes_the_rows_it_promises_of_every_length_within_its_first_window(
    encoder: Callable[[str], Any],
) -> None:
    features = encoder("qwen3_omni").preprocess([speech(max(201, frames * 160), frames) for frames in range(1, 104)])
    alone = [encoder("qwen3_omni").encode([item])[0] for item in features]
    assert [len(made) for made in alone] == [item.tokens for item in features]
    # Beside a longer one, the library would fill up their windows.
    together = encoder("qwen3_omni").encode(features)
    assert same([made.numpy() for made in together], [made.numpy() for made in alone], TOLERANCE)


def test_the_numbers_of_tokens_are_the_published_ones(encoder: Callable[[str], Any]) -> None:
    """Samples to tokens, as SGLang and the library's processors count them."""
    known = {"whisper": {480_000: 1500, 48_000: 150}, "qwen2_audio": {480_000: 750}, "qwen3_omni": {1234 * 160: 161}}
    for family, counts in known.items():
        made = encoder(family).preprocess([speech(samples) for samples in counts])
        assert [item.tokens for item in made] == list(counts.values())


@pytest.mark.parametrize("family", WINDOWED)
def test_a_sound_longer_than_the_window_is_refused_with_the_limit_and_never_cut(
    encoder: Callable[[str], Any], family: str
) -> None:
    for samples, said in ((480_001, "30.000"), (560_000, "35.000")):
        with pytest.raises(UnfitMediaError, match=f"{said} s of audio: more than 30 s"):
            encoder(family).preprocess([speech(samples)])


@pytest.mark.parametrize(("family", "least"), [("whisper", 1), ("qwen2_audio", 321), ("qwen3_omni", 201)])
def test_a_sound_too_short_for_one_token_is_refused_with_what_one_takes(
    encoder: Callable[[str], Any], family: str, least: int
) -> None:
    for samples in {0, least - 1}:
        with pytest.raises(UnfitMediaError, match=f"^{samples} samples at 16000 Hz: one token takes {least}$"):
            encoder(family).preprocess([speech(samples)])
    (item,) = encoder(family).preprocess([speech(least)])
    assert [len(made) for made in encoder(family).encode([item])] == [item.tokens] == [1]


@pytest.mark.parametrize("family", FAMILIES)
def test_silence_has_finite_rows_of_its_own(encoder: Callable[[str], Any], family: str) -> None:
    loud, silent = speech(16_000), speech(16_000)
    silent.samples[:] = 0
    before, quiet, after = rows(encoder(family), loud)[0], rows(encoder(family), silent)[0], rows(encoder(family), loud)
    assert numpy.isfinite(quiet).all()
    assert numpy.abs(before - quiet).max() > 500 * TOLERANCE
    assert numpy.array_equal(before, after[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_keeps_the_weights_digest_and_stays_close(
    families: Families, encoder: Callable[[str], Any], family: str
) -> None:
    half = load(families.folder(family), dtype="bfloat16")
    told = half.describe()
    assert (told.weights, told.declared["audio"].dtype) == (encoder(family).describe().weights, "bfloat16")
    sound = speech(16_000)
    assert numpy.abs(rows(half, sound)[0] - rows(encoder(family), sound)[0]).mean() < 0.05


@pytest.mark.parametrize("family", FAMILIES)
def test_it_says_its_rate_and_what_its_promise_is_held_against(encoder: Callable[[str], Any], family: str) -> None:
    told = encoder(family).describe()
    assert told.sampling_rate == RATE
    assert told.declared["audio"].check == ("promise" if family == "qwen3_omni" else "self")
    assert told.declared["audio"].width == (64 if family == "whisper" else 48)
    assert told == encoder(family).describe()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_language_models_tensors_are_not_read(
    families: Families, encoder: Callable[[str], Any], family: str
) -> None:
    folder = families.copy(family)
    names = list(tensors(folder))
    own = (TOWER[family], "multi_modal_projector.")
    others = [name for name in names if not name.startswith(own)]
    assert others
    rewrite(folder, lambda held: {name: held[name] for name in names if name not in others})
    (folder / WEIGHTS).rename(folder / "tower.safetensors")
    place = dict.fromkeys(names, "tower.safetensors") | dict.fromkeys(others, "missing.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": place}))
    assert load(folder).describe() == encoder(family).describe()


def thinker(folder: Path) -> dict[str, Any]:
    content = json.loads((folder / CONFIG).read_text())
    inner: dict[str, Any] = content.get("thinker_config", content)
    return inner


@pytest.mark.parametrize("family", ["qwen3_omni", "whisper"])
def test_a_tower_alone_is_the_same_tower(families: Families, encoder: Callable[[str], Any], family: str) -> None:
    folder = families.copy(family)
    content = thinker(folder)
    (folder / CONFIG).write_text(json.dumps(content.get("audio_config", content)))
    prefix = TOWER[family]

    def strip(held: Tensors) -> Tensors:
        return {name.removeprefix(prefix): held[name] for name in held if name.startswith(prefix)}

    rewrite(folder, strip)
    assert load(folder).describe() == encoder(family).describe()


def test_qwen3_omnis_thinker_alone_is_the_same_tower(families: Families, encoder: Callable[[str], Any]) -> None:
    folder = families.copy("qwen3_omni")
    (folder / CONFIG).write_text(json.dumps(thinker(folder)))
    rewrite(folder, lambda held: {name.removeprefix("thinker."): held[name] for name in held})
    assert load(folder).describe() == encoder("qwen3_omni").describe()


def test_qwen2_audios_tower_alone_gives_its_own_rows(families: Families, encoder: Callable[[str], Any]) -> None:
    folder = families.copy("qwen2_audio")
    (folder / CONFIG).write_text(json.dumps(thinker(folder)["audio_config"]))
    projector = tensors(folder)
    rewrite(folder, lambda held: {name.removeprefix("audio_tower."): held[name] for name in held if "tower" in name})
    alone, sound = load(folder), speech(16_000)
    assert alone.describe().declared["audio"].width == 64
    weight, bias = (projector[f"multi_modal_projector.linear.{name}"].numpy() for name in ("weight", "bias"))
    assert same([rows(alone, sound)[0] @ weight.T + bias], rows(encoder("qwen2_audio"), sound), TOLERANCE)


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_library_itself_saves_is_the_same_checkpoint(
    families: Families, encoder: Callable[[str], Any], library: Callable[[str], SoundLibrary], family: str
) -> None:
    folder = families.copy(family)
    (folder / WEIGHTS).unlink()
    library(family).save(folder)
    saved, made, sound = load(folder), encoder(family), speech(20_000)
    assert saved.describe().weights == made.describe().weights
    assert settings_digest(saved.describe().config) == settings_digest(made.describe().config)
    assert numpy.array_equal(rows(saved, sound)[0], rows(made, sound)[0])


@pytest.mark.parametrize("family", FAMILIES)
def test_the_settings_may_be_a_section_of_the_whole_processors_file(
    families: Families, encoder: Callable[[str], Any], family: str
) -> None:
    folder = families.copy(family)
    file = folder / "preprocessor_config.json"
    (folder / WHOLE).write_text(json.dumps({"feature_extractor": json.loads(file.read_text())}))
    file.unlink()
    assert load(folder).describe() == encoder(family).describe()


def test_whispers_tensors_without_a_head_that_writes_text_are_found_too(
    families: Families, encoder: Callable[[str], Any]
) -> None:
    folder = families.copy("whisper")
    rewrite(folder, lambda held: {name.removeprefix("model."): held[name] for name in held})
    assert load(folder).describe() == encoder("whisper").describe()
