"""Each extra of the package brings all that its program imports, and the client's nothing that only serves."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
IMPORT = """
import importlib, json, sys
from importlib.machinery import PathFinder

hidden, modules = json.loads(sys.argv[1])

class Installed(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name in hidden else super().find_spec(name, path, target)

sys.meta_path[:] = [Installed if finder is PathFinder else finder for finder in sys.meta_path]
for module in modules:
    importlib.import_module(module)
"""


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def closure(wanted: Iterable[str]) -> set[str]:
    """These distributions, and whatever they need here, by name."""
    found: set[str] = set()
    left = [Requirement(text) for text in wanted]
    while left:
        requirement = left.pop()
        if (name := plain(requirement.name)) not in found:
            found.add(name)
            needed = [Requirement(text) for text in metadata.requires(name) or ()]
            extras = [{"extra": extra} for extra in requirement.extras or ("",)]
            left += [each for each in needed if not each.marker or any(map(each.marker.evaluate, extras))]
    return found


def brought_by(*extras: str) -> set[str]:
    """The distributions that the package brings with these extras."""
    optional = PROJECT["optional-dependencies"]
    return closure([*PROJECT["dependencies"], *(each for extra in extras for each in optional[extra])])


@pytest.mark.parametrize(
    ("extras", "modules"),
    [
        (["client"], ["encoder_server.client"]),
        (["server"], ["encoder_server.cli", "encoder_server.app"]),
        (["operator"], ["encoder_operator.__main__"]),
    ],
)
def test_a_program_imports_nothing_that_its_extra_does_not_bring(extras: list[str], modules: list[str]) -> None:
    distributions = brought_by(*extras)
    tops = metadata.packages_distributions()
    kept = distributions | {PROJECT["name"]}
    hidden = [top for top, names in tops.items() if kept.isdisjoint(map(plain, names))]
    assert "torch" in hidden
    path = f"import sys; sys.path[:0] = {[str(ROOT), str(ROOT / 'operator')]!r}\n"
    command = [sys.executable, "-c", path + IMPORT, json.dumps([sorted(hidden), modules])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_clients_extra_brings_nothing_that_only_serves() -> None:
    assert not brought_by("client") & {"aiohttp", "kopf", "kubernetes", "prometheus-client", "redis", "torch"}
    assert "aiohttp" in brought_by("server") & brought_by("operator")
