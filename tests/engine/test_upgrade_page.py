"""The identity that docs/upgrade.md has a person read is one that a pool may be pinned to."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

from encoder_operator.spec import IdentityPolicy
from encoder_server.checkpoint import make
from tests.support.pages import Page, of_a_server
from tests.support.pool_objects import CLAIM, a_pool


def test_an_identity_that_is_read_as_the_page_says_may_be_pinned(tmp_path: Path) -> None:
    (block,) = filter(of_a_server, Page.of("upgrade.md").commands)
    make(tmp_path / "checkpoint", seed=0, family="qwen2_5_vl")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.replace("8000", str(port))],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "identity.json").read_text())
    pinned = a_pool(model=CLAIM | {"identity": {"policy": "Pinned", "pinned": told}}).spec.model.identity
    assert pinned.policy is IdentityPolicy.PINNED
    assert pinned.pinned is not None
    assert (pinned.pinned.fingerprint, pinned.pinned.signature) == (told["fingerprint"], told["signature"])
