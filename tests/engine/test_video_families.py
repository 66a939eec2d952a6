"""Clips: the library's rows for every family that takes them, whatever their frames, rate and batch mates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from numpy.typing import NDArray

from encoder_server.encoders import Clip, Encoder, Picture, UnfitMediaError
from tests.support.clips import clip, loaded, rows
from tests.support.families import CONFIG, IMAGE, VIDEO, WITH_VIDEO, Families, Tensors, rewrite
from tests.support.library import Library

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, 0.2 and more.
TOLERANCE = 2e-5
CLIPS = [
    clip(4, 56, 56),
    clip(5, 112, 84),
    clip(2, 61, 173, seed=1),
    clip(3, 28, 300),
    clip(8, 100, 75),
    clip(4, 84, 112),
    clip(7, 150, 200, fps=2.0),
    clip(4, 56, 56, seed=2),
]
EMBEDDING = {"glm4v": "model.visual.", "qwen2_5_vl": "visual.", "qwen2_vl": "visual.", "qwen3_vl": "model.visual."}


def apart(one: NDArray[numpy.float32], other: NDArray[numpy.float32]) -> float:
    assert one.shape == other.shape
    return float(numpy.abs(one - other).max())


def with_temporal_patch(families: Families, family: str, frames: int) -> Path:
    """The family's checkpoint with patches of so many frames: settings, and the convolution that embeds them."""
    vision = json.loads((families.folder(family) / CONFIG).read_text())["vision_config"]
    keys = {"temporal_patch_size": frames}
    folder = families.copy(family, {CONFIG: {"vision_config": vision | keys}, IMAGE: keys, VIDEO: keys})
    name = f"{EMBEDDING[family]}patch_embed.proj.weight"

    def deepen(held: Tensors) -> Tensors:
        first, last = held[name][:, :, :1], held[name][:, :, 1:2]
        steps = [first * (1 - at / max(frames - 1, 1)) + last * (at / max(frames - 1, 1)) for at in range(frames)]
        return {**held, name: torch.cat(steps, dim=2)}

    rewrite(folder, deepen)
    return folder


@pytest.fixture(scope="module", params=WITH_VIDEO)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def encoder(families: Families, family: str) -> Encoder[Any]:
    return loaded(families.folder(family))


def test_a_clips_rows_are_those_of_the_library_alone_and_in_a_batch_of_any_order(
    families: Families, family: str, encoder: Encoder[Any]
) -> None:
    truth = [families.library(family).clip_rows(each) for each in CLIPS]
    assert all(apart(rows(encoder, each)[0], own) < TOLERANCE for each, own in zip(CLIPS, truth, strict=True))
    for order in (list(range(len(CLIPS))), [3, 1, 7, 0, 6, 2, 5, 4]):
        together = rows(encoder, *(CLIPS[at] for at in order))
        assert all(apart(made, truth[at]) < TOLERANCE for at, made in zip(order, together, strict=True))


def test_pictures_between_clips_change_neither(families: Families, family: str, encoder: Encoder[Any]) -> None:
    picture = Picture(pixels=clip(1, 112, 84).frames[0])
    one, other = rows(encoder, picture)[0], rows(encoder, CLIPS[1])[0]
    assert numpy.array_equal(rows(encoder, picture)[0], one)
    assert numpy.array_equal(rows(encoder, CLIPS[1])[0], other)
    (still,) = encoder.preprocess([picture])
    (moving,) = encoder.preprocess([CLIPS[1]])
    assert (still.modality, moving.modality) == ("image", "video")


def test_a_video_is_declared_beside_pictures_as_wide_as_they_are(encoder: Encoder[Any]) -> None:
    description = encoder.describe()
    assert description.declared["video"] == description.declared["image"]
    assert rows(encoder, CLIPS[0])[0].shape[1] == description.declared["video"].width


