"""The front stays without torch, in the linter's file and in fact."""

import ast
import configparser
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def test_every_module_of_the_front_is_held_to_the_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    listed = contracts["importlinter:contract:front-without-torch"]["source_modules"].split()
    files = {path.stem for path in (ROOT / "encoder_server").glob("*.py")} - {"__init__", "checkpoint"}
    spoken = {f"encoder_server.engine.{name}" for name in ("asides", "messages", "packets")}
    assert set(listed) == {f"encoder_server.{name}" for name in files} | spoken


def test_the_command_line_loads_no_torch() -> None:
    program = "import sys, encoder_server.cli; print([n for n in sys.modules if n.startswith(('torch', 'transf'))])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("program", ["encoder_server", "operator/encoder_operator"])
def test_neither_program_imports_what_would_run_code_that_a_file_or_a_caller_brings(program: str) -> None:
    unsafe = {"dill", "joblib", "marshal", "pickle", "shelve"}
    for file in sorted((ROOT / program).rglob("*.py")):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                assert not unsafe & {name.name.partition(".")[0] for name in node.names}, file
            elif isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] not in unsafe, file
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                assert (node.value.id, node.attr) not in {("torch", "load"), ("numpy", "load"), ("np", "load")}, file
