"""What is wrong with a checkpoint: seen by the probe item by item where something runs, refused by name where not."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from encoder_server.encoders import RefusedError
from encoder_server.engine.messages import Measured
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import picture, prepare
from tests.support.families import CONFIG, FAMILIES, IMAGE, POOLED, WHOLE, Families, Tensors, of_pictures, rewrite

Changes = Mapping[str, Mapping[str, Any]]


def image(**keys: Any) -> Changes:
    return {IMAGE: keys}


def whole(**keys: Any) -> Changes:
    return {WHOLE: keys}


def measure(folder: Path) -> Measured:
    return Pipeline.load(folder).measure()


def refusal(folder: Path, encoder: str = "Auto") -> str:
    with pytest.raises(RefusedError) as refused:
        Pipeline.load(folder, encoder=encoder)
    return str(refused.value)


COUNT = [
    ("qwen2_vl", image(merge_size=4)),
    ("qwen3_vl", image(merge_size=4)),
    ("glm4v", image(merge_size=4)),
    # The prompt's side of a LLaVA is a file of its own: a wrong patch, a class token too few, one too many.
    ("llava", whole(patch_size=28)),
    ("llava", whole(num_additional_image_tokens=0)),
    ("llava", whole(vision_feature_select_strategy="full")),
    ("pixtral", whole(patch_size=32)),
    ("pixtral", whole(spatial_merge_size=2)),
    ("pixtral", {**whole(patch_size=None), **image(patch_size={"height": 8, "width": 8})}),
    ("internvl", whole(image_seq_length=16)),
    ("internvl", image(size={"height": 84, "width": 84})),
]
LAYOUT = [
    ("qwen2_vl", image(patch_size=16)),
    ("qwen3_vl", image(patch_size=14)),
    ("qwen3_vl", image(temporal_patch_size=1)),
    ("glm4v", image(patch_size=16)),
    ("clip", image(size=112, crop_size=112)),
    ("siglip", image(size={"height": 112, "width": 112})),
    # As many patches as the model has positions, in another shape.
    ("siglip", image(size={"height": 64, "width": 144})),
    ("siglip2", image(patch_size=14)),
    ("llava", image(size={"shortest_edge": 112}, crop_size={"height": 112, "width": 112})),
    ("internvl", image(size={"height": 28, "width": 56})),
]


@pytest.mark.parametrize(("family", "changes"), COUNT)
def test_a_processor_that_counts_otherwise_loads_and_fails_every_item_by_count(
    families: Families, family: str, changes: Changes
) -> None:
    drifted = measure(families.copy(family, changes))
    assert [item.result for item in of_pictures(drifted)] == ["count"] * 5
    assert all(item.promised != item.produced for item in of_pictures(drifted))
    assert drifted.processor != families.pipeline(family).measure().processor


@pytest.mark.parametrize(("family", "changes"), LAYOUT)
def test_a_processor_that_does_not_fit_the_model_loads_and_fails_every_item_as_layout(
    families: Families, family: str, changes: Changes
) -> None:
    drifted = measure(families.copy(family, changes))
    assert [item.result for item in of_pictures(drifted)] == ["layout"] * 5
    assert all(item.promised and item.produced is None for item in of_pictures(drifted))


@pytest.mark.parametrize("family", ["clip", "siglip"])
def test_a_pooled_row_of_a_picture_of_another_size_fails_too(families: Families, family: str) -> None:
    changes = image(size={"height": 112, "width": 112}, crop_size={"height": 112, "width": 112})
    drifted = Pipeline.load(families.copy(family, changes), encoder=f"{family}_pooled").measure()
    assert [item.result for item in drifted.probe] == ["layout"] * 5


def test_siglip2s_mask_and_grid_are_held_against_each_other(families: Families, monkeypatch: Any) -> None:
    pipeline = families.pipeline("siglip2")
    processor = pipeline._encoder._processor  # type: ignore[attr-defined]
    honest = type(processor)._preprocess

    def masks_one_patch(self: Any, *arguments: Any, **options: Any) -> Any:
        batch = honest(self, *arguments, **options)
        for mask in batch["pixel_attention_mask"]:
            mask[0] = 0
        return batch

    monkeypatch.setattr(type(processor), "_preprocess", masks_one_patch)
    assert [(item.result, item.promised, item.produced) for item in pipeline.measure().probe] == [
        ("count", produced - 1, produced) for produced in (64, 64, 60, 60, 63)
    ]


def test_a_picture_that_siglip2s_processor_leaves_too_large_fails_alone(families: Families) -> None:
    pipeline = Pipeline.load(families.copy("siglip2", image(do_resize=False)))
    prepared = prepare(pipeline, picture(64, 48), picture(320, 320), picture(48, 32))
    embeddings, failures = pipeline.encode(prepared)
    assert not failures
    assert [promise.tokens for promise in prepared.promises] == [12, 64, 6]
    assert [len(item.rows) for item in embeddings] == [12, 400, 6]


def test_dinov2_takes_any_size_so_another_one_shows_in_identity_and_counts_alone(families: Families) -> None:
    healthy = families.pipeline("dinov2").measure()
    drifted = measure(families.copy("dinov2", image(crop_size={"height": 98, "width": 98})))
    assert [(item.result, item.promised) for item in drifted.probe] == [("ok", 50)] * 5
    assert [item.promised for item in healthy.probe] == [37] * 5
    assert drifted.processor != healthy.processor


def test_dinov2_without_a_crop_gives_each_picture_its_own_rows(families: Families) -> None:
    pipeline = Pipeline.load(families.copy("dinov2", image(do_center_crop=False)))
    prepared = prepare(pipeline, picture(96, 96), picture(200, 100), picture(96, 97))
    embeddings, failures = pipeline.encode(prepared)
    assert not failures
    assert [len(item.rows) for item in embeddings] == [promise.tokens for promise in prepared.promises] == [37, 79, 37]


def test_fewer_tiles_change_internvls_counts_and_identity_and_pass(families: Families) -> None:
    healthy = families.pipeline("internvl").measure()
    drifted = measure(families.copy("internvl", image(max_patches=2)))
    assert [item.result for item in drifted.probe] == ["ok"] * 5
    assert [item.promised for item in drifted.probe] != [item.promised for item in healthy.probe]
    assert drifted.processor != healthy.processor


@pytest.mark.parametrize(
    ("family", "changes", "named"),
    [
        ("qwen2_vl", image(merge_size=None), f"{IMAGE}: merge_size is missing or not a positive number"),
        ("glm4v", image(size=None), f"{IMAGE}: size or min_pixels and max_pixels are missing"),
        ("qwen3_vl", image(image_processor_type="CLIPImageProcessor"), "'CLIPImageProcessor' gives no grids"),
        ("clip", image(size=None), f"{IMAGE}: size is missing"),
        ("clip", image(crop_size=None), f"{IMAGE}: crop_size is missing"),
        ("clip", image(size={"edge": 84}), f"{IMAGE}: the settings are not ones of CLIPImageProcessor"),
        ("clip", image(feature_extractor_type=None), f"{IMAGE}: image_processor_type is missing"),
        ("siglip", image(image_processor_type="Qwen2VLImageProcessor"), "gives image_grid_thw, not pixels alone"),
        ("siglip2", image(max_num_patches=None), f"{IMAGE}: max_num_patches is missing or not a positive number"),
        ("siglip2", image(image_processor_type="SiglipImageProcessor"), "gives no mask and shapes of patches"),
        ("llava", whole(patch_size=None), f"{WHOLE}: patch_size is missing or not a positive number"),
        ("llava", whole(vision_feature_select_strategy="some"), f"{WHOLE}: vision_feature_select_strategy is missing"),
        ("llava", whole(num_additional_image_tokens=-1), f"{WHOLE}: num_additional_image_tokens is missing or not a"),
        ("llava", {CONFIG: {"vision_config": {"model_type": "vit"}}}, "config.json: vision_config.model_type is not"),
        ("pixtral", image(patch_size=None), f"{IMAGE}: patch_size is missing"),
        ("pixtral", image(image_processor_type="CLIPImageProcessor"), "gives no sizes of pictures"),
        ("internvl", whole(image_seq_length=None), f"{WHOLE}: image_seq_length is missing or not a positive number"),
        ("internvl", image(image_processor_type="CLIPImageProcessor"), "'CLIPImageProcessor' gives no tiles"),
        ("internvl", {CONFIG: {"vision_feature_layer": [1, 2]}}, "config.json: vision_feature_layer is not one layer"),
        ("siglip", {CONFIG: {"vision_config": None}}, "config.json: vision_config is missing"),
        ("dinov2", {CONFIG: {"hidden_size": "wide"}}, "config.json: not one of a DINOv2 tower"),
        ("llava", {CONFIG: {"text_config": 7}}, "config.json: not one of a LLaVA model"),
    ],
)
def test_what_cannot_run_is_refused_by_its_name(families: Families, family: str, changes: Changes, named: str) -> None:
    assert named in refusal(families.copy(family, changes))


TENSORS = {
    "clip": "vision_model.encoder.layers.1.mlp.fc1.weight",
    "dinov2": "encoder.layer.1.mlp.fc1.weight",
    "glm4v": "model.visual.blocks.1.mlp.gate_proj.weight",
    "internvl": "multi_modal_projector.linear_1.weight",
    "llava": "multi_modal_projector.linear_1.weight",
    "pixtral": "vision_tower.transformer.layers.1.feed_forward.up_proj.weight",
    "qwen2_5_vl": "visual.blocks.1.mlp.up_proj.weight",
    "qwen2_vl": "visual.blocks.1.mlp.fc1.weight",
    "qwen3_vl": "model.visual.deepstack_merger_list.1.linear_fc1.weight",
    "siglip": "vision_model.head.mlp.fc1.weight",
    "siglip2": "vision_model.encoder.layers.1.mlp.fc1.weight",
}


@pytest.mark.parametrize("family", FAMILIES)
def test_a_tensor_that_is_missing_strange_misshapen_or_quantised_is_named(families: Families, family: str) -> None:
    name = TENSORS[family]
    short = re.sub(r"^(model\.)?(visual|vision_model|vision_tower)\.", "", name)
    faults: dict[str, Callable[[torch.Tensor], Tensors]] = {
        f"weights: {short} is missing": lambda _: {},
        f"weights: {short}.more is not a tensor of this model": lambda held: {name: held, f"{name}.more": held.clone()},
        f"weights: {short} has shape (3, 5), config.json asks for": lambda _: {name: torch.ones(3, 5)},
        f"weights: {short} has dtype int8": lambda held: {name: held.to(torch.int8)},
    }
    for named, fault in faults.items():
        folder = families.copy(family)

        def change(held: Tensors, fault: Callable[[torch.Tensor], Tensors] = fault) -> Tensors:
            rest = {key: value for key, value in held.items() if key != name}
            return rest | fault(held[name])

        rewrite(folder, change)
        assert refusal(folder).startswith(named)


@pytest.mark.parametrize("family", sorted({"internvl", "llava", "pixtral"}))
def test_a_checkpoint_without_a_projector_is_refused(families: Families, family: str) -> None:
    folder = families.copy(family)
    rewrite(folder, lambda held: {name: held[name] for name in held if not name.startswith("multi_modal")})
    assert refusal(folder) == "weights: multi_modal_projector.* is missing"


@pytest.mark.parametrize("family", sorted(set(POOLED) - {"clip", "dinov2"}))
def test_a_tower_without_a_head_has_no_pooled_row(families: Families, family: str) -> None:
    vision = {"model_type": f"{family}_vision_model", "vision_use_head": False, "hidden_size": 64}
    folder = families.copy(family, {CONFIG: {"vision_config": vision}})
    assert refusal(folder, encoder=f"{family}_pooled").startswith("config.json: vision_use_head is false")
