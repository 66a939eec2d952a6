"""The measured identity: what changes it, what does not, and what the golden probe sees."""

from __future__ import annotations

import base64
import json
from dataclasses import replace
from pathlib import Path

import numpy
import pytest
import torch
from safetensors.torch import load_file, save_file

from encoder_server.checkpoint import make
from encoder_server.encoders import Description
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine.messages import Measured
from encoder_server.engine.pipeline import Pipeline
from encoder_server.identity import difference, fingerprint
from tests.support.encoders import Variant, pipeline_of
from tests.support.families import of_pictures

PROCESSOR = "preprocessor_config.json"


def measure(folder: Path, processor: Path | None = None) -> Measured:
    return Pipeline.load(folder, processor=processor).measure()


def distance_per_mille(left: Measured, right: Measured) -> float:
    ours, theirs = (numpy.frombuffer(base64.b64decode(measured.signature or ""), "<f4") for measured in (left, right))
    return float(1000 * numpy.linalg.norm(ours - theirs) / numpy.linalg.norm(theirs))


def results(measured: Measured) -> list[tuple[str, int | None, int | None]]:
    return [(item.result, item.promised, item.produced) for item in measured.probe]


def counts(measured: Measured) -> list[tuple[tuple[int, ...] | None, int | None]]:
    return [(item.grid, item.promised) for item in measured.probe]


@pytest.fixture(scope="module")
def healthy(pipeline: Pipeline) -> Measured:
    return pipeline.measure()


def test_a_healthy_checkpoint_passes_its_probe_of_odd_and_even_grids(healthy: Measured) -> None:
    assert results(healthy) == [("ok", tokens, tokens) for tokens in (4, 16, 15, 12, 35, 4, 15, 36)]
    assert healthy.classes == {
        "encoder": "Qwen25VLEncoder",
        "model": "Qwen2_5_VisionTransformerPretrainedModel",
        "processor": "Qwen2VLImageProcessor",
        "video_processor": "Qwen2VLVideoProcessor",
    }
    assert (healthy.declared["image"].width, healthy.declared["image"].check) == (64, "promise")
    assert {"torch", "torchvision", "transformers", "pillow", "python", "dtype", "device"} <= healthy.advisory.keys()


def test_measuring_again_measures_the_same(pipeline: Pipeline, healthy: Measured) -> None:
    assert pipeline.measure() == healthy


def test_a_processor_that_merges_by_4_fails_the_probe_by_count(healthy: Measured, variant: Variant) -> None:
    drifted = measure(variant(PROCESSOR, merge_size=4))
    assert {item.result for item in of_pictures(drifted)} == {"count"}
    assert ("count", 4, 16) in results(drifted)
    assert drifted.processor != healthy.processor
    assert drifted.weights == healthy.weights
    assert drifted.signature is None


def test_a_processor_that_merges_by_1_fails_the_probe(variant: Variant) -> None:
    assert {item.result for item in of_pictures(measure(variant(PROCESSOR, merge_size=1)))} <= {"count", "layout"}


@pytest.mark.parametrize("geometry", [{"patch_size": 16}, {"temporal_patch_size": 1}, {"temporal_patch_size": 4}])
def test_another_patch_than_the_models_starts_and_fails_the_probe_as_layout(
    variant: Variant, geometry: dict[str, int]
) -> None:
    drifted = measure(variant(PROCESSOR, **geometry))
    assert {item.result for item in of_pictures(drifted)} == {"layout"}
    assert all(item.promised and item.produced is None for item in of_pictures(drifted))


@pytest.mark.parametrize("limits", [{"max_pixels": 500_000}, {"min_pixels": 28 * 28}])
def test_other_pixel_limits_change_the_processor_digest_while_the_probe_passes(
    healthy: Measured, variant: Variant, limits: dict[str, int]
) -> None:
    drifted = measure(variant(PROCESSOR, **limits))
    assert {item.result for item in drifted.probe} == {"ok"}
    assert drifted.processor != healthy.processor
    assert (drifted.weights, drifted.signature) == (healthy.weights, healthy.signature)


def test_pixel_limits_within_reach_of_the_probe_change_its_grids_too(healthy: Measured, variant: Variant) -> None:
    for limits in ({"max_pixels": 12_544}, {"min_pixels": 200 * 200}):
        drifted = measure(variant(PROCESSOR, **limits))
        assert {item.result for item in drifted.probe} == {"ok"}
        assert counts(drifted) != counts(healthy)


def test_the_same_limits_in_the_new_spelling_are_the_same_processor(healthy: Measured, variant: Variant) -> None:
    size = {"shortest_edge": 56 * 56, "longest_edge": 1_003_520}
    respelled = variant(PROCESSOR, min_pixels=None, max_pixels=None, size=size, processor_class=None, comment="x")
    assert measure(respelled).processor == healthy.processor


def test_another_normalisation_changes_digest_and_signature(healthy: Measured, variant: Variant) -> None:
    drifted = measure(variant(PROCESSOR, image_mean=[0.5, 0.5, 0.5]))
    assert drifted.processor != healthy.processor
    assert counts(drifted) == counts(healthy)
    assert distance_per_mille(drifted, healthy) > 10


