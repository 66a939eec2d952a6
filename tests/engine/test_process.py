"""A real engine process: what it says, in which order, and when it leaves."""

from __future__ import annotations

import io
import signal
import socket
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import numpy
import pytest
import torch
from PIL import Image

from encoder_server.encoders import BATCH_BUDGET, Clip, Features, Picture, RefusedError
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder
from encoder_server.engine import messages, process
from encoder_server.engine.asides import Cancel
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import picture, pipeline_of
from tests.support.spawned import Engine, answer, greeting

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, about 0.7.
TOLERANCE = 2e-5

PLUG_IN = '''
"""A user's own encoder: Qwen2.5-VL with a defect."""
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder

class TruncatingEncoder(Qwen25VLEncoder):
    """Cuts what is longer than 40 rows."""

    def encode(self, features):
        return [rows[:40] for rows in super().encode(features)]
'''


@pytest.fixture(scope="module")
def truncating(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """An engine with an encoder from a package of its own, found by its entry point."""
    site = tmp_path_factory.mktemp("site")
    (site / "truncating.py").write_text(PLUG_IN)
    metadata = site / "truncating-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: truncating\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[encoder_server.encoders]\ntruncating = truncating:TruncatingEncoder\n")
    return Engine(f"--model={checkpoint}", "--encoder=truncating", python_path=[site])


def test_an_engine_in_another_process_measures_the_same_identity(
    engine: Engine, truncating: Engine, pipeline: Pipeline
) -> None:
    assert engine.measured() == pipeline.measure()
    assert {item.result for item in engine.measured().probe} == {"ok"}


def test_an_engine_says_how_its_items_may_share_a_batch(engine: Engine) -> None:
    hello = engine.greeting()
    assert isinstance(hello, messages.Hello)
    assert hello.together
    assert 0 <= hello.batch_budget <= BATCH_BUDGET


def test_rows_are_those_of_the_library_itself(engine: Engine, checkpoint: Path) -> None:
    library = Library(checkpoint)
    sizes = [(1, 1), (28, 28), (27, 29), (200, 1), (3, 150), (224, 224), (313, 91), (798, 519), (500, 19)]
    pictures = [picture(*size) for size in sizes]
    answered = engine.encode(pictures)
    assert [promise.index for promise in answered.promised.promises] == list(range(len(sizes)))
    for promise, data in zip(answered.promised.promises, pictures, strict=True):
        rows, grid = library.rows(data)
        assert promise.grid == grid
        assert promise.tokens == len(rows)
        assert answered.rows[promise.index].shape == rows.shape
        assert numpy.abs(answered.rows[promise.index] - rows).max() < TOLERANCE


def test_bad_media_fail_alone_in_our_own_words(engine: Engine) -> None:
    jpeg = io.BytesIO()
    Image.effect_noise((120, 90), 90).save(jpeg, "JPEG")
    good = picture(90, 120)
    answered = engine.encode([good, jpeg.getvalue()[:-700], b"hello", good, picture(1, 313)])
    assert [(failure.index, failure.code) for failure in answered.promised.failures] == [
        (1, "bad_media"),
        (2, "bad_media"),
        (4, "bad_media"),
    ]
    assert [failure.detail for failure in answered.promised.failures] == [
        "the picture is damaged or cut short",
        "not a JPEG, PNG, WebP or GIF picture",
        "1x313: the sides differ by more than 200 to 1",
    ]
    assert sorted(answered.rows) == [0, 3]
    assert numpy.abs(answered.rows[0] - answered.rows[3]).max() < TOLERANCE
    assert not answered.encoded.failures


def test_a_picture_over_the_pixel_limit_is_the_callers(engine: Engine) -> None:
    wide = io.BytesIO()
    Image.new("L", (4097, 4096)).save(wide, "PNG")
    (failure,) = engine.encode([wide.getvalue()]).promised.failures
    assert failure.code == "bad_media"
    assert "16777216" in failure.detail


def test_an_item_whose_caller_expected_another_count_is_not_encoded(engine: Engine) -> None:
    answered = engine.encode([picture(56, 56), picture(112, 112)], expected={0: 4, 1: 15})
    (failure,) = answered.promised.failures
    assert (failure.index, failure.code, failure.promised, failure.grid) == (1, "promise_mismatch", 16, (1, 8, 8))
    assert list(answered.rows) == [0]


def test_a_batch_in_which_nothing_can_be_encoded_is_answered_too(engine: Engine) -> None:
    answered = engine.encode([b""])
    assert not answered.promised.promises
    assert not answered.rows
    assert not answered.encoded.failures


def test_an_ordered_probe_tells_of_the_golden_items_and_of_the_sizes(engine: Engine) -> None:
    sizes = (
        messages.Size(modality="image", width=640, height=480),
        messages.Size(modality="smell", width=1, height=1),
        messages.Size(modality="image", width=0, height=5),
        messages.Size(modality="image", width=2, height=900),
    )
    items = engine.probe(*sizes).items
    golden = engine.measured().probe
    assert items[: len(golden)] == golden
    (item,) = items[len(golden) :]
    assert (item.width, item.height, item.grid, item.result) == (640, 480, (1, 34, 46), "ok")
    assert item.promised == item.produced == 391
    assert [item.index for item in items] == list(range(len(items)))


def test_an_engine_ignores_the_signals_that_end_its_front(engine: Engine) -> None:
    engine.process.send_signal(signal.SIGTERM)
    engine.process.send_signal(signal.SIGINT)
    assert engine.encode([picture(56, 56)]).rows[0].shape == (4, 64)


