"""Batches of several modalities: one call of the encoder for each, and nobody's result depends on the others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from encoder_server.encoders import RefusedError
from encoder_server.engine.bounds import DEFAULTS
from encoder_server.engine.pipeline import Pipeline
from encoder_server.engine.preprocess import Medium
from tests.support.media import clip, frame, sound, tone
from tests.support.media_encoder import MediaEncoder


def media() -> list[Medium]:
    small, large = clip([0, 90, 180]), clip([5] * 6, width=128, height=96)
    return [
        Medium(index=0, modality="video", data=small),
        Medium(index=1, modality="image", data=frame()),
        Medium(index=2, modality="audio", data=sound(tone(20_000))),
        Medium(index=3, modality="video", data=large),
        Medium(index=4, modality="image", data=frame(90, 30)),
        Medium(index=5, modality="video", frames=(frame(), frame(56, 56, 9)), fps=2.0),
    ]


def test_one_call_of_the_encoder_has_one_modality_and_results_keep_the_order() -> None:
    encoder = MediaEncoder()
    pipeline = Pipeline(encoder)
    prepared = pipeline.prepare(media())
    embeddings, failures = pipeline.encode(prepared)
    assert [[each.modality for each in call] for call in encoder.calls] == [["video"] * 3, ["image"] * 2, ["audio"]]
    assert encoder.encoded == [["video"] * 3, ["image"] * 2, ["audio"]]
    assert [each.index for each in prepared.promises] == [each.index for each in embeddings] == [0, 1, 2, 3, 4, 5]
    assert [each.tokens for each in prepared.promises] == [len(each.rows) for each in embeddings]
    assert (prepared.failures, failures) == ((), [])


def test_videos_of_several_sizes_in_one_batch_have_the_rows_that_each_has_alone() -> None:
    pipeline = Pipeline(MediaEncoder())
    together, _ = pipeline.encode(pipeline.prepare(media()))
    for medium, beside in zip(media(), together, strict=True):
        (alone,), _ = pipeline.encode(pipeline.prepare([medium]))
        assert alone.rows.equal(beside.rows)


def test_no_more_is_decoded_at_a_time_than_one_video_may_have() -> None:
    encoder = MediaEncoder()
    pipeline = Pipeline(encoder, bounds=replace(DEFAULTS, max_clip_pixels=6 * 128 * 96))
    assert len(pipeline.prepare(media()).promises) == 6
    assert [len(call) for call in encoder.calls if call[0].modality == "video"] == [1, 1, 1]


def test_an_item_that_cannot_be_decoded_fails_alone_and_its_size_is_not_known() -> None:
    bad = [Medium(index=9, modality="audio", data=b"RIFF0000WAVE"), Medium(index=8, modality="video", data=b"hello")]
    prepared = Pipeline(MediaEncoder()).prepare([*bad, *media()])
    assert [(each.index, each.code, each.size) for each in prepared.failures] == [
        (9, "bad_media", None),
        (8, "bad_media", None),
    ]
    assert len(prepared.promises) == 6


def test_a_promise_tells_the_size_that_was_decoded() -> None:
    sizes = [each.size for each in Pipeline(MediaEncoder()).prepare(media()).promises]
    assert [each.measures for each in sizes if each is not None] == [
        {"width": 64, "height": 48, "frames": 3, "fps": 10.0},
        {"width": 56, "height": 56},
        {"samples": 20_000, "rate": 16_000},
        {"width": 128, "height": 96, "frames": 6, "fps": 10.0},
        {"width": 90, "height": 30},
        {"width": 56, "height": 56, "frames": 2, "fps": 2.0},
    ]


def test_a_probe_has_the_modalities_that_the_encoder_declares_and_no_others() -> None:
    for modalities in (("image",), ("image", "video"), ("audio",)):
        measured = Pipeline(MediaEncoder(modalities)).measure()
        assert {each.modality for each in measured.probe} == set(modalities)
        assert all(each.result == "ok" for each in measured.probe)


def test_the_probe_is_no_stricter_than_the_limits_of_callers_are_low() -> None:
    bounds = replace(DEFAULTS, max_frames=1, max_audio_seconds=0.1, max_pixels=100, max_clip_pixels=100)
    low = Pipeline(MediaEncoder(), bounds=bounds).measure()
    assert low.probe == Pipeline(MediaEncoder()).measure().probe


def test_an_encoder_of_audio_says_at_what_rate_it_takes_it() -> None:
    class Silent(MediaEncoder):
        def describe(self):  # type: ignore[no-untyped-def]
            return replace(super().describe(), sampling_rate=None)

    with pytest.raises(RefusedError, match="no sampling rate"):
        Pipeline(Silent())
