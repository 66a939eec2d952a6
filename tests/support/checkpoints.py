"""Checkpoint folders as they are published, by name: what older libraries saved, not what today's would.

`published/NAME.json` holds a published folder's JSON files with their own keys and numbers, `cut` the few numbers that
make it tiny, and `beside` what its shards hold among the tower's tensors.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from encoder_server.checkpoint import make
from tests.support.families import CONFIG, WEIGHTS, Tensors, tensors

_DATA = Path(__file__).with_name("published")
NAMES = sorted(file.stem for file in _DATA.glob("*.json"))
_SHARDS = 3


class Published:
    """One published checkpoint, its numbers as published or cut down."""

    def __init__(self, name: str) -> None:
        content = json.loads((_DATA / f"{name}.json").read_text())
        self.name: str = name
        self.family: str = content["family"]
        self.dtype: torch.dtype = getattr(torch, content["dtype"])
        self.library: str | None = content.get("library")
        self.bins: int = content.get("bins", 80)
        self.files: dict[str, dict[str, Any]] = content["files"]
        self._cut: dict[str, dict[str, Any]] = content["cut"]
        self._beside: list[str] = content["beside"]
        self._mel_filters: bool = content.get("mel_filters", False)

    def write_settings(self, folder: Path, *, cut: Collection[str] = ()) -> Path:
        """Write its JSON files, and others that are published beside them; those in `cut` with the few numbers of a
        tiny one."""
        folder.mkdir(parents=True)
        for file, content in self.files.items():
            whole = _over(content, self._cut.get(file, {})) if file in cut else content
            (folder / file).write_text(json.dumps(whole))
        if self._mel_filters:
            filters = {"mel_filters": [[0.025] * 201] * self.bins}
            processor = folder / "preprocessor_config.json"
            processor.write_text(json.dumps(json.loads(processor.read_text()) | filters))
        (folder / "README.md").write_text("# A model\n")
        (folder / "generation_config.json").write_text('{"do_sample": true}')
        (folder / "pytorch_model.bin").write_bytes(b"pickled")
        return folder

    def write(self, folder: Path, *, cut_processor: bool = True) -> Path:
        """Write it whole and cut down, in shards of its own precision with a language model's tensors among them."""
        self.write_settings(folder, cut=self.files if cut_processor else [CONFIG])
        self.write_shards(folder, self.tensors(folder.with_name(f"{folder.name}-made")))
        return folder

    def tensors(self, scratch: Path) -> Tensors:
        """Give the tensors by their published names."""
        make(scratch, seed=7, family=self.family)
        own = tensors(scratch)
        if self.bins == 128:
            wide = own["model.encoder.conv1.weight"]
            own["model.encoder.conv1.weight"] = torch.cat([wide, wide.flip(1)], dim=1)[:, :128].contiguous()
        beside = {name: torch.zeros(4, 4) for name in self._beside if name not in own}
        # Whole numbers stay what they are: positions, in older files.
        return {
            name: tensor.to(self.dtype) if tensor.is_floating_point() else tensor
            for name, tensor in sorted((beside | own).items())
        }

    def write_shards(self, folder: Path, held: Tensors) -> None:
        """Write tensors as published weights are: numbered shards, cut without regard to what is in them."""
        names = list(held)
        files = [f"model-{at:05}-of-{_SHARDS:05}.safetensors" for at in range(1, _SHARDS + 1)]
        place = {name: files[at * _SHARDS // len(names)] for at, name in enumerate(names)}
        for file in files:
            save_file({name: held[name] for name in names if place[name] == file}, folder / file, {"format": "pt"})
        total = sum(tensor.nbytes for tensor in held.values())
        index = {"metadata": {"total_size": total}, "weight_map": place}
        (folder / f"{WEIGHTS}.index.json").write_text(json.dumps(index))


def as_the_hub_caches_it(folder: Path, cache: Path) -> Path:
    """Give a snapshot of `folder` as a hub's cache holds it: links to files that are named by their digests."""
    blobs, snapshot = cache / "blobs", cache / "snapshots" / "0123abcd"
    blobs.mkdir(parents=True)
    snapshot.mkdir(parents=True)
    for at, file in enumerate(sorted(folder.iterdir())):
        (blobs / f"{at:064x}").write_bytes(file.read_bytes())
        (snapshot / file.name).symlink_to(Path("../../blobs") / f"{at:064x}")
    return snapshot


def as_one_processor_file(folder: Path) -> None:
    """Move the processors' settings into sections of processor_config.json, where the library saves them now."""
    whole = folder / "processor_config.json"
    content = json.loads(whole.read_text()) if whole.exists() else {}
    picture = folder / "preprocessor_config.json"
    settings = json.loads(picture.read_text())
    section = "feature_extractor" if "Whisper" in str(settings.get("feature_extractor_type")) else "image_processor"
    content[section] = settings
    picture.unlink()
    clip = folder / "video_preprocessor_config.json"
    if clip.exists():
        content["video_processor"] = json.loads(clip.read_text())
        clip.unlink()
    elif settings.get("processor_class") in ("Qwen2VLProcessor", "Qwen2_5_VLProcessor"):  # for pictures and clips
        same = {key: value for key, value in settings.items() if key != "image_processor_type"}
        content["video_processor"] = same | {"video_processor_type": "Qwen2VLVideoProcessor"}
    whole.write_text(json.dumps(content))


def config_of(folder: Path) -> dict[str, Any]:
    """A folder's config.json."""
    content: dict[str, Any] = json.loads((folder / CONFIG).read_text())
    return content


def _over(content: Mapping[str, Any], cut: Mapping[str, Any]) -> dict[str, Any]:
    """Give `content` with the values of `cut`, section by section; what else is nested is one value."""
    merged = dict(content)
    for key, value in cut.items():
        within = content.get(key) if key.endswith(("_config", "_config_dict")) else None
        merged[key] = _over(within, value) if isinstance(within, dict) else value
    return merged
