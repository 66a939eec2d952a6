"""Folders as they are found at three in the morning: each is refused at the start, and the refusal says what to do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from encoder_server.encoders import RefusedError
from encoder_server.engine.pipeline import Pipeline
from tests.support.checkpoints import Published, as_the_hub_caches_it
from tests.support.families import CONFIG, IMAGE, VIDEO, WEIGHTS, WHOLE

INDEX = f"{WEIGHTS}.index.json"
SECOND = "model-00002-of-00003.safetensors"
QWEN, CLIP, WHISPER, INTERNVL = "qwen2_vl_7b_instruct", "clip_vit_large_patch14", "whisper_base", "internvl3_1b_hf"
Wrong = Callable[[Path], None]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root = tmp_path_factory.mktemp("refused")

    def copy(name: str) -> Path:
        if not (root / name).exists():
            Published(name).write(root / name)
        at = root / f"{name}-{len(list(root.iterdir()))}"
        shutil.copytree(root / name, at)
        return at

    return copy


def refusal(folder: Path, encoder: str = "Auto") -> str:
    with pytest.raises(RefusedError) as refused:
        Pipeline.load(folder, encoder=encoder)
    assert str(folder) not in str(refused.value)
    return str(refused.value)


def without_weights(folder: Path) -> None:
    for file in [*folder.glob("*.safetensors"), folder / INDEX, folder / "pytorch_model.bin"]:
        file.unlink()


def instead_of_weights(name: str) -> Wrong:
    """Leave one file of this name where the weights were."""

    def change(folder: Path) -> None:
        without_weights(folder)
        (folder / name).write_bytes(b"weights")

    return change


def cut_short(name: str) -> Wrong:
    def change(folder: Path) -> None:
        (folder / name).write_bytes((folder / name).read_bytes()[:-100])

    return change


def pointer(name: str) -> Wrong:
    """Put there what a clone without Git LFS has."""

    def change(folder: Path) -> None:
        (folder / name).write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0123\nsize 4965799096\n")

    return change


def unreadable(name: str) -> Wrong:
    """Put there what is a file, and fails whoever reads it."""

    def change(folder: Path) -> None:
        (folder / name).unlink()
        (folder / name).symlink_to("/proc/self/mem")

    return change


def written(name: str, **keys: Any) -> Wrong:
    """Write a JSON file's `keys` anew."""

    def change(folder: Path) -> None:
        file = folder / name
        file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else {}) | keys))

    return change


def only(*names: str) -> Wrong:
    """Leave these files alone, empty ones where they were not there."""

    def change(folder: Path) -> None:
        for file in folder.iterdir():
            if file.name not in names:
                file.unlink()
        for name in names:
            (folder / name).touch()

    return change


def quantised(folder: Path) -> None:
    shard = folder / json.loads((folder / INDEX).read_text())["weight_map"]["visual.blocks.0.attn.qkv.weight"]
    held = load_file(shard)
    held["visual.blocks.0.attn.qkv.weight"] = held["visual.blocks.0.attn.qkv.weight"].to(torch.float8_e4m3fn)
    save_file(held, shard)


def of_an_adapter(folder: Path) -> None:
    place = json.loads((folder / INDEX).read_text())["weight_map"]
    for shard in set(place.values()):
        save_file({f"base_model.{key}": value for key, value in load_file(folder / shard).items()}, folder / shard)
    (folder / INDEX).write_text(json.dumps({"weight_map": {f"base_model.{key}": at for key, at in place.items()}}))


