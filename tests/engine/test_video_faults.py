"""A video processor of one's own: what it is read from, what it changes, and what is refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest

from encoder_server.encoders import Encoder, Picture, RefusedError, UnfitMediaError
from encoder_server.engine.measure import settings_digest
from tests.support.clips import clip, loaded, rows
from tests.support.families import IMAGE, VIDEO, WHOLE, WITH_VIDEO, Families
from tests.support.library import Library

PICTURE = Picture(pixels=clip(1, 112, 84).frames[0])
CLIP = clip(5, 112, 84)


def counts(encoder: Encoder[Any], medium: object) -> tuple[int, int]:
    """Rows promised and produced for one medium."""
    features = encoder.preprocess([medium])
    return features[0].tokens, len(encoder.encode(features)[0])


def digest(folder: Path) -> str:
    return settings_digest(loaded(folder).describe().processor)


def without_video(families: Families, family: str) -> Path:
    folder = families.copy(family)
    (folder / VIDEO).unlink()
    return folder


@pytest.mark.parametrize("family", ["qwen2_vl", "qwen3_vl", "glm4v"])
def test_a_video_merge_unlike_the_models_is_a_wrong_count_of_videos_alone(families: Families, family: str) -> None:
    drifted = loaded(families.copy(family, {VIDEO: {"merge_size": 4}}))
    promised, produced = counts(drifted, PICTURE)
    assert promised == produced
    promised, produced = counts(drifted, CLIP)
    assert promised != produced


def test_a_picture_merge_unlike_the_models_is_a_wrong_count_of_pictures_alone(families: Families) -> None:
    drifted = loaded(families.copy("qwen2_5_vl", {IMAGE: {"merge_size": 4}}))
    promised, produced = counts(drifted, PICTURE)
    assert promised != produced
    promised, produced = counts(drifted, CLIP)
    assert promised == produced


@pytest.mark.parametrize("changes", [{"patch_size": 28}, {"temporal_patch_size": 3}])
def test_a_video_patch_unlike_the_models_fails_by_its_shape(families: Families, changes: dict[str, int]) -> None:
    drifted = loaded(families.copy("qwen2_vl", {VIDEO: changes}))
    assert len(set(counts(drifted, PICTURE))) == 1
    features = drifted.preprocess([CLIP])
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        drifted.encode(features)


@pytest.mark.parametrize(
    "changes",
    [
        {"image_mean": [0.4, 0.5, 0.5]},
        {"size": {"shortest_edge": 8192, "longest_edge": 131_072}},
        {"fps": 4},
        {"do_sample_frames": False},
        {"max_frames": 64},
        {"cap_pixels_per_frame": True},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_any_setting_of_the_video_processor_is_in_the_processors_digest(
    families: Families, changes: dict[str, Any]
) -> None:
    assert digest(families.copy("qwen3_vl", {VIDEO: changes})) != digest(families.folder("qwen3_vl"))


def test_what_the_library_saves_of_the_video_processor_is_the_same_processor(families: Families) -> None:
    for family in WITH_VIDEO:
        folder = families.copy(family)
        families.library(family).save_video_processor(folder)
        assert digest(folder) == digest(families.folder(family)), family


def test_a_folder_without_a_video_processor_takes_pictures_alone_and_says_so(families: Families) -> None:
    encoder = loaded(without_video(families, "qwen3_vl"))
    description = encoder.describe()
    assert set(description.declared) == {"image"}
    assert "video" not in description.processor
    assert "video_processor" not in description.classes
    assert len(set(counts(encoder, PICTURE))) == 1
    with pytest.raises(UnfitMediaError, match=r"^the checkpoint has no video processor$"):
        encoder.preprocess([CLIP])


def test_the_first_checkpoints_have_one_file_for_pictures_and_video(families: Families) -> None:
    for family in ("qwen2_vl", "qwen2_5_vl", "glm4v"):
        folder = without_video(families, family)
        (made,) = rows(loaded(folder), CLIP)
        assert numpy.abs(made - Library(folder, family).clip_rows(CLIP)).max() < 2e-5
    # Sizes of one picture are sizes of one frame there, as the library has it.
    settings = json.loads((without_video(families, "qwen2_vl") / IMAGE).read_text())
    description = loaded(without_video(families, "qwen2_vl")).describe()
    assert f"longest_edge={settings['max_pixels']}" in str(description.processor["video"])


def test_the_video_settings_may_be_a_section_of_the_whole_processors_file(families: Families) -> None:
    for family in WITH_VIDEO:
        folder = families.copy(family)
        sections = {"image_processor": IMAGE, "video_processor": VIDEO}
        content = {name: json.loads((folder / file).read_text()) for name, file in sections.items()}
        (folder / WHOLE).write_text(json.dumps(content))
        (folder / IMAGE).unlink()
        (folder / VIDEO).unlink()
        assert digest(folder) == digest(families.folder(family))
        (folder / WHOLE).write_text(json.dumps({"image_processor": content["image_processor"]}))
        assert set(loaded(folder).describe().declared) == {"image"}


@pytest.mark.parametrize("family", ["siglip", "llava", "internvl", "pixtral", "clip", "dinov2", "siglip2"])
def test_other_families_take_no_video(families: Families, family: str) -> None:
    assert set(loaded(families.folder(family)).describe().declared) == {"image"}


@pytest.mark.parametrize(
    ("family", "changes", "named"),
    [
        ("qwen2_vl", {"merge_size": None}, "merge_size is missing or not a positive number"),
        ("qwen3_vl", {"temporal_patch_size": None}, "temporal_patch_size is missing or not a positive number"),
        ("glm4v", {"temporal_patch_size": 0}, "temporal_patch_size is missing or not a positive number"),
        ("qwen3_vl", {"patch_size": 16.5}, "patch_size is missing or not a positive number"),
        ("glm4v", {"size": None}, "size or min_pixels and max_pixels are missing"),
        ("qwen3_vl", {"video_processor_type": None}, "video_processor_type 'None' is not known"),
        ("qwen3_vl", {"video_processor_type": "Qwen2VLImageProcessor"}, "'Qwen2VLImageProcessor' is not known"),
        ("qwen3_vl", {"video_processor_type": "NoVideoProcessor"}, "'NoVideoProcessor' is not known"),
        ("qwen3_vl", {"video_processor_type": "InternVLVideoProcessor"}, "'InternVLVideoProcessor' gives no grids"),
        ("qwen2_vl", {"size": {"edge": 84}}, "size or min_pixels and max_pixels are missing"),
        ("qwen3_vl", {"num_frames": 8}, "do_sample_frames cannot be done with fps and num_frames as set"),
        ("qwen2_vl", {"do_sample_frames": True}, "do_sample_frames cannot be done with fps and num_frames as set"),
        ("glm4v", {"fps": 0}, "do_sample_frames cannot be done with fps and num_frames as set"),
    ],
)
def test_what_cannot_run_is_refused_by_its_name(
    families: Families, family: str, changes: dict[str, Any], named: str
) -> None:
    with pytest.raises(RefusedError) as refused:
        loaded(families.copy(family, {VIDEO: changes}))
    assert str(refused.value).startswith(f"{VIDEO}: ")
    assert named in str(refused.value)


def test_a_video_file_that_is_no_json_is_refused_and_not_passed_by(families: Families) -> None:
    folder = families.copy("qwen2_vl")
    (folder / VIDEO).write_text("{")
    with pytest.raises(RefusedError, match=rf"^{VIDEO}: not JSON$"):
        loaded(folder)
