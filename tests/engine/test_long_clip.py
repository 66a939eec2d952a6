"""A minute of ordinary video through a real engine: its rows, and its memory beside that of decoding all of it."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator

import av
import numpy
import pytest
import transformers
from transformers.video_utils import VideoMetadata

from encoder_server.encoders import Clip
from encoder_server.engine.preprocess import Medium
from tests.support import video_files
from tests.support.families import Families
from tests.support.spawned import Engine

SECONDS, FPS, WIDTH, HEIGHT = 60, 30, 640, 360
DECODED = SECONDS * FPS * WIDTH * HEIGHT * 3
# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, 0.2 and more.
TOLERANCE = 2e-5


@pytest.fixture(scope="module")
def minute() -> bytes:
    return video_files.moving(SECONDS * FPS, FPS, width=WIDTH, height=HEIGHT)


@pytest.fixture(scope="module")
def qwen3_vl(families: Families) -> Iterator[Engine]:
    engine = Engine(f"--model={families.folder('qwen3_vl')}")
    yield engine
    assert engine.close() == 0


def only(content: bytes, wanted: Collection[int]) -> Clip:
    """Frames of a file, as PyAV alone decodes it."""
    with av.open(io.BytesIO(content), "r") as file:
        kept = [frame.to_ndarray(format="rgb24") for at, frame in enumerate(file.decode(video=0)) if at in set(wanted)]
    return Clip(frames=numpy.stack(kept), fps=None)


def test_a_minute_has_the_rows_of_the_library_in_a_fraction_of_its_decoded_size(
    minute: bytes, qwen3_vl: Engine, families: Families
) -> None:
    qwen3_vl.greeting()
    before = qwen3_vl.peak()
    answer = qwen3_vl.encode_video(minute)
    assert (answer.promised.failures, answer.encoded.failures) == ((), ())
    assert qwen3_vl.peak() - before < DECODED / 3
    processor = transformers.AutoVideoProcessor.from_pretrained(families.folder("qwen3_vl"), local_files_only=True)
    metadata = VideoMetadata(total_num_frames=SECONDS * FPS, fps=FPS, duration=SECONDS)
    sampled = only(minute, {int(at) for at in processor.sample_frames(metadata=metadata)})
    assert len(sampled.frames) == 2 * SECONDS
    truth = families.library("qwen3_vl").clip_rows(sampled)
    assert answer.rows[0].shape == truth.shape
    assert numpy.abs(answer.rows[0] - truth).max() < TOLERANCE


def test_where_the_processor_samples_nothing_a_minute_is_too_much_and_the_limit_is_named(
    minute: bytes, families: Families
) -> None:
    prepared = families.pipeline("qwen2_5_vl").prepare([Medium(index=0, modality="video", data=minute)])
    said = "1800 frames: the processor takes at most 768, and its settings sample none of them"
    assert [(each.code, each.detail) for each in prepared.failures] == [("bad_media", said)]