PICKLED = "pickled weights, which are never opened: save them as safetensors"
NO_WEIGHTS = f"{WEIGHTS}: missing, and {INDEX} too"
OWN_CODE = "auto_map names code of the checkpoint's own, which is never run"
CODE = {"AutoModel": "modeling_internvl_chat.InternVLChatModel"}


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (QWEN, only(), "config.json: missing: the folder is empty"),
        (QWEN, shutil.rmtree, "config.json: missing, and so is the folder"),
        (QWEN, only("README.md"), "config.json: missing"),
        (
            QWEN,
            only("adapter_config.json"),
            "config.json: missing; adapter_config.json is there: an adapter alone",
        ),
        (
            QWEN,
            only("params.json", "tekken.json", "consolidated.safetensors"),
            "; params.json is there: Mistral's own form",
        ),
        (QWEN, only(CONFIG, IMAGE), NO_WEIGHTS),
        (QWEN, instead_of_weights("pytorch_model.bin"), f"{NO_WEIGHTS}; pytorch_model.bin is there: {PICKLED}"),
        (
            QWEN,
            instead_of_weights("model.fp16.safetensors"),
            "; model.fp16.safetensors is there: a file of",
        ),
        (QWEN, instead_of_weights("model.gguf"), "; model.gguf is there: weights in another program's form"),
        (QWEN, lambda folder: (folder / SECOND).unlink(), f"{SECOND}: missing"),
        (QWEN, cut_short(SECOND), f"{SECOND}: damaged, or not a safetensors file"),
        (QWEN, pointer(SECOND), f"{SECOND}: a Git LFS pointer in the place of the file itself: git lfs pull"),
        (QWEN, unreadable(SECOND), f"{SECOND}: damaged, or not a safetensors file"),
        (QWEN, written(INDEX, weight_map=None), f"{INDEX}: weight_map is missing"),
        (QWEN, quantised, "weights: blocks.0.attn.qkv.weight has dtype float8_e4m3fn, which is quantised"),
        (QWEN, of_an_adapter, "weights: visual.* is missing"),
        (CLIP, of_an_adapter, "weights: vision_model.* is missing"),
        (INTERNVL, lambda folder: (folder / WHOLE).unlink(), f"{WHOLE}: missing"),
        ("llava_1_5_7b_hf", lambda folder: (folder / WHOLE).unlink(), f"{WHOLE}: missing"),
        (QWEN, written(IMAGE, min_pixels=None), f"{IMAGE}: size or min_pixels and max_pixels are missing"),
        (QWEN, written(IMAGE, image_processor_type=None), f"{IMAGE}: image_processor_type is missing"),
        (
            CLIP,
            written(CONFIG, vision_config_dict=None, vision_config={"hidden_size": "1024"}),
            "a CLIP model: hidden_size",
        ),
        (QWEN, written(CONFIG, vision_config={"depth": "32"}), "vision_config is not one of a Qwen2-VL tower: depth"),
    ],
)
def test_a_folder_that_is_not_whole_is_refused_by_the_file_with_what_was_found(
    folder_of: Callable[[str], Path], name: str, change: Wrong, said: str
) -> None:
    folder = folder_of(name)
    change(folder)
    assert said in refusal(folder)


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        (
            INTERNVL,
            written(CONFIG, model_type="internvl_chat", auto_map=CODE),
            "config.json: no encoder for model_type 'internvl_chat', whose code is the checkpoint's own (auto_map) and "
            "is never run (the same model is published in the library's form too, in folders named -hf); there are: ",
        ),
        (INTERNVL, written(CONFIG, auto_map=CODE), f"{CONFIG}: {OWN_CODE}"),
        (QWEN, written(CONFIG, auto_map=CODE), f"{CONFIG}: {OWN_CODE}"),
        (QWEN, written(IMAGE, auto_map={"AutoProcessor": "own.Own"}), f"{IMAGE}: {OWN_CODE}"),
        (QWEN, written(VIDEO, auto_map={"AutoVideoProcessor": "own.Own"}), f"{VIDEO}: {OWN_CODE}"),
        (QWEN, written(WHOLE, image_processor={"auto_map": {"AutoImageProcessor": "own.Own"}, "size": {}}), WHOLE),
        (WHISPER, written(IMAGE, auto_map={"AutoFeatureExtractor": "own.Own"}), f"{IMAGE}: {OWN_CODE}"),
    ],
)
def test_code_that_comes_with_a_checkpoint_is_never_run(
    folder_of: Callable[[str], Path], name: str, change: Wrong, said: str
) -> None:
    folder = folder_of(name)
    change(folder)
    for module in ("modeling_internvl_chat.py", "own.py"):
        (folder / module).write_text(f"open({str(folder / 'ran')!r}, 'w').close()\n")
    assert said in refusal(folder)
    assert not (folder / "ran").exists()


@pytest.mark.parametrize(
    ("name", "encoder", "own"),
    [
        (CLIP, "glm4v", "'clip' is for the encoder 'clip'"),
        (CLIP, "dinov2_pooled", "'clip' is for the encoder 'clip'"),
        (QWEN, "whisper", "'qwen2_vl' is for the encoder 'qwen2_vl'"),
        ("qwen3_vl_30b_a3b_instruct", "qwen2_5_vl", "'qwen3_vl_moe' is for the encoder 'qwen3_vl'"),
        ("pixtral_12b", "llava", "'llava' is for the encoder 'pixtral'"),
        ("siglip2_base_patch16_224", "siglip2", "'siglip' is for the encoder 'siglip'"),
        ("qwen3_omni_30b_a3b_captioner", "qwen2_audio", "'qwen3_omni_moe' is for the encoder 'qwen3_omni'"),
    ],
)
def test_an_encoder_of_another_family_is_refused_with_the_one_that_it_is_for(
    folder_of: Callable[[str], Path], name: str, encoder: str, own: str
) -> None:
    assert refusal(folder_of(name), encoder) == f"config.json: model_type {own}, not for {encoder!r}"


def test_a_model_type_that_nobody_knows_may_be_asked_for_by_an_encoders_name(folder_of: Callable[[str], Path]) -> None:
    folder = folder_of(CLIP)
    written(CONFIG, model_type="our_own_clip")(folder)
    assert "no encoder for model_type 'our_own_clip'" in refusal(folder)
    assert Pipeline.load(folder, encoder="clip").measure().classes["encoder"] == "ClipEncoder"


def test_a_hubs_cache_is_not_its_snapshot_and_what_it_has_not_yet_is_a_link_to_nothing(
    folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    snapshot = as_the_hub_caches_it(folder_of(QWEN), tmp_path / "cache")
    assert "; snapshots is there: a hub's cache of a checkpoint" in refusal(tmp_path / "cache")
    (snapshot / SECOND).resolve().unlink()
    assert refusal(snapshot) == f"{SECOND}: missing: it is a link to a file that is not there"
