"""Both programs' logs have one shape, and `docs/logs.md` has every field and every event of the server's front."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "logs.md").read_text(encoding="utf-8")
OPERATOR = ROOT / "operator" / "encoder_operator"
FRONT = sorted((ROOT / "encoder_server").glob("*.py"))
WRITES = ("debug", "info", "warning", "error", "critical", "exception", "log")

SPEAK = """
import logging, warnings

logs.to_stderr("INFO")
log = logging.getLogger("ours")
log.info("named", extra={"reason": "why"})
log.debug("not shown")
warnings.warn("of Python")
try:
    raise ValueError("no")
except ValueError:
    log.exception("failed")
"""
KOPF = """
import kopf
from kopf._cogs.structs.bodies import Body
from kopf._core.actions.loggers import LocalObjectLogger

meta = {"namespace": "models", "name": "vision", "uid": "0b6b"}
for kind in ("EncoderPool", "Pod"):
    body = Body({"apiVersion": "v1", "kind": kind, "metadata": meta})
    LocalObjectLogger(body=body, settings=kopf.OperatorSettings()).warning("a handler failed")
"""


def listed(heading: str, column: int = 1) -> set[str]:
    """The names in a column of the table under this heading."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.split("|")[column] for line in section.splitlines() if line.startswith("| `")]
    return {name for row in rows for name in re.findall(r"`(\w+)`", row)}


EVERY, SOME = listed("Fields of every line"), listed("Fields of some lines")


def said(package: str, program: str) -> list[dict[str, Any]]:
    """What a program writes, a line each."""
    command = [sys.executable, "-c", f"from {package} import logs\n{program}"]
    path = f"{ROOT / 'operator'}:{ROOT}"
    done = subprocess.run(
        command, env={"TZ": "Asia/Tokyo", "PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    return [json.loads(line) for line in done.stderr.splitlines()]


@pytest.mark.parametrize("package", ["encoder_server", "encoder_operator"])
def test_a_line_of_either_program_has_the_fields_of_every_line_and_its_own(package: str) -> None:
    named, warned, failed = said(package, SPEAK)
    every = EVERY - {"exc_info"}
    assert every == {"time", "level", "logger", "message"}
    assert named | {"time": ""} == {"time": "", "level": "INFO", "logger": "ours", "message": "named", "reason": "why"}
    assert warned.keys() == every
    assert (warned["level"], warned["logger"]) == ("WARNING", "py.warnings")
    assert failed.keys() == EVERY
    assert failed["exc_info"].startswith("Traceback")
    for line in (named, warned, failed):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
        assert abs((datetime.now(UTC) - datetime.fromisoformat(line["time"])).total_seconds()) < 3600


def test_a_line_of_kopfs_says_of_which_object_it_speaks_and_nothing_of_kopfs_settings() -> None:
    of_a_pool, of_a_pod = said("encoder_operator", 'logs.to_stderr("INFO")\n' + KOPF)
    reference = {"apiVersion": "v1", "kind": "EncoderPool", "name": "vision", "namespace": "models", "uid": "0b6b"}
    own = {"logger": "kopf.objects", "level": "WARNING", "message": "a handler failed", "time": ""}
    assert of_a_pool | {"time": ""} == {**own, "object": reference, "namespace": "models", "pool": "vision"}
    assert of_a_pod | {"time": ""} == {**own, "object": {**reference, "kind": "Pod"}}


def calls(path: Path) -> Iterator[tuple[ast.AST, ast.Call]]:
    """Each call that writes to the log, with the function that it stands in."""
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for node in ast.walk(function):
                match node:
                    case ast.Call(func=ast.Attribute(value=ast.Name(id="_LOG" | "_log"), attr=attr)) if attr in WRITES:
                        yield function, node


def fields(path: Path) -> Iterator[str]:
    """The names of the fields that the lines of a module have, as far as they are written out there."""
    for function, call in calls(path):
        for given in (keyword.value for keyword in call.keywords if keyword.arg == "extra"):
            wanted = [given]
            if isinstance(given, ast.Name):
                assigned = (node for node in ast.walk(function) if isinstance(node, ast.Assign | ast.AnnAssign))
                wanted = [node.value for node in assigned if node.value and given.id in ast.dump(node)]
            for each in (node for value in wanted for node in ast.walk(value) if isinstance(node, ast.Dict)):
                yield from (str(key.value) for key in each.keys if isinstance(key, ast.Constant))


def test_every_field_of_a_line_is_on_the_page() -> None:
    modules = [*FRONT, *sorted((ROOT / "encoder_server" / "engine").glob("*.py")), *sorted(OPERATOR.glob("*.py"))]
    written = {field for path in modules for field in fields(path)}
    assert {"request_id", "order_id", "pool", "pod", "tier", "engine"} <= written
    assert written - SOME == set()
    measures = {"width", "height", "frames", "fps", "samples", "rate"}
    assert SOME - written - measures == {"object"}


def test_every_event_of_the_front_is_on_the_page_and_no_other() -> None:
    spoken = {
        argument.value
        for path in FRONT
        for _, call in calls(path)
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }
    assert spoken == listed("Events of the server")