def test_an_encoder_from_a_users_own_package_is_found_and_its_defect_shows(truncating: Engine) -> None:
    measured = truncating.measured()
    assert measured.classes["encoder"] == "TruncatingEncoder"
    assert {item.result for item in measured.probe} == {"ok"}
    (item,) = truncating.probe(messages.Size(modality="image", width=640, height=480)).items[len(measured.probe) :]
    assert (item.result, item.promised, item.produced) == ("count", 391, 40)
    answered = truncating.encode([picture(56, 56), picture(640, 480)])
    assert [promise.tokens for promise in answered.promised.promises] == [4, 391]
    assert [len(rows) for rows in answered.rows.values()] == [4, 40]


def test_a_stopped_engine_leaves_with_status_0(truncating: Engine) -> None:
    truncating.greeting()
    messages.send(truncating.sock, messages.Stop())
    assert truncating.process.wait(10) == 0
    truncating.close()


def test_a_refused_checkpoint_is_told_and_ends_the_engine_with_status_3(tmp_path: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert process.run(theirs, lambda: Pipeline.load(tmp_path), threads=1) == 3
        assert greeting(ours) == messages.Refused(detail="config.json: missing: the folder is empty")


def test_a_refusal_that_names_half_a_character_is_told_all_the_same() -> None:
    def load() -> Pipeline:
        raise RefusedError("weights: visual.\ud800 is missing")

    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        assert process.run(theirs, load, threads=1) == 3
        assert greeting(ours) == messages.Refused(detail="weights: visual.? is missing")


def test_an_engine_whose_front_dies_leaves_while_it_is_still_loading(checkpoint: Path) -> None:
    assert Engine(f"--model={checkpoint}").close() == 0


class Waiting(Qwen25VLEncoder):
    """Waits in the model until it is told to go on."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        if max(item.cost for item in features) > 1000:
            assert self.go_on.wait(30)
        return super().encode(features)

    go_on = threading.Event()


def test_promises_are_sent_before_the_model_runs(checkpoint: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(30)
    loop = threading.Thread(
        target=process.run, args=(theirs, lambda: pipeline_of(checkpoint, Waiting)), kwargs={"threads": 1}
    )
    loop.start()
    with ours, theirs:
        assert isinstance(greeting(ours), messages.Hello)
        items = (messages.Item(index=0, modality="image", blob=0),)
        messages.send(ours, messages.Encode(batch=1, items=items), [picture(640, 480)])
        promised = messages.receive(ours).message
        assert isinstance(promised, messages.Promised)
        assert promised.promises[0].tokens == 391
        ours.setblocking(False)
        with pytest.raises(BlockingIOError):
            messages.receive(ours)
        ours.settimeout(30)
        Waiting.go_on.set()
        encoded = messages.receive(ours).message
        assert isinstance(encoded, messages.Encoded)
        assert encoded.outputs[0].shape == (391, 64)
        messages.send(ours, messages.Stop())
        loop.join(30)


class Noting(Qwen25VLEncoder):
    """Waits in its processor until it is told to go on, and notes how many items its model is given."""

    def preprocess(self, media: Sequence[Picture | Clip]) -> list[Features]:
        if self.waits.is_set():
            assert self.go_on.wait(30)
        return super().preprocess(media)

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        self.given.append(len(features))
        return super().encode(features)

    waits, go_on = threading.Event(), threading.Event()
    given: ClassVar[list[int]] = []


def test_what_is_cancelled_before_the_model_runs_is_not_encoded(checkpoint: Path) -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.settimeout(30)
    loop = threading.Thread(
        target=process.run, args=(theirs, lambda: pipeline_of(checkpoint, Noting)), kwargs={"threads": 1}
    )
    loop.start()
    with ours, theirs:
        assert isinstance(greeting(ours), messages.Hello)
        Noting.waits.set()
        Noting.given.clear()
        items = tuple(messages.Item(index=at, modality="image", blob=at) for at in range(3))
        pictures = [picture(56, 56), picture(84, 84), picture(112, 112)]
        messages.send(ours, messages.Encode(batch=1, items=items), pictures)
        messages.send(ours, Cancel(batch=1, items=(0, 2)))
        messages.send(ours, messages.Encode(batch=2, items=items), pictures)
        Noting.go_on.set()
        first, second = answer(ours), answer(ours)
        assert [promise.index for promise in first.promised.promises] == [0, 1, 2]
        assert (list(first.rows), list(second.rows)) == ([1], [0, 1, 2])
        assert not first.encoded.failures
        assert Noting.given == [1, 3]
        messages.send(ours, messages.Stop())
        loop.join(30)


class Library:
    """The model and the processor as the library loads and runs them: Conv3d, one picture at a time."""

    def __init__(self, folder: Path) -> None:
        import json

        from safetensors.torch import load_file
        from transformers import AutoImageProcessor
        from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLVisionConfig
        from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VisionTransformerPretrainedModel

        section = json.loads((folder / "config.json").read_text())["vision_config"]
        section.pop("model_type")
        self._model = Qwen2_5_VisionTransformerPretrainedModel(Qwen2_5_VLVisionConfig(**section)).eval()
        tensors = load_file(folder / "model.safetensors")
        self._model.load_state_dict(
            {key.removeprefix("visual."): value for key, value in tensors.items() if key.startswith("visual.")}
        )
        self._processor = AutoImageProcessor.from_pretrained(folder, backend="torchvision", local_files_only=True)

    def rows(self, data: bytes) -> tuple[numpy.ndarray, tuple[int, ...]]:
        """The rows and the grid of one picture file."""
        image = Image.open(io.BytesIO(data)).convert("RGB")
        batch = self._processor(images=image, input_data_format="channels_last", return_tensors="pt")
        grids = batch["image_grid_thw"]
        with torch.no_grad():
            rows = self._model(hidden_states=batch["pixel_values"], grid_thw=grids).pooler_output
        return rows.numpy(), tuple(grids[0].tolist())
