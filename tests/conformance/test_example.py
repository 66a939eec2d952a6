"""The example package: the commands of its README, where it is installed as a wheel would be unpacked."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_encoder"


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The example's folder, to build and write in."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "custom_encoder", ignore=shutil.ignore_patterns("__pycache__")))


@pytest.fixture
def site(copy: Path, tmp_path: Path) -> Path:
    """What an installation of the example puts on Python's path, and nothing else."""
    build = f"from setuptools import build_meta; print(build_meta.build_wheel({str(tmp_path)!r}))"
    source = Path(shutil.copytree(copy, tmp_path / "source"))
    done = subprocess.run([sys.executable, "-c", build], cwd=source, capture_output=True, text=True, check=True)
    folder = tmp_path / "site"
    with zipfile.ZipFile(tmp_path / done.stdout.splitlines()[-1]) as wheel:
        wheel.extractall(folder)
    return folder


@pytest.mark.timeout(600)
def test_the_readmes_commands_write_audit_and_test_the_encoder(copy: Path, site: Path) -> None:
    (commands,) = re.findall(r"```sh\n(.*?)```", (copy / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    # Away from the folder, so that what is imported is what was installed.
    shutil.rmtree(copy / "lite0_encoder")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=copy,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(site)},
        capture_output=True,
        text=True,
        timeout=580,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^10 passed", done.stdout, re.MULTILINE)
