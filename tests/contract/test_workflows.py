"""The hosted workflows, which never run where the project is made, call only what is there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
TARGETS = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))


def steps(workflow: Path) -> list[dict[str, Any]]:
    """All steps of all jobs."""
    jobs = yaml.safe_load(workflow.read_text(encoding="utf-8"))["jobs"]
    return [step for job in jobs.values() for step in job["steps"]]


def test_a_workflow_is_there() -> None:
    assert WORKFLOWS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_calls_only_targets_that_the_makefile_has(workflow: Path) -> None:
    called = {name for step in steps(workflow) for name in re.findall(r"\bmake ([a-z0-9-]+)", step.get("run", ""))}
    assert called
    assert called <= TARGETS


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_uses_actions_at_a_whole_version(workflow: Path) -> None:
    used = [step["uses"] for step in steps(workflow) if "uses" in step]
    assert used
    assert [each for each in used if not re.fullmatch(r"[\w./-]+@v\d+\.\d+\.\d+", each)] == []


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: str(path.name))
def test_a_workflow_reads_version_files_that_exist(workflow: Path) -> None:
    named = [value for step in steps(workflow) for key, value in step.get("with", {}).items() if key.endswith("-file")]
    assert [name for name in named if not (ROOT / name).is_file()] == []
