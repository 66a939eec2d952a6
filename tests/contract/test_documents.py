"""The documents name only files, targets and options that are there, and a pool that the operator takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from encoder_operator.spec import parse
from encoder_server import cli
from tests.support.pool_objects import defaulted

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
DOCUMENTS = [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]


def test_every_file_that_the_readme_names_exists() -> None:
    table = re.findall(r"^\| [^|]+ \| (.+) \|$", README, re.MULTILINE)
    named = [name for cell in table for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) > 10
    folder = Path()
    for name in named:
        folder = (folder / name).parent if "/" not in name else Path(name).parent
        path = ROOT / (folder / name if "/" not in name else name)
        assert path.exists(), name


@pytest.mark.parametrize("document", [README, CONTRIBUTING], ids=["README", "CONTRIBUTING"])
def test_every_make_target_that_is_named_is_there(document: str) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"(?:`|^)make ([a-z0-9-]+)", document, re.MULTILINE))
    assert {"demo", "test", "check"} <= named
    assert named <= targets


def test_every_path_that_contributing_names_exists() -> None:
    named = set(re.findall(r"`([\w./-]+/[\w./-]*)`", CONTRIBUTING))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).exists()] == []


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.name))
def test_every_document_that_is_named_is_there(path: Path) -> None:
    named = set(re.findall(r"`((?:[\w-]+/)*[\w-]+\.md)`", path.read_text(encoding="utf-8")))
    assert [name for name in named if not ((ROOT / name).exists() or (ROOT / "docs" / name).exists())] == []


def test_every_option_that_is_named_is_one_that_the_help_tells(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    told = {"--help", "--version"}
    for command in ("serve", "check", "make-checkpoint"):
        with pytest.raises(SystemExit):
            cli.main([command, "--help"])
        told |= set(re.findall(r"^  (--[a-z-]+)", capsys.readouterr().out, re.MULTILINE))
    spans = {span for path in DOCUMENTS for span in re.findall(r"`([^`]+)`", path.read_text(encoding="utf-8"))}
    ours = [
        span for span in spans if span.startswith(("--", "encoder-server ", "serve ", "check ", "make-checkpoint "))
    ]
    named = {option for span in ours for option in re.findall(r"--[a-z][a-z-]+", span)}
    assert len(named) > 20
    assert named - told == set()


def test_the_readmes_pool_is_one_that_the_operator_takes() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    body = yaml.safe_load(text)
    body["spec"] = defaulted(body["spec"])
    body["metadata"] |= {"namespace": "models", "uid": "1", "generation": 1}
    assert parse(body).spec.replicas == 3