def test_a_processor_from_another_folder_is_the_one_measured(checkpoint: Path, variant: Variant) -> None:
    other = variant(PROCESSOR, max_pixels=500_000)
    assert measure(checkpoint, processor=other).processor == measure(other).processor


def test_other_weights_change_digest_and_signature_and_no_count(healthy: Measured, tmp_path: Path) -> None:
    make(tmp_path / "other", seed=8)
    other = measure(tmp_path / "other")
    assert other.weights != healthy.weights
    assert distance_per_mille(other, healthy) > 500
    assert (other.processor, counts(other)) == (healthy.processor, counts(healthy))


def test_one_bit_of_one_weight_changes_the_digest(healthy: Measured, variant: Variant) -> None:
    folder = variant(PROCESSOR)
    tensors = load_file(folder / "model.safetensors")
    bits = tensors["visual.blocks.1.norm1.weight"].view(torch.int32)
    bits[5] ^= 1
    save_file(tensors, folder / "model.safetensors")
    touched = measure(folder)
    assert touched.weights != healthy.weights
    assert distance_per_mille(touched, healthy) < 0.1


def test_half_precision_of_the_same_weights_keeps_the_exact_parts(checkpoint: Path, healthy: Measured) -> None:
    half = Pipeline.load(checkpoint, dtype="bfloat16").measure()
    assert fingerprint(half) == fingerprint(healthy)
    assert 0 < distance_per_mille(half, healthy) < 30


@pytest.mark.parametrize(
    "changes",
    [
        {"num_heads": 2},
        {"window_size": 56},
        {"hidden_act": "gelu"},
        {"fullatt_block_indexes": [0]},
        {"rope_parameters": {"rope_type": "axial", "rope_theta": 1000.0}},
    ],
)
def test_other_arithmetic_with_the_same_weights_and_counts_changes_the_fingerprint(
    checkpoint: Path, healthy: Measured, variant: Variant, changes: dict[str, object]
) -> None:
    section = json.loads((checkpoint / "config.json").read_text())["vision_config"]
    drifted = measure(variant("config.json", vision_config={**section, **changes}))
    assert {item.result for item in drifted.probe} == {"ok"}
    assert (drifted.weights, drifted.processor, counts(drifted)) == (
        healthy.weights,
        healthy.processor,
        counts(healthy),
    )
    assert drifted.config != healthy.config
    assert fingerprint(drifted) != fingerprint(healthy)
    assert difference(healthy, drifted) == "another config than this server's"


def test_what_the_model_does_not_compute_with_changes_no_fingerprint(
    checkpoint: Path, healthy: Measured, variant: Variant
) -> None:
    section = json.loads((checkpoint / "config.json").read_text())["vision_config"]
    other = {"dtype": "bfloat16", "_name_or_path": "/elsewhere", "transformers_version": "4.50.0", "in_chans": 3}
    same = measure(variant("config.json", vision_config={**section, **other, "initializer_range": 0.5}))
    assert fingerprint(same) == fingerprint(healthy)


def test_an_encoder_of_ones_own_states_what_it_computes_with(checkpoint: Path) -> None:
    class Windowed(Qwen25VLEncoder):
        def describe(self) -> Description:
            return replace(super().describe(), config={"window": self.window})

        window = 3

    narrow = pipeline_of(checkpoint, Windowed).measure()
    Windowed.window = 4
    assert difference(narrow, pipeline_of(checkpoint, Windowed).measure()) == "another config than this server's"


def test_a_tower_alone_and_one_under_another_prefix_have_the_same_weights(
    checkpoint: Path, healthy: Measured, variant: Variant
) -> None:
    tensors = load_file(checkpoint / "model.safetensors")
    tower = {key: value for key, value in tensors.items() if key.startswith("visual.")}
    section = json.loads((checkpoint / "config.json").read_text())["vision_config"]
    alone = variant(PROCESSOR)
    (alone / "config.json").write_text(json.dumps({**section, "model_type": "qwen2_5_vl_vision"}))
    save_file({key.removeprefix("visual."): value for key, value in tower.items()}, alone / "model.safetensors")
    assert measure(alone) == healthy
    nested = variant(PROCESSOR)
    save_file({f"model.{key}": value for key, value in tower.items()}, nested / "model.safetensors")
    assert measure(nested) == healthy


def test_a_checkpoint_without_its_language_models_files_serves_for_they_are_not_read(
    checkpoint: Path, healthy: Measured, variant: Variant
) -> None:
    folder = variant(PROCESSOR)
    (folder / "model.safetensors").unlink()
    tensors = load_file(checkpoint / "model.safetensors")
    names = sorted(key for key in tensors if key.startswith("visual."))
    place = {key: "language.safetensors" for key in tensors if not key.startswith("visual.")}
    for part, keys in enumerate((names[:9], names[9:])):
        file = f"model-{part}.safetensors"
        save_file({key: tensors[key] for key in keys}, folder / file)
        place.update(dict.fromkeys(keys, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": place}))
    assert measure(folder) == healthy
