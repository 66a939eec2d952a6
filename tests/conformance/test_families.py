"""Every family that is served passes the sweep that a user's own encoder must pass."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from encoder_server import cli
from encoder_server.conformance import report
from encoder_server.conformance.sweep import Extent, Sweep
from encoder_server.conformance.watch import Watching
from encoder_server.engine.bounds import Bounds
from encoder_server.layouts import FAMILIES

# Residues, edges, tiny and thin pictures, batches and orders are all below it; asking for steps stays cheap.
LIMIT = 200_000


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_family_is_good_by_every_rule(family: str, tmp_path: Path) -> None:
    torch.set_num_threads(1)
    assert cli.main(["make-checkpoint", str(tmp_path / family), f"--family={family}", "--seed=7"]) == 0
    pipeline = Watching.load(tmp_path / family, bounds=Bounds(max_pixels=LIMIT))
    audit = Sweep(pipeline, Extent(max_pixels=LIMIT, quick=True, seconds=300), lambda text: None).run()
    assert audit.good, report.as_text(audit)
