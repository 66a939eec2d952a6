"""Checkpoints that cannot be served are refused at the start, naming the file or key in our own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from encoder_server.encoders import RefusedError
from encoder_server.encoders.grid_towers import GridEncoder
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import Variant

PROCESSOR = "preprocessor_config.json"
WEIGHTS = "model.safetensors"
Tensors = dict[str, torch.Tensor]


def refusal(folder: Path, encoder: str = "Auto") -> str:
    with pytest.raises(RefusedError) as refused:
        Pipeline.load(folder, encoder=encoder)
    return str(refused.value)


@pytest.mark.parametrize("file", ["config.json", PROCESSOR, WEIGHTS])
def test_a_missing_file_is_named(variant: Variant, file: str) -> None:
    folder = variant(PROCESSOR)
    (folder / file).unlink()
    assert refusal(folder).startswith(f"{file}: missing")


def test_a_file_nested_too_deeply_is_named(variant: Variant) -> None:
    folder = variant(PROCESSOR)
    (folder / "config.json").write_text('{"a":' + "[" * 100_000)
    assert refusal(folder) == "config.json: not JSON"


def test_an_encoder_that_cannot_describe_itself_is_refused(checkpoint: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(GridEncoder, "describe")
    assert refusal(checkpoint) == "the encoder failed to describe itself; the engine's log has the reason"


@pytest.mark.parametrize("file", ["config.json", PROCESSOR, WEIGHTS])
def test_a_damaged_file_is_named(variant: Variant, file: str) -> None:
    folder = variant(PROCESSOR)
    (folder / file).write_bytes((folder / file).read_bytes()[:90])
    assert refusal(folder).startswith(f"{file}: ")


@pytest.mark.parametrize("key", ["patch_size", "temporal_patch_size", "merge_size"])
def test_geometry_that_is_missing_is_not_guessed(variant: Variant, key: str) -> None:
    assert refusal(variant(PROCESSOR, **{key: None})) == f"{PROCESSOR}: {key} is missing or not a positive number"
    assert refusal(variant(PROCESSOR, **{key: "2"})) == f"{PROCESSOR}: {key} is missing or not a positive number"


def test_pixel_limits_that_are_missing_are_not_guessed(variant: Variant) -> None:
    assert refusal(variant(PROCESSOR, max_pixels=None)) == f"{PROCESSOR}: size or min_pixels and max_pixels are missing"


def test_a_processor_of_another_family_is_named(variant: Variant) -> None:
    assert "'CLIPImageProcessor' gives no grids" in refusal(
        variant(PROCESSOR, image_processor_type="CLIPImageProcessor")
    )
    assert "'Nothing' is not known" in refusal(variant(PROCESSOR, image_processor_type="Nothing"))


def test_an_unknown_model_type_is_named_with_the_encoders_there_are(variant: Variant) -> None:
    present = (
        "clip, clip_pooled, dinov2, dinov2_pooled, glm4v, internvl, llava, pixtral, qwen2_5_vl, qwen2_audio, "
        "qwen2_vl, qwen3_omni, qwen3_vl, siglip, siglip2, siglip2_pooled, siglip_pooled, whisper"
    )
    assert refusal(variant("config.json", model_type="llama")) == (
        f"config.json: no encoder for model_type 'llama'; there are: {present}"
    )
    assert refusal(variant(PROCESSOR), encoder="mine") == f"no encoder is registered as 'mine'; there are: {present}"


def test_a_configuration_that_is_not_one_is_named(variant: Variant) -> None:
    assert refusal(variant("config.json", vision_config=None)) == "config.json: vision_config is missing"
    assert "vision_config" in refusal(variant("config.json", vision_config={"depth": "three"}))


def rename(tensors: Tensors) -> None:
    tensors["visual.blocks.0.norm9.weight"] = tensors.pop("visual.blocks.0.norm1.weight")


def add(tensors: Tensors) -> None:
    tensors["visual.blocks.7.norm1.weight"] = torch.ones(64)


def reshape(tensors: Tensors) -> None:
    tensors["visual.merger.mlp.2.weight"] = torch.ones(32, 256)


def quantise(tensors: Tensors) -> None:
    tensors["visual.merger.mlp.2.weight"] = torch.ones(64, 256, dtype=torch.int8)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (rename, "weights: blocks.0.norm1.weight is missing"),
        (add, "weights: blocks.7.norm1.weight is not a tensor of this model"),
        (reshape, "weights: merger.mlp.2.weight has shape (32, 256), config.json asks for (64, 256)"),
        (quantise, "weights: merger.mlp.2.weight has dtype int8, which is not a floating point type"),
    ],
)
def test_a_tensor_that_does_not_fit_is_named(variant: Variant, change: Callable[[Tensors], None], named: str) -> None:
    folder = variant(PROCESSOR)
    tensors = load_file(folder / WEIGHTS)
    change(tensors)
    save_file(tensors, folder / WEIGHTS)
    assert refusal(folder) == named


def test_a_file_that_the_index_names_is_missing_and_one_outside_the_folder_is_not_opened(variant: Variant) -> None:
    folder = variant(PROCESSOR)
    (folder / WEIGHTS).unlink()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"visual.a": "part.safetensors"}}))
    assert refusal(folder) == "part.safetensors: missing"
    index.write_text(json.dumps({"weight_map": {"visual.a": "../part.safetensors"}}))
    assert refusal(folder) == "model.safetensors.index.json: the file of visual.a is not a plain file name"


def test_no_refusal_tells_a_path(variant: Variant, tmp_path: Path) -> None:
    folder = variant(PROCESSOR)
    (folder / WEIGHTS).write_bytes(b"no")
    assert str(tmp_path) not in refusal(folder)


def test_weights_that_are_pickled_are_not_even_opened(variant: Variant) -> None:
    folder = variant(PROCESSOR)
    tensors = load_file(folder / WEIGHTS)
    (folder / WEIGHTS).unlink()
    torch.save(tensors, folder / "pytorch_model.bin")
    assert refusal(folder).startswith(f"{WEIGHTS}: missing")
    torch.save(tensors, folder / WEIGHTS)
    assert refusal(folder) == f"{WEIGHTS}: damaged, or not a safetensors file"
