"""Checkpoint folders as they are published: the library's rows, and what the published settings promise."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from numpy.typing import NDArray

from encoder_server.encoders import Encoder, Picture, RefusedError
from encoder_server.engine.pipeline import Pipeline
from tests.support import checkpoints, clips, sounds
from tests.support.checkpoints import NAMES, Published
from tests.support.encoders import around, picture
from tests.support.families import IMAGE, WEIGHTS, WITH_VIDEO, Tensors
from tests.support.library import Library

# A batch changes the order of float32 sums; a wrong row is off by the size of an embedding's values, 0.2 and more.
TOLERANCE = 2e-5
SIZES = [(640, 480), (61, 173), (1, 1), (300, 28)]
Rows = NDArray[numpy.float32]


class Served:
    """A published checkpoint, cut down, with what the server and the library make of it in whole precision."""

    def __init__(self, name: str, root: Path) -> None:
        torch.set_num_threads(1)
        self.published = Published(name)
        self.folder = self.published.write(root / name)
        self.encoder: Encoder[Any] = clips.loaded(self.folder, "float32")

    @property
    def family(self) -> str:
        return self.published.family

    def library(self) -> Any:
        if self.family in sounds.FAMILIES:
            return sounds.SoundLibrary(self.folder, self.family, dtype="float32")
        return Library(self.folder, self.family, name=self.published.library, dtype="float32")


@pytest.fixture(scope="module", params=NAMES)
def served(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Served:
    return Served(request.param, tmp_path_factory.mktemp("published"))


@pytest.fixture
def memory_taken_by() -> Callable[[Callable[[], object]], int]:
    """Bytes that this process grew by at most while it did something."""

    def taken(act: Callable[[], object]) -> int:
        Path("/proc/self/clear_refs").write_text("5")
        before = peak()
        act()
        return peak() - before

    def peak() -> int:
        lines = Path("/proc/self/status").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))

    return taken


def apart(one: Rows, other: Rows) -> float:
    assert one.shape == other.shape
    return float(numpy.abs(one - other).max())


def test_its_rows_are_those_that_the_library_reads_from_the_same_folder(served: Served) -> None:
    library, encoder = served.library(), served.encoder
    if served.family in sounds.FAMILIES:
        for seed, length in enumerate((800, 16_000, 48_161, 176_123)):
            sound = sounds.speech(length, seed)
            assert apart(sounds.rows(encoder, sound)[0], library.rows(sound)) < TOLERANCE
        return
    pipeline = around(encoder)
    for size in SIZES:
        assert apart(pipeline.rows(picture(*size)), library.rows(picture(*size))) < TOLERANCE
    if served.family in WITH_VIDEO:
        for given in (clips.clip(5, 112, 84), clips.clip(30, 84, 112, fps=10.0)):
            assert apart(clips.rows(encoder, given)[0], library.clip_rows(given)) < TOLERANCE


def test_it_keeps_its_precision_on_a_cpu_passes_its_probe_and_stays_close_to_whole_precision(served: Served) -> None:
    pipeline = Pipeline.load(served.folder)
    measured = pipeline.measure()
    assert {item.result for item in measured.probe} == {"ok"}
    assert {f"torch.{told.dtype}" for told in measured.declared.values()} == {str(served.published.dtype)}
    assert measured.weights == served.encoder.describe().weights
    if served.family in sounds.FAMILIES:
        sound = sounds.speech(16_000)
        half, whole = sounds.rows(sounds.load(served.folder), sound)[0], sounds.rows(served.encoder, sound)[0]
    else:
        half, whole = pipeline.rows(picture(320, 200)), around(served.encoder).rows(picture(320, 200))
    assert numpy.abs(half - whole).mean() < 0.05


def test_links_of_the_hubs_cache_and_one_file_for_all_processors_change_nothing(served: Served, tmp_path: Path) -> None:
    before = Pipeline.load(served.folder).measure()
    snapshot = checkpoints.as_the_hub_caches_it(served.folder, tmp_path / "cache")
    assert Pipeline.load(snapshot).measure() == before
    checkpoints.as_one_processor_file(snapshot)
    assert Pipeline.load(snapshot).measure() == before


def test_its_settings_are_taken_with_the_numbers_that_are_published(served: Served, tmp_path: Path) -> None:
    folder = served.published.write_settings(tmp_path / "whole")
    with pytest.raises(RefusedError, match=f"^{WEIGHTS}: missing"):
        Pipeline.load(folder)


# What later releases of the library write in place of the first names.
RENAMED = {
    "qwen2_vl_7b_instruct": {"visual.": "model.visual.", "model.": "model.language_model."},
    "qwen2_5_vl_7b_instruct": {"visual.": "model.visual.", "model.": "model.language_model."},
    "llava_1_5_7b_hf": {
        "vision_tower.": "model.vision_tower.",
        "multi_modal_projector.": "model.multi_modal_projector.",
        "language_model.model.": "model.language_model.",
        "language_model.lm_head.": "lm_head.",
    },
    "pixtral_12b": {"vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."},
    "internvl3_1b_hf": {"vision_tower.": "model.vision_tower.", "multi_modal": "model.multi_modal"},
    "qwen2_audio_7b_instruct": {"audio_tower.": "model.audio_tower.", "multi_modal": "model.multi_modal"},
}


@pytest.mark.parametrize("name", RENAMED)
def test_the_names_that_tensors_got_later_are_the_same_tower(name: str, tmp_path: Path) -> None:
    published = Published(name)
    first = clips.loaded(published.write(tmp_path / "first")).describe()

    def rename(key: str) -> str:
        return next((new + key.removeprefix(old) for old, new in RENAMED[name].items() if key.startswith(old)), key)

    later = published.write_settings(tmp_path / "later", cut=published.files)
    held: Tensors = published.tensors(tmp_path / "made")
    published.write_shards(later, {rename(key): tensor for key, tensor in held.items()})
    assert clips.loaded(later).describe() == first


# What releases between write into the processor's file: all that they know of, most of it nothing.
UNSET = dict.fromkeys(("crop_size", "device", "disable_grouping", "do_pad", "input_data_format", "pad_size"))
PIXELS = {"min_pixels": None, "max_pixels": None, "size": {"longest_edge": 12_845_056, "shortest_edge": 3136}}
SQUARE = {"crop_size": {"height": 84, "width": 84}, "size": {"shortest_edge": 84}}
RESAVED = {
    "qwen2_vl_7b_instruct": UNSET | PIXELS | {"image_processor_type": "Qwen2VLImageProcessorFast"},
    "qwen2_5_vl_7b_instruct": UNSET | {"image_processor_type": "Qwen2_5_VLImageProcessor"},
    "clip_vit_large_patch14": SQUARE | {"image_processor_type": "CLIPFeatureExtractor", "do_rescale": True},
    "siglip_so400m_patch14_384": UNSET | {"image_processor_type": "SiglipImageProcessorFast"},
    "glm_4_1v_9b_thinking": UNSET | {"image_processor_type": "Glm4vImageProcessorFast"},
    "pixtral_12b": UNSET | {"image_processor_type": "PixtralImageProcessorFast", "data_format": "channels_first"},
    # Where whoever saved it ran it is not where it runs here.
    "qwen3_vl_8b_instruct": {"device": "cuda:0"},
}


@pytest.mark.parametrize("name", RESAVED)
def test_settings_that_a_release_between_has_saved_promise_and_give_the_same(name: str, tmp_path: Path) -> None:
    folder = Published(name).write(tmp_path / "checkpoint")
    before = Pipeline.load(folder).rows(picture(320, 200))
    content = json.loads((folder / IMAGE).read_text())
    (folder / IMAGE).write_text(json.dumps(content | RESAVED[name]))
    assert numpy.array_equal(Pipeline.load(folder).rows(picture(320, 200)), before)


# Width, height, tokens: the smallest and the largest picture that the published settings let through, and between.
PROMISED: dict[str, list[tuple[int, int, int]]] = {
    "qwen2_vl_7b_instruct": [(28, 28, 4), (640, 480, 391), (4000, 4000, 16_384)],
    "qwen2_5_vl_7b_instruct": [(20, 40, 6), (640, 480, 391), (6000, 3000, 90 * 181)],
    "qwen3_vl_8b_instruct": [(32, 32, 64), (640, 480, 300), (5000, 5000, 16_384)],
    "glm_4_1v_9b_thinking": [(56, 56, 9), (640, 480, 391), (4000, 4000, 6084)],
    "clip_vit_large_patch14": [(640, 480, 257), (1, 1, 257)],
    "siglip2_base_patch16_224": [(640, 480, 196)],
    "siglip2_so400m_patch16_naflex": [(640, 480, 252), (256, 256, 256)],
    "dinov2_base": [(640, 480, 257)],
    "llava_1_5_7b_hf": [(640, 480, 576), (100, 1000, 576)],
    "pixtral_12b": [(1024, 1024, 4096), (16, 16, 1), (2000, 1000, 2048), (640, 480, 1200)],
    "internvl3_1b_hf": [(448, 448, 256), (896, 448, 3 * 256), (1344, 1792, 13 * 256)],
}


@pytest.mark.parametrize("name", PROMISED)
def test_the_published_settings_promise_what_is_known_of_them(name: str, tmp_path: Path) -> None:
    encoder = clips.loaded(Published(name).write(tmp_path / "checkpoint", cut_processor=False))
    for width, height, tokens in PROMISED[name]:
        (features,) = encoder.preprocess([Picture(pixels=numpy.zeros((height, width, 3), dtype=numpy.uint8))])
        assert features.tokens == tokens, (width, height)


def test_a_language_model_of_gigabytes_in_the_towers_own_shard_is_not_read(
    tmp_path: Path, memory_taken_by: Callable[[Callable[[], object]], int]
) -> None:
    folder = Published("qwen2_vl_7b_instruct").write(tmp_path / "checkpoint")
    place = json.loads((folder / f"{WEIGHTS}.index.json").read_text())["weight_map"]
    shard = folder / place["visual.merger.ln_q.weight"]
    content, size = shard.read_bytes(), 4 << 30
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    header["model.layers.1.mlp.up_proj.weight"] = {
        "dtype": "U8",
        "shape": [size],
        "data_offsets": [len(data), len(data) + size],
    }
    encoded = json.dumps(header).encode()
    with shard.open("wb") as file:
        file.write(len(encoded).to_bytes(8, "little") + encoded + data)
        file.truncate(8 + len(encoded) + len(data) + size)
    assert memory_taken_by(lambda: Pipeline.load(folder)) < 1 << 28
