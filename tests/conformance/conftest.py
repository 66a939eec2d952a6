"""Encoders audited in this process, and a checkpoint for those that load one."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoder_server.checkpoint import make


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of a real family, never changed."""
    folder = tmp_path_factory.mktemp("conformance") / "checkpoint"
    make(folder, seed=7)
    return folder
