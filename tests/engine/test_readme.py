"""The README's commands for a server alone, run as a newcomer would: in an empty folder, one after another."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

README = Path(__file__).parents[2] / "README.md"


def test_the_server_alone_encodes_a_picture(tmp_path: Path) -> None:
    section = README.read_text(encoding="utf-8").partition("## The server alone")[2]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", commands.replace("8000", str(port))],
        cwd=tmp_path,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "391 tokens, grid [1, 34, 46]" in done.stdout
    assert '"state":"READY"' in done.stdout
