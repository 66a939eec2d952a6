"""docs/drift.md and docs/requirements.md have every row, and each names tests that are there."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LEDGERS = {"drift.md": 16, "requirements.md": 25}


@cache
def names_of_tests() -> frozenset[str]:
    """The names of all tests of this repository."""
    return frozenset(
        node.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    )


def rows(ledger: str) -> dict[int, str]:
    """The lines of a ledger's table by their number."""
    text = (ROOT / "docs" / ledger).read_text(encoding="utf-8")
    return {int(number): line for line, number in re.findall(r"^(\| (\d+) \|.+\|)$", text, re.MULTILINE)}


@pytest.mark.parametrize(("ledger", "count"), LEDGERS.items())
def test_every_row_is_there_and_is_shown_by_a_test(ledger: str, count: int) -> None:
    found = rows(ledger)
    assert sorted(found) == list(range(1, count + 1))
    assert [number for number, line in found.items() if "`test_" not in line] == []


@pytest.mark.parametrize("ledger", LEDGERS)
def test_every_test_that_a_ledger_names_is_there(ledger: str) -> None:
    text = (ROOT / "docs" / ledger).read_text(encoding="utf-8")
    assert set(re.findall(r"`(test_\w+)`", text)) <= names_of_tests()


def test_every_test_of_the_drift_catalogue_is_named_in_its_ledger() -> None:
    catalogue = ast.parse((ROOT / "tests" / "engine" / "test_drift_catalogue.py").read_text(encoding="utf-8"))
    made = {node.name for node in catalogue.body if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")}
    named = set(re.findall(r"`(test_\w+)`", (ROOT / "docs" / "drift.md").read_text(encoding="utf-8")))
    assert made <= named
