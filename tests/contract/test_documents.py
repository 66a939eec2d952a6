"""The README names only files that exist, targets that are there, and a pool that the operator takes."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from encoder_operator.spec import parse
from tests.support.pool_objects import defaulted

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_every_file_that_the_readme_names_exists() -> None:
    table = re.findall(r"^\| [^|]+ \| (.+) \|$", README, re.MULTILINE)
    named = [name for cell in table for name in re.findall(r"`([^`]+)`", cell)]
    assert len(named) > 10
    folder = Path()
    for name in named:
        folder = (folder / name).parent if "/" not in name else Path(name).parent
        path = ROOT / (folder / name if "/" not in name else name)
        assert path.exists(), name


def test_every_make_target_that_the_readme_names_is_there() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    named = set(re.findall(r"`?make ([a-z0-9-]+)", README))
    assert {"demo", "test", "check"} <= named
    assert named <= targets


def test_the_readmes_pool_is_one_that_the_operator_takes() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    body = yaml.safe_load(text)
    body["spec"] = defaulted(body["spec"])
    body["metadata"] |= {"namespace": "models", "uid": "1", "generation": 1}
    assert parse(body).spec.replicas == 3
