"""Checkpoints, pipelines in this process, and one real engine, each made once for all tests of the engine."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from encoder_server.checkpoint import make
from encoder_server.engine.pipeline import Pipeline
from tests.support.encoders import Variant
from tests.support.families import Families
from tests.support.spawned import Engine

SEED = 7


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint as made, never changed."""
    folder = tmp_path_factory.mktemp("engine") / "checkpoint"
    make(folder, seed=SEED)
    return folder


@pytest.fixture
def variant(checkpoint: Path, tmp_path: Path) -> Variant:
    """Make a copy of the checkpoint with keys changed in one of its JSON files (None takes a key out)."""

    def change(file: str, **keys: Any) -> Path:
        folder = tmp_path / f"variant-{len(list(tmp_path.iterdir()))}"
        shutil.copytree(checkpoint, folder)
        content = {**json.loads((folder / file).read_text()), **keys}
        (folder / file).write_text(json.dumps({key: value for key, value in content.items() if value is not None}))
        return folder

    return change


@pytest.fixture(scope="session")
def pipeline(checkpoint: Path) -> Pipeline:
    """The checkpoint's pipeline in this process, with one thread as in an engine: more sum in another order."""
    torch.set_num_threads(1)
    return Pipeline.load(checkpoint)


@pytest.fixture(scope="session")
def families(tmp_path_factory: pytest.TempPathFactory) -> Families:
    """The tiny checkpoint of every family."""
    return Families(tmp_path_factory.mktemp("families"))


@pytest.fixture(scope="session")
def engine(checkpoint: Path) -> Iterator[Engine]:
    """A real engine with the checkpoint; it must leave by itself when its front is gone."""
    engine = Engine(f"--model={checkpoint}")
    yield engine
    engine.greeting()
    assert engine.close() == 0
