"""Every family: the library's rows, whoever shares the batch, from the tower's tensors alone."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy
import pytest
import torch
import transformers

from encoder_server.engine.messages import Measured
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import picture, prepare
from tests.support.families import (
    CONFIG,
    FAMILIES,
    IMAGE,
    POOLED,
    WEIGHTS,
    WITH_VIDEO,
    Families,
    Tensors,
    of_pictures,
    rewrite,
    tensors,
)
from tests.support.library import Library

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, 0.2 and more.
TOLERANCE = 2e-5
SIZES = [(56, 56), (112, 84), (1, 1), (61, 173), (28, 300), (200, 150), (313, 91), (56, 56)]
ODD = [(1, 1), (1, 2), (3, 150), (200, 1), (1, 200), (27, 29), (313, 1), (1, 313), (639, 31), (2000, 3)]
ENCODERS = {
    "clip": "ClipEncoder",
    "dinov2": "Dinov2Encoder",
    "glm4v": "Glm4vEncoder",
    "internvl": "InternVLEncoder",
    "llava": "LlavaEncoder",
    "pixtral": "PixtralEncoder",
    "qwen2_5_vl": "Qwen25VLEncoder",
    "qwen2_vl": "Qwen2VLEncoder",
    "qwen3_vl": "Qwen3VLEncoder",
    "siglip": "SiglipEncoder",
    "siglip2": "Siglip2Encoder",
}
CHECKED_AGAINST_ITSELF = {"dinov2"}
# How a tower that is published alone says what it is, and what it leaves off its tensors' names.
BARE = {
    "clip": ("clip_vision_model", "vision_model."),
    "glm4v": ("glm4v_vision", "model.visual."),
    "qwen2_5_vl": ("qwen2_5_vl_vision", "visual."),
    "qwen2_vl": ("qwen2_vl_vision", "visual."),
    "qwen3_vl": ("qwen3_vl_vision", "model.visual."),
    "siglip": ("siglip_vision_model", "vision_model."),
    "siglip2": ("siglip2_vision_model", "vision_model."),
}
SIGLIP_EXPANSION = {"vision_feature_select_strategy": "full", "num_additional_image_tokens": None}
LANGUAGE = ("model.embed_tokens", "model.norm", "model.language_model", "lm_head", "language_model", "text_", "logit_")


def measure(folder: Path, *, encoder: str = "Auto", dtype: str = "auto") -> Measured:
    return Pipeline.load(folder, encoder=encoder, dtype=dtype).measure()


@pytest.mark.parametrize("family", FAMILIES)
def test_auto_finds_the_family_and_its_probe_passes(families: Families, family: str) -> None:
    measured = families.pipeline(family).measure()
    assert measured.classes["encoder"] == ENCODERS[family]
    assert [item.result for item in of_pictures(measured)] == ["ok"] * 5
    assert {item.modality for item in measured.probe} == measured.declared.keys()
    assert ("video" in measured.declared) == (family in WITH_VIDEO)
    assert (measured.declared["image"].check == "self") == (family in CHECKED_AGAINST_ITSELF)


@pytest.mark.parametrize("family", FAMILIES)
def test_rows_are_those_of_the_library_alone_and_in_a_batch_of_any_order(families: Families, family: str) -> None:
    pipeline, library = families.pipeline(family), families.library(family)
    pictures = [picture(*size) for size in SIZES]
    truth = [library.rows(data) for data in pictures]
    for order in (list(range(len(SIZES))), list(reversed(range(len(SIZES))))):
        prepared = prepare(pipeline, *(pictures[at] for at in order))
        embeddings, failures = pipeline.encode(prepared)
        assert not failures
        for at, promise, embedding in zip(order, prepared.promises, embeddings, strict=True):
            alone = pipeline.rows(pictures[at])
            assert embedding.rows.shape == alone.shape == truth[at].shape
            assert len(alone) == promise.tokens
            assert numpy.abs(embedding.rows.numpy() - alone).max() < TOLERANCE
            assert numpy.abs(alone - truth[at]).max() < TOLERANCE


@pytest.mark.parametrize("family", POOLED)
def test_a_pooled_row_is_the_librarys_and_has_an_identity_of_its_own(families: Families, family: str) -> None:
    pipeline, library = families.pipeline(family, pooled=True), families.library(family)
    pictures = [picture(*size) for size in SIZES]
    embeddings, failures = pipeline.encode(prepare(pipeline, *pictures))
    assert not failures
    for data, embedding in zip(pictures, embeddings, strict=True):
        truth = library.pooled(data)
        assert embedding.rows.shape == truth.shape
        assert numpy.abs(embedding.rows.numpy() - truth).max() < TOLERANCE
    measured, by_patch = pipeline.measure(), families.pipeline(family).measure()
    assert (measured.declared["image"].check, {item.promised for item in measured.probe}) == ("self", {1})
    assert measured.classes["encoder"] != by_patch.classes["encoder"]


def test_pictures_of_other_content_get_other_rows(families: Families) -> None:
    for family in FAMILIES:
        pipeline = families.pipeline(family)
        one, other = pipeline.rows(picture(112, 112)), pipeline.rows(picture(113, 113))
        assert one.shape != other.shape or numpy.abs(one - other).max() > 0.1, family


@pytest.mark.parametrize("family", FAMILIES)
def test_odd_sizes_are_encoded_as_promised_or_refused_with_the_limit(families: Families, family: str) -> None:
    pipeline = families.pipeline(family)
    for size in ODD:
        prepared = prepare(pipeline, picture(*size))
        for refused in prepared.failures:
            assert (refused.code, max(size) > 200 * min(size)) == ("bad_media", True)
            assert refused.detail == f"{size[0]}x{size[1]}: the sides differ by more than 200 to 1"
        embeddings, failures = pipeline.encode(prepared)
        assert not failures
        assert all(item.finite and len(item.rows) == prepared.promises[0].tokens for item in embeddings)
    prepared = prepare(pipeline, *(picture(40 + step, 95 - 2 * step) for step in range(28)))
    embeddings, failures = pipeline.encode(prepared)
    assert not failures
    assert [len(item.rows) for item in embeddings] == [promise.tokens for promise in prepared.promises]


@pytest.mark.parametrize("family", FAMILIES)
def test_half_precision_keeps_the_exact_parts_and_passes_the_probe(families: Families, family: str) -> None:
    whole = families.pipeline(family).measure()
    half = measure(families.folder(family), dtype="bfloat16")
    assert (half.weights, half.processor) == (whole.weights, whole.processor)
    assert [item.result for item in of_pictures(half)] == ["ok"] * 5
    assert half.declared["image"].dtype == "bfloat16"
    data = picture(112, 84)
    close = Pipeline.load(families.folder(family), dtype="bfloat16").rows(data) - families.pipeline(family).rows(data)
    assert numpy.abs(close).mean() < 0.05


@pytest.mark.parametrize("family", sorted(set(FAMILIES) - {"dinov2"}))
def test_the_language_models_tensors_are_not_read(families: Families, family: str) -> None:
    folder = families.copy(family)
    names = list(tensors(folder))
    language = [name for name in names if name.startswith(LANGUAGE)]
    assert language
    rewrite(folder, lambda held: {name: held[name] for name in names if name not in language})
    (folder / WEIGHTS).rename(folder / "tower.safetensors")
    place = dict.fromkeys(names, "tower.safetensors") | dict.fromkeys(language, "missing.safetensors")
    (folder / f"{WEIGHTS}.index.json").write_text(json.dumps({"weight_map": place}))
    assert measure(folder) == families.pipeline(family).measure()


@pytest.mark.parametrize("family", BARE)
def test_a_tower_alone_is_the_same_tower(families: Families, family: str) -> None:
    model_type, prefix = BARE[family]
    folder = families.copy(family)
    section = json.loads((folder / CONFIG).read_text())["vision_config"]
    (folder / CONFIG).write_text(json.dumps({**section, "model_type": model_type}))

    def strip(held: Tensors) -> Tensors:
        return {name.removeprefix(prefix): tensor for name, tensor in held.items() if name.startswith(prefix)}

    rewrite(folder, strip)
    assert measure(folder) == families.pipeline(family).measure()


@pytest.mark.parametrize("family", FAMILIES)
def test_what_the_library_itself_saves_is_the_same_checkpoint(families: Families, family: str) -> None:
    folder = families.copy(family)
    (folder / WEIGHTS).unlink()
    families.library(family).save(folder)
    saved, made = Pipeline.load(folder), families.pipeline(family)
    assert saved.measure().weights == made.measure().weights
    assert numpy.array_equal(saved.rows(picture(112, 84)), made.rows(picture(112, 84)))


@pytest.mark.filterwarnings("ignore")
def test_dinov2_with_gated_layers_and_a_classifier_gives_the_librarys_rows(families: Families) -> None:
    folder = families.copy("dinov2")
    (folder / WEIGHTS).unlink()
    content = json.loads((folder / CONFIG).read_text()) | {"use_swiglu_ffn": True}
    model = transformers.Dinov2ForImageClassification(transformers.Dinov2Config.from_dict(content))
    model.save_pretrained(folder)
    ours, truth = Pipeline.load(folder).rows(picture(112, 84)), Library(folder, "dinov2").rows(picture(112, 84))
    assert numpy.abs(ours - truth).max() < TOLERANCE


def test_llava_with_siglips_tower_gives_the_librarys_rows(families: Families) -> None:
    folder = families.copy("llava", {"processor_config.json": SIGLIP_EXPANSION})
    (folder / WEIGHTS).unlink()
    content = json.loads((folder / CONFIG).read_text()) | {"vision_feature_select_strategy": "full"}
    content["vision_config"] |= {"model_type": "siglip_vision_model", "vision_use_head": False}
    model = transformers.LlavaForConditionalGeneration(transformers.LlavaConfig.from_dict(content))
    model.save_pretrained(folder)
    pipeline = Pipeline.load(folder)
    assert [item.result for item in pipeline.measure().probe] == ["ok"] * 5
    truth = Library(folder, "llava").rows(picture(112, 84))
    assert numpy.abs(pipeline.rows(picture(112, 84)) - truth).max() < TOLERANCE


@pytest.mark.parametrize("family", ["internvl", "llava", "pixtral"])
def test_the_promise_is_as_many_places_as_the_librarys_processor_writes_into_a_prompt(
    families: Families, family: str
) -> None:
    pipeline, library = families.pipeline(family), families.library(family)
    settings = json.loads((families.folder(family) / "processor_config.json").read_text())
    tokens = {f"{name}token": "|" for name in ("image_break_", "image_end_", "start_image_", "end_image_")}
    whole = SimpleNamespace(**{"spatial_merge_size": 1, **settings, **tokens, "image_token": "#"})
    writes = getattr(transformers, settings["processor_class"]).replace_image_token
    for size in SIZES:
        (promise,) = prepare(pipeline, picture(*size)).promises
        assert writes(whole, library.processed(picture(*size)), 0).count("#") == promise.tokens


def test_llavas_own_processor_pads_to_a_square_up_to_a_limit(families: Families) -> None:
    changes = {IMAGE: {"image_processor_type": "LlavaImageProcessor", "do_pad": True}}
    folder = families.copy("llava", changes)
    pipeline, data = Pipeline.load(folder), picture(200, 150)
    assert numpy.abs(pipeline.rows(data) - Library(folder, "llava").rows(data)).max() < TOLERANCE
    (failure,) = prepare(pipeline, picture(8193, 50)).failures
    assert (failure.code, failure.detail) == ("bad_media", "a side of more than 8192 pixels")


def test_pixtrals_tower_alone_gives_its_own_rows(families: Families) -> None:
    folder = families.copy("pixtral")
    section = json.loads((folder / CONFIG).read_text())["vision_config"]
    (folder / CONFIG).write_text(json.dumps(section))
    prefix = "vision_tower."
    rewrite(folder, lambda held: {name.removeprefix(prefix): held[name] for name in held if name.startswith(prefix)})
    measured = measure(folder)
    assert measured.declared["image"].width == 64
    assert [(item.result, item.promised) for item in measured.probe] == [
        (item.result, item.promised) for item in families.pipeline("pixtral").measure().probe
    ]


def test_a_bare_clip_tower_pools_without_a_projection_unless_its_architecture_has_one(families: Families) -> None:
    folder = families.copy("clip")
    section = json.loads((folder / CONFIG).read_text())["vision_config"]
    for architecture, width in (("CLIPVisionModel", 64), ("CLIPVisionModelWithProjection", 48)):
        (folder / CONFIG).write_text(json.dumps({**section, "architectures": [architecture]}))
        assert measure(folder, encoder="clip_pooled").declared["image"].width == width


def test_llava_with_several_layers_and_the_class_token_gives_the_librarys_rows(families: Families) -> None:
    config = {"vision_feature_layer": [0, -2], "vision_feature_select_strategy": "full"}
    whole = {"vision_feature_select_strategy": "full"}
    folder = families.copy("llava", {CONFIG: config, "processor_config.json": whole})

    def widen(held: Tensors) -> Tensors:
        name = "multi_modal_projector.linear_1.weight"
        return {**held, name: torch.cat([held[name], -held[name].flip(0)], dim=1)}

    rewrite(folder, widen)
    pipeline, data = Pipeline.load(folder), picture(200, 150)
    assert pipeline.rows(data).shape == (37, 48)
    assert numpy.abs(pipeline.rows(data) - Library(folder, "llava").rows(data)).max() < TOLERANCE


def test_the_settings_may_be_a_section_of_the_whole_processors_file(families: Families) -> None:
    for family in ("llava", "clip", "qwen3_vl"):
        folder = families.copy(family)
        whole = folder / "processor_config.json"
        content = json.loads(whole.read_text()) if whole.exists() else {}
        content["image_processor"] = json.loads((folder / IMAGE).read_text())
        whole.write_text(json.dumps(content))
        (folder / IMAGE).unlink()
        assert measure(folder) == families.pipeline(family).measure()


def test_qwen3_vls_rows_hold_the_merged_features_first_then_each_deepstack_layers(families: Families) -> None:
    rows = families.pipeline("qwen3_vl").rows(picture(112, 84))
    assert rows.shape[1] == families.pipeline("qwen3_vl").measure().declared["image"].width == 3 * 48
    fewer = families.copy("qwen3_vl", {})
    content = json.loads((fewer / CONFIG).read_text())
    content["vision_config"]["deepstack_visual_indexes"] = []
    (fewer / CONFIG).write_text(json.dumps(content))
    rewrite(fewer, lambda held: {name: held[name] for name in held if "deepstack" not in name})
    assert numpy.abs(Pipeline.load(fewer).rows(picture(112, 84)) - rows[:, :48]).max() < TOLERANCE


def test_pixtral_says_that_a_batch_never_pays(families: Families) -> None:
    assert families.pipeline("pixtral").batch_budget == 0
    assert families.pipeline("clip").batch_budget > 0
