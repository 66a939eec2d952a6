"""The drift catalogue of docs/drift.md, injected into real checkpoints, processors and encoders: what sees each row.

`held_for` gives the reason for which a replica with the drift is held, where a healthy one is expected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torchvision.transforms.v2 import functional  # type: ignore[import-untyped]
from transformers.image_processing_backends import TorchvisionBackend
from transformers.models.qwen2_vl import image_processing_qwen2_vl as library
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.video_processing_qwen3_vl import Qwen3VLVideoProcessor

from encoder_server.checkpoint import make
from encoder_server.encoders import Clip, Description, Features, Picture, RefusedError
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine.messages import Measured, Probed
from encoder_server.engine.pipeline import Pipeline
from encoder_server.identity import (
    Expected,
    Golden,
    Reference,
    begin,
    distance_per_mille,
    exact,
    fingerprint,
    gather,
    judge,
)
from tests.support.encoders import Variant, pipeline_of
from tests.support.families import CONFIG, IMAGE, Families, of_pictures, rewrite, tensors

TOLERANCE = 10
"""Per mille: a pool's default maxSignatureDistancePerMille."""


def expecting(healthy: Measured) -> Reference:
    expected = Expected(
        policy="Learn",
        revision="r",
        fingerprint=fingerprint(healthy),
        signature=healthy.signature,
        maxSignatureDistancePerMille=TOLERANCE,
    )
    return Reference(named=True, expected=expected)


def held_for(drifted: Measured, healthy: Measured) -> str:
    verdict = judge(drifted, begin(drifted), expecting(healthy))
    assert not verdict.admitted
    return verdict.reason


def changed(drifted: Measured, healthy: Measured) -> set[str]:
    """The exact parts in which they differ."""
    ours, theirs = exact(drifted), exact(healthy)
    return {name for name in ours if ours[name] != theirs[name]}


def results(measured: Measured) -> set[str]:
    return {item.result for item in measured.probe}


def measure(folder: Path) -> Measured:
    return Pipeline.load(folder).measure()


@pytest.fixture(scope="module")
def healthy(pipeline: Pipeline) -> Measured:
    measured = pipeline.measure()
    assert judge(measured, begin(measured), expecting(measured)).admitted
    return measured


# 1: preprocessor_config merge_size is not the model's spatial_merge_size


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v"])
@pytest.mark.parametrize("merge_size", [1, 4])
def test_a_processor_that_merges_otherwise_than_the_model_fails_the_probe(
    families: Families, family: str, merge_size: int
) -> None:
    drifted = measure(families.copy(family, {IMAGE: {"merge_size": merge_size}}))
    assert {item.result for item in of_pictures(drifted)} <= {"count", "layout"}
    assert held_for(drifted, families.pipeline(family).measure()) == "ProbeFailed"


# 2: patch_size differs; 3: temporal_patch_size differs


@pytest.mark.parametrize(
    "geometry", [{"patch_size": 16}, {"temporal_patch_size": 1}, {"temporal_patch_size": 4}], ids=str
)
def test_another_patch_than_the_models_fails_the_probe(
    variant: Variant, healthy: Measured, geometry: dict[str, int]
) -> None:
    drifted = measure(variant(IMAGE, **geometry))
    assert {item.result for item in of_pictures(drifted)} == {"layout"}
    assert held_for(drifted, healthy) == "ProbeFailed"


# 4: merge_size is missing


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v"])
def test_a_processor_without_a_merge_size_is_refused_by_name_though_the_library_has_a_default(
    families: Families, family: str
) -> None:
    with pytest.raises(RefusedError, match=r"^preprocessor_config\.json: merge_size is missing"):
        Pipeline.load(families.copy(family, {IMAGE: {"merge_size": None}}))


# 6: limits of pixels, the rule of resizing, do_resize

RESIZING: dict[str, Mapping[str, object]] = {
    "a higher limit": {"max_pixels": 2_000_000},
    "a lower limit": {"max_pixels": 500_000},
    "a lower minimum": {"min_pixels": 28 * 28},
    "the new spelling": {"min_pixels": None, "max_pixels": None, "size": {"shortest_edge": 3136, "longest_edge": 9**6}},
    "no resizing": {"do_resize": False},
}


