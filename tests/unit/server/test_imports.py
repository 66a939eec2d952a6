"""The front stays without torch, in the linter's file and in fact."""

import configparser
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_every_module_of_the_front_is_held_to_the_contract() -> None:
    contracts = configparser.ConfigParser()
    contracts.read(ROOT / ".importlinter")
    listed = contracts["importlinter:contract:front-without-torch"]["source_modules"].split()
    files = {path.stem for path in (ROOT / "encoder_server").glob("*.py")} - {"__init__", "checkpoint"}
    spoken = {"encoder_server.engine.asides", "encoder_server.engine.messages"}
    assert set(listed) == {f"encoder_server.{name}" for name in files} | spoken


def test_the_command_line_loads_no_torch() -> None:
    program = "import sys, encoder_server.cli; print([n for n in sys.modules if n.startswith(('torch', 'transf'))])"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
