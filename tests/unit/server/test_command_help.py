"""`--help` and `--version`: every option says what it is for and what holds without it."""

from __future__ import annotations

import re

import pytest

from encoder_server import cli


def _printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 0
    # A long option has its explanation on the next line.
    return re.sub(r"\n {20,}", "  ", capsys.readouterr().out)


@pytest.mark.parametrize("command", ["serve", "check", "make-checkpoint"])
def test_every_option_is_explained(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    lines = re.findall(r"^  (-.*)$", _printed(capsys, command, "--help"), re.MULTILINE)
    assert len(lines) > 1
    assert [line for line in lines if not re.search(r"\S {2,}\S", line)] == []


def test_the_help_says_the_defaults(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    text = _printed(capsys, "serve", "--help")
    for name, default in {"--port": "8000", "--max-items": "16", "--deadline-seconds": "60.0"}.items():
        assert re.search(rf"{name} .*\(default: {default}\)$", text, re.MULTILINE), name
    assert "(default: None)" not in text


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert re.fullmatch(r"encoder-server \d+\.\d+\.\d+\n", _printed(capsys, "--version"))