@pytest.mark.parametrize("settings", RESIZING.values(), ids=RESIZING)
def test_another_setting_of_resizing_is_another_fingerprint_though_no_row_mismatches(
    variant: Variant, healthy: Measured, settings: dict[str, object]
) -> None:
    drifted = measure(variant(IMAGE, **settings))
    assert "processor" in changed(drifted, healthy)
    assert held_for(drifted, healthy) == ("ProbeFailed" if "do_resize" in settings else "FingerprintDrift")


honest_resize: Callable[..., tuple[int, int]] = library.smart_resize


def rounds_down(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    return max(factor, height // factor * factor), max(factor, width // factor * factor)


def rounds_up(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    return height // factor * factor + factor, width // factor * factor + factor


def has_no_minimum(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    return honest_resize(height, width, factor, factor * factor, max_pixels)


def has_another_limit(height: int, width: int, factor: int, min_pixels: int, max_pixels: int) -> tuple[int, int]:
    return honest_resize(height, width, factor, min_pixels, 2 * max_pixels)


@pytest.mark.parametrize("rule", [rounds_down, has_no_minimum, has_another_limit])
def test_another_rule_of_resizing_in_the_librarys_code_is_another_fingerprint_though_no_setting_tells(
    checkpoint: Path, healthy: Measured, monkeypatch: pytest.MonkeyPatch, rule: Callable[..., tuple[int, int]]
) -> None:
    monkeypatch.setattr(library, "smart_resize", rule)
    drifted = measure(checkpoint)
    assert results(drifted) == {"ok"}
    assert held_for(drifted, healthy) == "FingerprintDrift"


def test_another_rule_of_sampling_in_the_librarys_code_is_another_fingerprint_though_every_count_is_right(
    families: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = families.folder("qwen3_vl")
    healthy, honest = measure(folder), Qwen3VLVideoProcessor.sample_frames

    def earlier(self: Any, metadata: Any, **keys: Any) -> Any:
        chosen = honest(self, metadata, **keys)
        return (chosen - 1).clip(min=0)

    monkeypatch.setattr(Qwen3VLVideoProcessor, "sample_frames", earlier)
    drifted = measure(folder)
    assert drifted.probe == healthy.probe
    assert held_for(drifted, healthy) == "FingerprintDrift"


# 7: mean, std, rescale, channel order, interpolation, fast or slow

PIXELS: dict[str, dict[str, object]] = {
    "mean": {"image_mean": [0.5, 0.5, 0.5]},
    "std": {"image_std": [0.5, 0.5, 0.5]},
    "one channel's mean": {"image_mean": [0.48145466, 0.4578275, 0.41]},
    "rescale factor": {"rescale_factor": 1 / 256},
    "no rescaling": {"do_rescale": False},
    "no normalisation": {"do_normalize": False},
    "interpolation": {"resample": 2},
}


@pytest.mark.parametrize("settings", PIXELS.values(), ids=PIXELS)
def test_another_setting_of_pixel_values_is_another_fingerprint_though_every_count_is_right(
    variant: Variant, healthy: Measured, settings: dict[str, object]
) -> None:
    drifted = measure(variant(IMAGE, **settings))
    assert (results(drifted), changed(drifted, healthy)) == ({"ok"}, {"processor"})
    assert held_for(drifted, healthy) == "FingerprintDrift"


honest_values: Callable[..., torch.Tensor] = TorchvisionBackend.rescale_and_normalize
honest_pixels: Callable[..., torch.Tensor] = functional.resize


def swaps_channels(self: Any, images: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
    return honest_values(self, images.flip(1), *rest, **options)


def brightens_by_one_level(self: Any, images: torch.Tensor, *rest: Any, **options: Any) -> torch.Tensor:
    return honest_values(self, images + 1, *rest, **options)


def forgets_the_mean(
    self: Any, images: torch.Tensor, rescale: Any, factor: Any, normalise: Any, mean: Any, std: Any
) -> torch.Tensor:
    return honest_values(self, images, rescale, factor, normalise, (0.0, 0.0, 0.0), std)


@pytest.mark.parametrize("code", [swaps_channels, brightens_by_one_level, forgets_the_mean])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "siglip", "pixtral"])
def test_other_pixel_values_by_the_librarys_code_move_the_signature_beyond_the_tolerance(
    families: Families, monkeypatch: pytest.MonkeyPatch, family: str, code: Callable[..., torch.Tensor]
) -> None:
    healthy = families.pipeline(family).measure()
    monkeypatch.setattr(TorchvisionBackend, "rescale_and_normalize", code)
    drifted = measure(families.folder(family))
    assert (results(drifted), changed(drifted, healthy)) == ({"ok"}, set())
    assert held_for(drifted, healthy) == "SignatureDrift"


def test_interpolation_without_antialiasing_in_the_librarys_code_moves_the_signature_beyond_the_tolerance(
    checkpoint: Path, healthy: Measured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        functional, "resize", lambda *args, **options: honest_pixels(*args, **options | {"antialias": False})
    )
    assert held_for(measure(checkpoint), healthy) == "SignatureDrift"


class Slow(Qwen25VLEncoder):
    """An encoder of one's own on the pixels of the library's slow processor."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        slow = Qwen2VLImageProcessorPil.from_dict(self._processor.to_dict())
        return [
            replace(item, tensors={**item.tensors, "pixel_values": _pixels(slow, medium)})
            if isinstance(medium, Picture)
            else item
            for item, medium in zip(super().preprocess(media), media, strict=True)
        ]


def _pixels(slow: Any, picture: Picture) -> torch.Tensor:
    made = slow(images=[picture.pixels], input_data_format="channels_last", return_tensors="pt")
    pixels: torch.Tensor = made["pixel_values"]
    return pixels


class SlowAndSaysSo(Slow):
    """The same, with the class that it uses in its description."""

    def describe(self) -> Description:
        said = super().describe()
        return replace(said, classes={**said.classes, "processor": "Qwen2VLImageProcessorPil"})


def test_the_slow_processor_is_another_fingerprint_by_its_class_and_within_the_tolerance_by_its_pixels(
    checkpoint: Path, healthy: Measured
) -> None:
    assert held_for(pipeline_of(checkpoint, SlowAndSaysSo).measure(), healthy) == "FingerprintDrift"
    silent = pipeline_of(checkpoint, Slow).measure()
    assert 1 < distance_per_mille(silent.signature or "", healthy.signature or "") < TOLERANCE


# 8: other weights of the same shapes, on the volume and in the memory of a running engine


def test_other_weights_of_the_same_shapes_are_another_fingerprint(tmp_path: Path, healthy: Measured) -> None:
    make(tmp_path / "other", seed=8)
    drifted = measure(tmp_path / "other")
    assert (results(drifted), changed(drifted, healthy)) == ({"ok"}, {"weights"})
    assert held_for(drifted, healthy) == "FingerprintDrift"


@pytest.mark.parametrize("family", ["clip", "dinov2", "internvl", "llava", "pixtral", "qwen3_vl", "siglip2"])
def test_one_bit_of_one_weight_is_another_fingerprint_in_any_family(families: Families, family: str) -> None:
    folder = families.copy(family)
    # Of a matrix of the tower or its projector, whatever the family calls it: the language model's is not read.
    name = next(
        key for key in sorted(tensors(folder)) if "fc1.weight" in key or "linear_1.weight" in key or "up_proj" in key
    )

    def flip(held: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        held[name].view(torch.int32)[0, 0] ^= 1
        return held

    rewrite(folder, flip)
    drifted, healthy = measure(folder), families.pipeline(family).measure()
    assert changed(drifted, healthy) == {"weights"}


def now(pipeline: Pipeline, measured: Measured) -> Golden:
    """What the golden probe shows of a running engine."""
    items, signature = pipeline.probe([])
    return gather(measured, [Probed(batch=1, items=items, signature=signature)])[1]


def test_a_weight_that_becomes_huge_or_no_number_in_memory_is_seen_by_the_next_probe(checkpoint: Path) -> None:
    pipeline = pipeline_of(checkpoint)
    measured = pipeline.measure()
    reference = expecting(measured)
    assert judge(measured, now(pipeline, measured), reference).admitted
    weight = pipeline._encoder._model.blocks[1].mlp.up_proj.weight  # type: ignore[attr-defined]
    with torch.inference_mode():
        weight.view(torch.int32)[3, 5] ^= 1 << 30  # The exponent's top bit: 0.08 becomes 3e37.
    verdict = judge(measured, now(pipeline, measured), reference)
    assert (verdict.admitted, verdict.reason) == (False, "SignatureDrift")
    with torch.inference_mode():
        weight[3, 5] = float("nan")
    assert judge(measured, now(pipeline, measured), reference).reason == "ProbeFailed"


def test_one_weight_of_many_that_becomes_small_in_memory_is_below_what_a_probe_sees(checkpoint: Path) -> None:
    pipeline = pipeline_of(checkpoint)
    measured = pipeline.measure()
    weight = pipeline._encoder._model.blocks[1].mlp.up_proj.weight  # type: ignore[attr-defined]
    with torch.inference_mode():
        weight[3, 5] = 0.0
    assert judge(measured, now(pipeline, measured), expecting(measured)).admitted


def test_a_library_whose_state_changes_under_a_running_engine_is_seen_by_the_next_probe(
    checkpoint: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = pipeline_of(checkpoint)
    measured = pipeline.measure()
    monkeypatch.setattr(TorchvisionBackend, "rescale_and_normalize", swaps_channels)
    assert judge(measured, now(pipeline, measured), expecting(measured)).reason == "SignatureDrift"
    monkeypatch.setattr(TorchvisionBackend, "rescale_and_normalize", honest_values)
    monkeypatch.setattr(library, "smart_resize", rounds_up)
    assert judge(measured, now(pipeline, measured), Reference(named=False)).reason == "FingerprintDrift"


# 9: hidden size or the list of deepstack layers


def test_a_model_of_another_width_than_its_weights_is_refused_by_the_tensors_name(
    families: Families,
) -> None:
    section = json.loads((families.folder("qwen2_5_vl") / CONFIG).read_text())["vision_config"]
    wider = {**section, "out_hidden_size": 2 * section["out_hidden_size"]}
    with pytest.raises(RefusedError, match=r"^weights: merger\.mlp\.2\.\w+ has shape"):
        Pipeline.load(families.copy("qwen2_5_vl", {CONFIG: {"vision_config": wider}}))


def test_other_deepstack_layers_are_another_fingerprint_and_fewer_are_refused(families: Families) -> None:
    section = json.loads((families.folder("qwen3_vl") / CONFIG).read_text())["vision_config"]
    layers = section["deepstack_visual_indexes"]
    other = [layer for layer in range(section["depth"]) if layer not in layers][:1] + layers[1:]
    turned = layers[::-1]
    for indexes in (other, turned):
        if indexes == layers:
            continue
        drifted = measure(
            families.copy("qwen3_vl", {CONFIG: {"vision_config": {**section, "deepstack_visual_indexes": indexes}}})
        )
        assert "config" in changed(drifted, families.pipeline("qwen3_vl").measure())
    fewer = {**section, "deepstack_visual_indexes": layers[:-1]}
    with pytest.raises(RefusedError, match="deepstack_merger_list"):
        Pipeline.load(families.copy("qwen3_vl", {CONFIG: {"vision_config": fewer}}))


class Narrow(Qwen25VLEncoder):
    """Gives half of each row."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows[:, :32] for rows in super().encode(features)]


def test_rows_of_another_width_than_declared_fail_the_probe(checkpoint: Path, healthy: Measured) -> None:
    drifted = pipeline_of(checkpoint, Narrow).measure()
    assert results(drifted) == {"width"}
    assert held_for(drifted, healthy) == "ProbeFailed"


# 10: dtype


class Half(Qwen25VLEncoder):
    """Gives its rows in another dtype than it declares."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows.half() for rows in super().encode(features)]


def test_rows_of_another_dtype_than_declared_fail_the_probe(checkpoint: Path, healthy: Measured) -> None:
    drifted = pipeline_of(checkpoint, Half).measure()
    assert results(drifted) == {"dtype"}
    assert held_for(drifted, healthy) == "ProbeFailed"


def test_a_checkpoint_that_was_cast_is_another_fingerprint(variant: Variant, healthy: Measured) -> None:
    folder = variant(IMAGE)
    held = load_file(folder / "model.safetensors")
    save_file({name: tensor.to(torch.float16) for name, tensor in held.items()}, folder / "model.safetensors")
    drifted = measure(folder)
    assert "weights" in changed(drifted, healthy)
    assert held_for(drifted, healthy) == "FingerprintDrift"


@pytest.mark.parametrize(("dtype", "admitted"), [("float16", True), ("bfloat16", False)])
def test_the_same_weights_computed_in_another_dtype_are_judged_by_the_signature_alone_and_shown(
    checkpoint: Path, healthy: Measured, dtype: str, admitted: bool
) -> None:
    other = Pipeline.load(checkpoint, dtype=dtype).measure()
    assert fingerprint(other) == fingerprint(healthy)
    assert judge(other, begin(other), expecting(healthy)).admitted is admitted
    assert (other.advisory["dtype"], other.declared["image"].dtype) == (dtype, dtype)


# 12: items swapped, or rows split k early, in a batch


class Swapping(Qwen25VLEncoder):
    """Gives the first two items of a batch each other's rows."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        return [rows[1], rows[0], *rows[2:]] if len(rows) > 1 else rows


class SplittingEarly(Qwen25VLEncoder):
    """Cuts a batch's rows one row early: one too few for the first item, one too many for the last."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        sizes = [len(each) for each in rows]
        if len(sizes) > 1:
            sizes[0], sizes[-1] = sizes[0] - 1, sizes[-1] + 1
        return list(torch.cat(rows).split(sizes))


@pytest.mark.parametrize("family", [Swapping, SplittingEarly])
def test_items_swapped_or_split_wrongly_in_a_batch_fail_the_probe_though_the_batchs_total_is_right(
    checkpoint: Path, healthy: Measured, family: type[Qwen25VLEncoder]
) -> None:
    drifted = pipeline_of(checkpoint, family).measure()
    assert "count" in results(drifted)
    assert held_for(drifted, healthy) == "ProbeFailed"


def test_items_swapped_where_all_have_one_count_move_the_signature(
    families: Families, monkeypatch: pytest.MonkeyPatch
) -> None:
    healthy, family = families.pipeline("siglip").measure(), type(families.pipeline("siglip")._encoder)
    honest = family.encode

    def swapped(self: Any, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = honest(self, features)
        return [rows[1], rows[0], *rows[2:]] if len(rows) > 1 else list(rows)

    monkeypatch.setattr(family, "encode", swapped)
    drifted = measure(families.folder("siglip"))
    assert results(drifted) == {"ok"}
    assert held_for(drifted, healthy) == "SignatureDrift"


# 15: a model that nobody knows how to count


def test_a_model_type_without_an_encoder_is_refused_by_its_name(variant: Variant) -> None:
    with pytest.raises(RefusedError, match=r"^config\.json: no encoder for model_type 'kimi_vl'; there are: "):
        Pipeline.load(variant(CONFIG, model_type="kimi_vl"))


# 3 and 5 in videos: another temporal_patch_size or merge_size than the model's, in the video processor alone

VIDEO = "video_preprocessor_config.json"


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "glm4v"])
@pytest.mark.parametrize(
    "geometry", [{"merge_size": 4}, {"temporal_patch_size": 1}, {"temporal_patch_size": 4}], ids=str
)
def test_a_video_processor_of_another_geometry_than_the_model_fails_the_probes_videos_alone(
    families: Families, family: str, geometry: dict[str, int]
) -> None:
    drifted = measure(families.copy(family, {VIDEO: geometry}))
    failed = {item.modality for item in drifted.probe if item.result in ("count", "layout")}
    assert failed == {"video"}
    assert held_for(drifted, families.pipeline(family).measure()) == "ProbeFailed"


# 11: audio is padded or cut to another length


@pytest.mark.parametrize("family", ["whisper", "qwen2_audio"])
def test_audio_that_is_padded_or_cut_to_another_length_than_the_models_fails_the_probe(
    families: Families, family: str
) -> None:
    ten_seconds = {"chunk_length": 10, "n_samples": 160_000, "nb_max_frames": 1000}
    drifted = measure(families.copy(family, {IMAGE: ten_seconds}))
    assert results(drifted) == {"layout"}
    assert held_for(drifted, families.pipeline(family).measure()) == "ProbeFailed"
