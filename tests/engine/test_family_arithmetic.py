"""What a family computes with beside its weights is in its fingerprint, and what differs between machines is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoder_server.encoders import Description, Source
from encoder_server.encoders.registry import find
from encoder_server.engine.measure import settings_digest
from encoder_server.engine.messages import Measured
from encoder_server.engine.pipeline import Pipeline
from encoder_server.identity import difference, fingerprint
from tests.support.families import CONFIG, FAMILIES, WEIGHTS, Families, of_pictures

ROPE = {"rope_type": "axial", "rope_theta": 1000.0}
# Settings with which the same weights load and the same counts come out, by family, for its tower.
TOWER: dict[str, list[dict[str, Any]]] = {
    "clip": [{"num_attention_heads": 2}, {"hidden_act": "gelu"}, {"layer_norm_eps": 1e-3}],
    "dinov2": [{"num_attention_heads": 2}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-3}],
    "glm4v": [{"num_heads": 2}, {"hidden_act": "gelu"}, {"rms_norm_eps": 1e-3}, {"rope_parameters": ROPE}],
    "internvl": [{"num_attention_heads": 2}, {"hidden_act": "relu"}, {"layer_norm_eps": 1e-3}],
    "llava": [{"num_attention_heads": 2}, {"hidden_act": "gelu"}, {"layer_norm_eps": 1e-3}],
    "pixtral": [{"num_attention_heads": 2, "head_dim": 32}, {"hidden_act": "gelu"}, {"rope_parameters": ROPE}],
    "qwen2_5_vl": [{"num_heads": 2}, {"window_size": 56}, {"hidden_act": "gelu"}, {"fullatt_block_indexes": [0]}],
    "qwen2_vl": [{"num_heads": 2}, {"hidden_act": "gelu"}, {"rope_parameters": ROPE}],
    "qwen3_vl": [{"num_heads": 2}, {"hidden_act": "relu"}, {"deepstack_visual_indexes": [0, 2]}],
    "siglip": [{"num_attention_heads": 2}, {"hidden_act": "gelu"}, {"layer_norm_eps": 1e-3}],
    "siglip2": [{"num_attention_heads": 2}, {"hidden_act": "gelu"}, {"layer_norm_eps": 1e-3}],
}
# The same, of the whole model's configuration.
JOINED: dict[str, list[dict[str, Any]]] = {
    "internvl": [{"vision_feature_layer": -2}, {"projector_hidden_act": "relu"}],
    "llava": [{"vision_feature_layer": -1}, {"projector_hidden_act": "relu"}],
    "pixtral": [{"vision_feature_layer": -2}, {"projector_hidden_act": "relu"}],
}
# The same, with which a model makes other rows than its probe was promised, or none.
SELECTION = {
    "internvl": [{"vision_feature_select_strategy": "full"}],
    "llava": [{"vision_feature_select_strategy": "full"}],
    "pixtral": [{"vision_feature_select_strategy": "default"}],
}
ELSEWHERE = {
    "_name_or_path": "/elsewhere",
    "attn_implementation": "eager",
    "attention_dropout": 0.25,
    "dtype": "bfloat16",
    "initializer_range": 0.5,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.50.0",
    "unknown_to_this_release": 3,
}


def cases(by_family: dict[str, list[dict[str, Any]]]) -> list[Any]:
    return [
        pytest.param(family, changes, id=f"{family}-{next(iter(changes))}")
        for family, variants in by_family.items()
        for changes in variants
    ]


def changed(families: Families, family: str, changes: dict[str, Any], *, joined: bool = False) -> Path:
    """A copy of the family's checkpoint with settings of its tower changed, or of the whole model (`joined`)."""
    content = json.loads((families.folder(family) / CONFIG).read_text())
    section = content.get("vision_config")
    if joined or section is None:
        return families.copy(family, {CONFIG: changes})
    return families.copy(family, {CONFIG: {"vision_config": {**section, **changes}}})


def described(folder: Path) -> Description:
    return find("Auto", folder).load(Source(model=folder, processor=folder, device="cpu", dtype="auto")).describe()


def assert_told_apart_by_config_alone(drifted: Measured, healthy: Measured) -> None:
    assert [item.result for item in of_pictures(drifted)] == ["ok"] * 5
    assert (drifted.weights, drifted.processor) == (healthy.weights, healthy.processor)
    assert fingerprint(drifted) != fingerprint(healthy)
    assert difference(healthy, drifted) == "another config than this server's"


@pytest.mark.parametrize(("family", "changes"), cases(TOWER))
def test_other_arithmetic_of_a_tower_is_another_fingerprint(
    families: Families, family: str, changes: dict[str, Any]
) -> None:
    drifted = Pipeline.load(changed(families, family, changes)).measure()
    assert_told_apart_by_config_alone(drifted, families.pipeline(family).measure())


@pytest.mark.parametrize(("family", "changes"), cases(JOINED))
def test_another_way_from_the_tower_to_the_rows_is_another_fingerprint(
    families: Families, family: str, changes: dict[str, Any]
) -> None:
    drifted = Pipeline.load(changed(families, family, changes, joined=True)).measure()
    assert_told_apart_by_config_alone(drifted, families.pipeline(family).measure())


@pytest.mark.parametrize(("family", "changes"), cases(SELECTION))
def test_another_selection_of_rows_is_in_the_config_too(
    families: Families, family: str, changes: dict[str, Any]
) -> None:
    ours = described(changed(families, family, changes, joined=True))
    assert settings_digest(ours.config) != settings_digest(described(families.folder(family)).config)


def test_internvls_downsample_ratio_is_in_the_config(families: Families) -> None:
    assert described(families.folder("internvl")).config["downsample_ratio"] == 0.5


@pytest.mark.parametrize("family", FAMILIES)
def test_path_dtype_and_what_no_model_computes_with_leave_the_fingerprint(families: Families, family: str) -> None:
    folder = changed(families, family, ELSEWHERE)
    content = json.loads((folder / CONFIG).read_text())
    (folder / CONFIG).write_text(json.dumps({**content, **ELSEWHERE}))
    moved = Pipeline.load(folder, dtype="bfloat16").measure()
    assert fingerprint(moved) == fingerprint(families.pipeline(family).measure())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_checkpoint_that_the_library_saved_anew_has_the_same_config(families: Families, family: str) -> None:
    folder = families.copy(family)
    (folder / WEIGHTS).unlink()
    families.library(family).save(folder)
    ours, saved = described(families.folder(family)), described(folder)
    assert settings_digest(saved.config) == settings_digest(ours.config)
    # Whatever the family, it says at least how many layers and heads there are.
    assert {"depth", "num_hidden_layers"} & ours.config.keys()
    assert {"num_heads", "num_attention_heads"} & ours.config.keys()
