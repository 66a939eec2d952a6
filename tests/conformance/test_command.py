"""`encoder-server check`, as a user runs it: on a checkpoint, on a user's own encoder, and on one that dies."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def own_encoders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds the tests' encoders as an installed package would register them."""
    folder = tmp_path_factory.mktemp("site")
    names = {"dies": "Dies", "permutes": "Permutes", "broken": "Missing"}
    lines = [f"{name} = tests.conformance.encoders:{family}" for name, family in names.items()]
    metadata = folder / "own_encoders-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: own-encoders\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("\n".join(["[encoder_server.encoders]", *lines]) + "\n")
    return folder


def check(*arguments: str | Path, path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("encoder-server")), "check", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": f"{path}{os.pathsep}{ROOT}"}
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=110, check=False)


def test_an_encoder_of_ones_own_that_swaps_items_exits_with_1_and_says_so_in_json(
    checkpoint: Path, own_encoders: Path
) -> None:
    done = check(checkpoint, "--encoder=permutes", "--quick", "--json", path=own_encoders)
    assert done.returncode == 1, done.stderr
    told = json.loads(done.stdout)
    assert told["good"] is False
    assert {finding["kind"] for finding in told["findings"]} == {"permutes items"}
    assert {verdict["rule"] for verdict in told["verdicts"] if verdict["state"] == "FAULT"} == {"order"}


def test_an_encoder_that_kills_its_process_is_told_with_the_case_at_which_it_did(
    checkpoint: Path, own_encoders: Path
) -> None:
    done = check(checkpoint, "--encoder=dies", "--quick", path=own_encoders)
    assert done.returncode == 1
    assert re.search(r"the encoder's process died of SIGKILL at case \d+ of \d+: again, image 84x112", done.stderr)


def test_an_encoder_that_cannot_be_loaded_is_refused_with_the_reason(checkpoint: Path, own_encoders: Path) -> None:
    done = check(checkpoint, "--encoder=broken", path=own_encoders)
    assert done.returncode == 2
    assert re.search("refused: encoder 'broken' is registered but could not be imported .*'Missing'", done.stderr)
    assert done.stdout == ""


@pytest.mark.parametrize("arguments", [["missing-folder"], [".", "--seconds=0"]])
def test_bad_usage_exits_with_2_and_one_line(arguments: list[str]) -> None:
    done = check(*arguments)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "argument" in done.stderr


def test_the_readmes_commands_audit_the_checkpoint_that_they_make(tmp_path: Path) -> None:
    section = README.partition("## Audit your own encoder")[2]
    commands = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)[0]
    done = subprocess.run(
        ["bash", "-euc", commands],
        cwd=tmp_path,
        env={**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "width: a step every 28 pixels; height: a step every 28 pixels" in done.stdout
    assert re.search(r"^good: \d+ items in \d+ s, 0 kinds of faults$", done.stdout, re.MULTILINE)