@pytest.mark.parametrize("temporal", [1, 2, 3, 4])
@pytest.mark.parametrize("family_of_patch", ["qwen2_5_vl", "qwen3_vl", "glm4v"])
def test_any_number_of_frames_is_filled_up_to_whole_patches_with_the_last(
    families: Families, family_of_patch: str, temporal: int
) -> None:
    folder = with_temporal_patch(families, family_of_patch, temporal)
    encoder, library = loaded(folder), Library(folder, family_of_patch)
    for frames in range(1, 34):
        given = clip(frames, 56, 56)
        (features,) = encoder.preprocess([given])
        assert features.grid[0] == -(-frames // temporal)
        (made,) = rows(encoder, given)
        assert len(made) == features.tokens
        missing = -frames % temporal
        filled = Clip(frames=numpy.concatenate([given.frames, given.frames[-1:].repeat(missing, axis=0)]), fps=None)
        if frames in {1, 2, 3, 5, 8, 13, 33}:
            assert apart(made, rows(encoder, filled)[0]) < TOLERANCE
            assert apart(made, library.clip_rows(filled)) < TOLERANCE


@pytest.mark.parametrize(("frames", "fps"), [(9, 3.0), (30, 29.97), (31, 7.3), (33, 5.0), (20, 2.0), (12, 0.5)])
def test_a_clip_with_a_rate_is_sampled_as_the_library_samples_it_where_the_settings_say_so(
    families: Families, family: str, encoder: Encoder[Any], frames: int, fps: float
) -> None:
    given = clip(frames, 56, 56, fps=fps)
    (made,) = rows(encoder, given)
    assert apart(made, families.library(family).clip_rows(given)) < TOLERANCE
    (bare,) = encoder.preprocess([Clip(frames=given.frames, fps=None)])
    assert bare.grid[0] == -(-frames // 2)
    sampling = encoder.describe().processor["video"]["do_sample_frames"]  # type: ignore[index]
    assert sampling or bare.grid == encoder.preprocess([given])[0].grid


def test_a_rate_at_which_frames_share_a_time_step_of_the_language_model_loses_no_row(encoder: Encoder[Any]) -> None:
    for fps in (5.0, 9.0, 60.0, 1000.0):
        (features,) = encoder.preprocess([clip(24, 56, 56, fps=fps)])
        assert len(encoder.encode([features])[0]) == features.tokens


def test_qwen2_vl_samples_too_where_its_settings_say_so(families: Families) -> None:
    for keys in ({"fps": 2}, {"num_frames": 6}):
        folder = families.copy("qwen2_vl", {VIDEO: {"do_sample_frames": True, **keys}})
        encoder, library = loaded(folder), Library(folder, "qwen2_vl")
        for frames in (7, 9, 16, 31):
            given = clip(frames, 56, 56, fps=4.0)
            assert apart(rows(encoder, given)[0], library.clip_rows(given)) < TOLERANCE
        (one,) = encoder.preprocess([clip(1, 56, 56, fps=25.0)])
        assert one.grid[0] == 1


def test_more_or_fewer_frames_than_the_processor_takes_are_the_callers_with_the_limit(families: Families) -> None:
    few = loaded(families.copy("qwen3_vl", {VIDEO: {"max_frames": 6}}))
    assert few.preprocess([clip(6, 56, 56)])[0].grid[0] == 3
    with pytest.raises(UnfitMediaError, match=r"^7 frames: the processor takes at most 6$"):
        few.preprocess([clip(7, 56, 56)])
    assert few.preprocess([clip(300, 32, 32, fps=30.0)])[0].grid[0] == 3
    with pytest.raises(UnfitMediaError, match=r"^a video of no frames$"):
        few.preprocess([Clip(frames=numpy.zeros((0, 56, 56, 3), dtype=numpy.uint8), fps=None)])
    short = loaded(families.copy("glm4v", {VIDEO: {"max_duration": 4}}))
    with pytest.raises(UnfitMediaError, match=r"^9 frames: the processor takes at most 8$"):
        short.preprocess([clip(9, 56, 56)])
    many = loaded(families.copy("qwen2_vl", {VIDEO: {"do_sample_frames": True, "num_frames": 16}}))
    with pytest.raises(UnfitMediaError, match=r"^8 frames at 4 a second: fewer than the processor's settings sample$"):
        many.preprocess([clip(8, 56, 56, fps=4.0)])


def test_thin_tiny_and_odd_frames_are_encoded_as_promised_or_refused_with_the_limit(encoder: Encoder[Any]) -> None:
    for width, height in [(1, 1), (1, 2), (3, 3), (3, 150), (200, 1), (1, 200), (27, 29), (639, 31), (31, 639), (6, 1)]:
        (features,) = encoder.preprocess([clip(2, width, height)])
        assert len(encoder.encode([features])[0]) == features.tokens
    with pytest.raises(UnfitMediaError, match=r"^1x201: the sides differ by more than 200 to 1$"):
        encoder.preprocess([clip(2, 1, 201)])
