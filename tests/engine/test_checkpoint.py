"""The made checkpoint: the same bytes for a seed everywhere, small, and never over something."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from safetensors import safe_open

from encoder_server.checkpoint import DirectoryInUseError, make
from encoder_server.layouts import FAMILIES
from tests.support.families import Families

SEED_7 = "e50bb61ff8f3589ad17192af7d6eeb2cd7e43118fef04a50b14b8bc3877e9792"


def test_a_seed_gives_the_same_bytes_on_every_machine(checkpoint: Path) -> None:
    assert hashlib.sha256((checkpoint / "model.safetensors").read_bytes()).hexdigest() == SEED_7


def test_it_is_small_has_a_published_ones_names_and_a_language_model(checkpoint: Path) -> None:
    assert sum(file.stat().st_size for file in checkpoint.iterdir()) < 2_000_000
    with safe_open(checkpoint / "model.safetensors", framework="np") as file:
        names = set(file.keys())
    assert {"visual.patch_embed.proj.weight", "visual.merger.ln_q.weight", "lm_head.weight"} <= names


@pytest.mark.parametrize("family", FAMILIES)
def test_each_family_is_small_and_the_same_for_a_seed(family: str, families: Families, tmp_path: Path) -> None:
    make(tmp_path / "again", seed=7, family=family)
    make(tmp_path / "other", seed=8, family=family)
    first, again, other = (
        (folder / "model.safetensors").read_bytes()
        for folder in (families.folder(family), tmp_path / "again", tmp_path / "other")
    )
    assert first == again
    assert first != other
    assert len(first) < 2_000_000


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(DirectoryInUseError):
        make(tmp_path, seed=1)
    with pytest.raises(DirectoryInUseError):
        make(tmp_path / "mine", seed=1)
    assert [file.name for file in tmp_path.iterdir()] == ["mine"]


def test_an_empty_folder_and_a_missing_one_are_taken(tmp_path: Path) -> None:
    make(tmp_path / "a" / "b", seed=1)
    (tmp_path / "c").mkdir()
    make(tmp_path / "c", seed=1)
    assert (tmp_path / "a" / "b" / "config.json").is_file()


def test_its_files_may_be_read_by_another_user(checkpoint: Path) -> None:
    assert all(file.stat().st_mode & 0o040 for file in checkpoint.iterdir())
