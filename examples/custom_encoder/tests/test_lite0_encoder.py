"""The encoder conforms, and is the very model that was published: photographs get their classes."""

from __future__ import annotations

import importlib.metadata
import re
from pathlib import Path

import pytest
import torch
from lite0_encoder.checkpoint import CLASSIFIER, make
from safetensors.torch import load_file

from encoder_server.conformance.plugin import Audited, RuleUnderTest
from encoder_server.engine.pipeline import Pipeline


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The checkpoint."""
    made = tmp_path_factory.mktemp("lite0")
    make(made)
    return made


@pytest.fixture(scope="session")
def audited_encoder(folder: Path) -> Audited:
    """What the plugin shall sweep."""
    return Audited(model=folder, encoder="lite0")


def test_the_encoder_conforms(conformance_rule: RuleUnderTest) -> None:
    conformance_rule.check()


def test_photographs_get_49_rows_of_1280_and_their_classes(folder: Path) -> None:
    pipeline = Pipeline.load(folder, encoder="lite0")
    head = load_file(folder / CLASSIFIER)
    right = 0
    photographs = labelled_photographs()
    for photograph, label in photographs:
        rows = torch.from_numpy(pipeline.rows(photograph.read_bytes()))
        assert rows.shape == (49, 1280)
        right += int((rows.mean(dim=0) @ head["_fc.weight"].T + head["_fc.bias"]).argmax()) == label
    assert len(photographs) == 20
    assert right == 18


def labelled_photographs() -> list[tuple[Path, int]]:
    """Twenty photographs of ImageNet's classes, which the package foolbox carries; read without importing it."""
    files = importlib.metadata.files("foolbox") or []
    named = [(file, re.fullmatch(r"imagenet_\d+_(\d+)\.jpg", file.name)) for file in files]
    return [(Path(str(file.locate())), int(match[1])) for file, match in named if match]
