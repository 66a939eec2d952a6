"""The pytest plugin in a user's own suite: one test for each rule, and nothing at all for a suite without one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from encoder_server.conformance.findings import Rule

ROOT = Path(__file__).parents[2]
SUITE = """
import pytest
from encoder_server.conformance.plugin import Audited
from tests.conformance.encoders import {family}

@pytest.fixture(scope="session")
def audited_encoder():
    return Audited(loaded={family}(), max_pixels=700_000)

def test_my_encoder_conforms(conformance_rule):
    conformance_rule.check()
"""


def pytest_in(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    # Other plugins than the one under test may warn of settings that they miss.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:asyncio",
        "--rootdir",
        str(folder),
        *options,
    ]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=environment, timeout=110, check=False
    )


def test_a_sound_encoder_passes_one_test_for_each_rule(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE.format(family="Sound"))
    done = pytest_in(tmp_path, "-vv", "-W", "error")
    assert done.returncode == 0, done.stdout
    passed = re.findall(r"test_my_encoder_conforms\[(\w+)\] PASSED", done.stdout)
    assert passed == [str(rule) for rule in Rule]


def test_a_fault_fails_its_rules_test_alone_and_names_itself_there(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(SUITE.format(family="Truncates"))
    done = pytest_in(tmp_path)
    assert done.returncode == 1
    assert re.findall(r"^FAILED .*\[(\w+)\]", done.stdout, re.MULTILINE) == ["promise"]
    assert "truncates above 40 rows; first image 61x173, alone" in done.stdout
    assert "Traceback" not in done.stdout


def test_a_suite_that_asks_for_no_audit_never_loads_torch(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n"
        "def test_nothing_heavy_is_loaded():\n"
        "    heavy = {'torch', 'transformers', 'numpy', 'encoder_server.encoders'}\n"
        "    assert 'encoder_server.conformance.plugin' in sys.modules\n"
        "    assert not heavy & sys.modules.keys()\n"
    )
    done = pytest_in(tmp_path, "-W", "error")
    assert done.returncode == 0, done.stdout
