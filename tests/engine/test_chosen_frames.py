"""Frames of a video file chosen before it is decoded: those, bit for bit, of who decodes all and then chooses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import transformers

from encoder_server.encoders import ChoosesFrames, Clip, Encoder, UnfitMediaError, video_processors
from encoder_server.engine.bounds import DEFAULTS
from encoder_server.engine.decode import BadMediaError
from encoder_server.engine.decode_clip import decode_clip
from encoder_server.engine.pipeline import Pipeline
from encoder_server.engine.preprocess import Medium
from tests.support import video_files
from tests.support.clips import loaded
from tests.support.families import VIDEO, WITH_VIDEO, Families
from tests.support.media import clip
from tests.support.media_encoder import MediaEncoder

# Where the folders as published do not sample, a folder that says so.
SAMPLING = {family: {"do_sample_frames": True, "fps": 2} for family in ("qwen2_vl", "qwen2_5_vl")}
LENGTHS = (1, 2, 3, 4, 5, 7, 24, 31, 33, 90, 151)
RATES = (2, 3, 10, 30)
UNEVEN = [0, 40, 90, 410, 460, 1000, 1010, 1700, 2500, 2540, 2600]
ODD: dict[str, Callable[[], bytes]] = {
    "frames at uneven times": lambda: clip(
        [20 * at for at in range(11)], form="matroska", times=UNEVEN, codec="libx264"
    ),
    "frames that are not shown": video_files.hidden_frames,
    "two frames in a packet": video_files.two_in_a_packet,
    "packets of no frame": video_files.joined_in_the_middle,
    "frames cut by an edit list": video_files.cut_by_an_edit_list,
    "AVI, without times": lambda: clip([8 * at for at in range(31)], form="avi", codec="mpeg4", fps=25),
}


def folder_that_samples(families: Families, family: str) -> Path:
    return families.copy(family, {VIDEO: SAMPLING[family]}) if family in SAMPLING else families.folder(family)


@pytest.fixture(scope="module", params=WITH_VIDEO)
def folder(request: pytest.FixtureRequest, families: Families) -> Path:
    return folder_that_samples(families, str(request.param))


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder[Any]:
    return loaded(folder)


def both(content: bytes, encoder: Encoder[Any]) -> tuple[Clip, Clip]:
    """All frames of a file, and those that the encoder chooses."""
    assert isinstance(encoder, ChoosesFrames)
    return (
        decode_clip(content, bounds=DEFAULTS),
        decode_clip(content, bounds=DEFAULTS, choose=encoder.frames_wanted),
    )


def hold_alike(encoder: Encoder[Any], whole: Clip, chosen: Clip) -> None:
    """The features of both are the same, bit for bit."""
    assert (whole.indices, chosen.total, chosen.fps) == (None, len(whole.frames), whole.fps)
    assert numpy.array_equal(chosen.frames, whole.frames[list(chosen.indices or ())])
    (told,), (own,) = encoder.preprocess([chosen]), encoder.preprocess([whole])
    assert (told.tokens, told.grid, told.cost) == (own.tokens, own.grid, own.cost)
    assert told.tensors["pixel_values"].equal(own.tensors["pixel_values"])


@pytest.mark.parametrize("fps", RATES)
def test_the_features_are_those_of_decoding_everything_and_letting_the_processor_sample(
    encoder: Encoder[Any], fps: int
) -> None:
    fewer = 0
    for frames in LENGTHS:
        whole, chosen = both(video_files.moving(frames, fps), encoder)
        assert len(whole.frames) == frames
        hold_alike(encoder, whole, chosen)
        fewer += len(chosen.frames) < frames
    assert fewer >= (4 if fps > 2 else 0)


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_files_whose_packets_do_not_say_how_many_frames_there_are_make_no_other_features(
    encoder: Encoder[Any], odd: Callable[[], bytes]
) -> None:
    hold_alike(encoder, *both(odd(), encoder))


def test_the_frames_are_counted_anew_where_the_packets_were_others() -> None:
    for odd, counts in (("two frames in a packet", [10, 20]), ("packets of no frame", [45, 25])):
        asked: list[int] = []

        def third(total: int, fps: float | None, asked: list[int] = asked) -> Sequence[int]:
            asked.append(total)
            return range(total % 3, total, 3)

        content = ODD[odd]()
        whole, chosen = decode_clip(content, bounds=DEFAULTS), decode_clip(content, bounds=DEFAULTS, choose=third)
        assert list(dict.fromkeys(asked)) == counts
        assert chosen.total == len(whole.frames) == counts[1]
        assert numpy.array_equal(chosen.frames, whole.frames[counts[1] % 3 :: 3])


def test_a_part_that_the_edit_list_cuts_off_is_not_missing() -> None:
    assert [len(decode_clip(video_files.cut_by_an_edit_list(cut), bounds=DEFAULTS).frames) for cut in (3, 7)] == [
        22,
        18,
    ]


class Seen:
    """A video processor that keeps what it is told of a clip."""

    def __init__(self, processor: Any) -> None:
        self._processor = processor

    def __getattr__(self, name: str) -> Any:
        return getattr(self._processor, name)

    def __call__(self, **keys: Any) -> Any:
        self.metadata = keys["video_metadata"][0]
        return self._processor(**keys)


def test_the_processor_is_told_of_the_frames_what_it_would_tell_itself(folder: Path, encoder: Encoder[Any]) -> None:
    for frames, fps in ((31, 10), (90, 30), (7, 3)):
        whole, chosen = both(video_files.moving(frames, fps), encoder)
        processor = Seen(transformers.AutoVideoProcessor.from_pretrained(folder, local_files_only=True))
        own = processor(
            videos=[torch.from_numpy(whole.frames)],
            video_metadata=[{"total_num_frames": frames, "fps": whole.fps, "duration": frames / (whole.fps or 1)}],
            do_sample_frames=True,
            return_metadata=True,
            input_data_format="channels_last",
            return_tensors="pt",
        )["video_metadata"][0]
        patches, _ = video_processors.run(processor, chosen)
        told = processor.metadata
        assert list(told.frames_indices) == [int(at) for at in own.frames_indices]
        assert (told.total_num_frames, told.fps, told.duration) == (own.total_num_frames, own.fps, own.duration)
        assert told.sampled_fps == own.sampled_fps
        # The library's own are of float32 where its sampler gives a tensor.
        assert told.timestamps == pytest.approx([float(at) for at in own.timestamps], rel=1e-6)
        assert patches.equal(video_processors.run(processor, whole)[0])


def test_a_processor_that_samples_nothing_is_given_every_frame(families: Families) -> None:
    for family in ("qwen2_vl", "qwen2_5_vl"):
        encoder = loaded(families.folder(family))
        whole, chosen = both(video_files.moving(40, 10), encoder)
        assert chosen.indices == tuple(range(40))
        hold_alike(encoder, whole, chosen)


def test_a_size_that_is_told_of_a_file_makes_the_same_grid_when_a_probe_asks_for_it(encoder: Encoder[Any]) -> None:
    pipeline = Pipeline(encoder)
    for frames, fps in ((90, 30), (5, 2), (31, 10)):
        (promise,) = pipeline.prepare(
            [Medium(index=0, modality="video", data=video_files.moving(frames, fps))]
        ).promises
        assert promise.size is not None
        probed, _ = pipeline.probe([promise.size])
        assert (probed[-1].grid, probed[-1].result) == (promise.grid, "ok")


@pytest.mark.parametrize("share", [0.3, 0.6, 0.95, 0.999])
def test_a_file_cut_short_is_refused_as_it_is_without_a_choice(share: float) -> None:
    for form in ("mp4", "matroska"):
        whole = video_files.moving(60, 30, form=form)
        content = whole[: int(len(whole) * share)]
        said = []
        for choose in (None, lambda total, fps: range(0, total, 15)):
            with pytest.raises(BadMediaError) as caught:
                decode_clip(content, bounds=DEFAULTS, choose=choose)
            said.append(str(caught.value))
        assert said[0] == said[1]


def test_damage_anywhere_changes_no_row_unseen() -> None:
    rng = numpy.random.default_rng(11)
    for form in ("mp4", "matroska"):
        whole = video_files.moving(40, 10, form=form)
        for _ in range(30):
            content = bytearray(whole)
            for at in rng.integers(0, len(whole), 3):
                content[at] = rng.integers(0, 256)
            ends: list[Clip | str] = []
            for choose in (None, lambda total, fps: range(0, total, 5)):
                try:
                    ends.append(decode_clip(bytes(content), bounds=DEFAULTS, choose=choose))
                except BadMediaError as error:
                    ends.append(str(error))
            every, chosen = ends
            if isinstance(every, Clip) and isinstance(chosen, Clip):
                assert numpy.array_equal(chosen.frames, every.frames[::5])
            else:
                assert every == chosen


def tenth(total: int, fps: float | None) -> Sequence[int]:
    return range(0, total, 10)


def test_the_limits_of_frames_and_pixels_are_of_those_that_are_taken() -> None:
    content, pixels = video_files.moving(100, 25), 10 * 64 * 48
    kept = decode_clip(content, bounds=replace(DEFAULTS, max_frames=10, max_clip_pixels=pixels), choose=tenth)
    assert len(kept.frames) == 10
    with pytest.raises(BadMediaError, match=r"^10 frames of the video are taken; the limit is 9$"):
        decode_clip(content, bounds=replace(DEFAULTS, max_frames=9), choose=tenth)
    with pytest.raises(BadMediaError, match=r"the 10 of them that are taken are 30720 pixels; the limit is 30719$"):
        decode_clip(content, bounds=replace(DEFAULTS, max_clip_pixels=pixels - 1), choose=tenth)


def test_an_hour_that_fits_into_a_request_is_refused_by_its_packets_before_a_frame_is_decoded() -> None:
    content = video_files.black(24 * 3600)
    assert len(content) < 2**25

    def never(total: int, fps: float | None) -> Sequence[int]:
        raise AssertionError("asked, and so about to be decoded")

    with pytest.raises(BadMediaError, match=r"^the video has 259 frames of 3840x2160 or more to decode; the limit is"):
        decode_clip(content, bounds=replace(DEFAULTS, max_video_seconds=4000), choose=never)
    with pytest.raises(BadMediaError, match=r"^3600\.\d s of video; the limit is 600 s$"):
        decode_clip(content, bounds=DEFAULTS, choose=never)
    assert len(decode_clip(video_files.black(12), bounds=DEFAULTS, choose=tenth).frames) == 2


class Choosing(MediaEncoder):
    """Takes every tenth frame of a file, or does what it should not."""

    def frames_wanted(self, total: int, fps: float | None) -> Sequence[Any]:
        return self.chosen(total)

    @staticmethod
    def chosen(total: int) -> Sequence[Any]:
        return range(0, total, 10)


def file_of(frames: int, index: int = 0) -> Medium:
    return Medium(index=index, modality="video", data=video_files.moving(frames, 25))


def test_an_encoder_of_ones_own_is_given_what_it_chose_and_told_which_those_are() -> None:
    encoder = Choosing()
    (promise,) = Pipeline(encoder).prepare([file_of(25)]).promises
    ((given,),) = encoder.calls
    assert isinstance(given, Clip)
    assert (given.frames.shape, given.indices, given.total, given.fps) == ((3, 48, 64, 3), (0, 10, 20), 25, 25)
    assert promise.size is not None
    assert promise.size.measures == {"width": 64, "height": 48, "frames": 3}


def test_an_encoder_that_chooses_nothing_is_given_every_frame_of_a_file() -> None:
    encoder = MediaEncoder()
    (promise,) = Pipeline(encoder).prepare([file_of(25)]).promises
    ((given,),) = encoder.calls
    assert isinstance(given, Clip)
    assert (len(given.frames), given.indices, given.total) == (25, None, 25)
    assert promise.size is not None
    assert promise.size.measures == {"width": 64, "height": 48, "frames": 25, "fps": 25.0}


def raising(error: BaseException) -> Callable[[int], Sequence[Any]]:
    def choose(total: int) -> Sequence[Any]:
        raise error

    return choose


@pytest.mark.parametrize(
    ("chosen", "code", "detail"),
    [
        (raising(UnfitMediaError("more than I take")), "bad_media", "more than I take"),
        (raising(ValueError("shapes do not match")), "layout", "shapes or positions do not fit in the processor"),
        (raising(KeyError("fps")), "internal", "the processor failed"),
        (raising(SystemExit(3)), "internal", "the processor failed"),
        (lambda total: [], "layout", "shapes or positions do not fit in the processor"),
        (lambda total: [0, total], "layout", "shapes or positions do not fit in the processor"),
        (lambda total: [-1], "layout", "shapes or positions do not fit in the processor"),
        (lambda total: [0.5], "internal", "the processor failed"),
    ],
)
def test_a_choice_that_fails_costs_its_item_alone_and_counts_as_the_processors(
    monkeypatch: pytest.MonkeyPatch, chosen: Callable[[int], Sequence[Any]], code: str, detail: str
) -> None:
    def only_of_nine(total: int) -> Sequence[Any]:
        return chosen(total) if total == 9 else range(total)

    monkeypatch.setattr(Choosing, "chosen", staticmethod(only_of_nine))
    prepared = Pipeline(Choosing()).prepare([file_of(8, 0), file_of(9, 1), file_of(10, 2)])
    assert [each.index for each in prepared.promises] == [0, 2]
    assert [(each.index, each.code, each.detail) for each in prepared.failures] == [(1, code, detail)]


def test_frames_may_be_wanted_in_any_order_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Choosing, "chosen", staticmethod(lambda total: [5, 2, 5, total - 1]))
    encoder, content = Choosing(), video_files.moving(12, 25)
    Pipeline(encoder).prepare([Medium(index=0, modality="video", data=content)])
    ((given,),) = encoder.calls
    assert isinstance(given, Clip)
    assert numpy.array_equal(given.frames, decode_clip(content, bounds=DEFAULTS).frames[[5, 2, 5, 11]])


def test_a_file_that_names_the_same_bytes_again_and_again_is_not_read_so_often() -> None:
    with pytest.raises(BadMediaError, match="more bytes than it has"):
        decode_clip(video_files.overlapping(300, 100_000), bounds=DEFAULTS)
