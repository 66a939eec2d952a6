"""No module and no function grows beyond what one reads at a sitting."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = ("encoder_server", "operator/encoder_operator", "examples", "scripts")
MOST_LINES, MOST_LINES_OF_A_FUNCTION = 250, 40


def files(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py") if "build" not in file.parts)


def functions(file: Path) -> Iterator[tuple[str, int]]:
    """Each function with its lines, from its signature on."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, (node.end_lineno or node.lineno) - node.lineno + 1


@pytest.mark.parametrize("folder", PROGRAMS)
def test_no_module_of_a_program_is_too_long(folder: str) -> None:
    found = files(folder)
    assert found
    lengths = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in found}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


@pytest.mark.parametrize("folder", [*PROGRAMS, "tests"])
def test_no_function_is_too_long_be_it_a_test(folder: str) -> None:
    found = {
        f"{file.relative_to(ROOT)}: {name}": lines
        for file in files(folder)
        for name, lines in functions(file)
        if lines > MOST_LINES_OF_A_FUNCTION
    }
    assert found == {}
