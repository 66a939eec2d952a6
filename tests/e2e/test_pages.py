"""The pages for whoever runs pools: their commands and queries, as they stand there, on a pool that serves."""

from __future__ import annotations

import json
import os
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from tests.support import ground, kube
from tests.support.fleet import Fleet
from tests.support.pages import Page, of_a_cluster
from tests.support.pools import OPERATOR_NAMESPACE, TRUNCATING_IMAGE, Ground, pool
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
PAGES = ("runbook.md", "upgrade.md")
COMMANDS = [block for page in PAGES for block in Page.of(page).commands if of_a_cluster(block)]
QUERIES = [line for page in PAGES for block in Page.of(page).blocks("promql") for line in block.splitlines()]
# Whatever context a person has chosen, these tests keep to the one that is allowed.
CONTEXT = """
kubectl() { command kubectl --context "$CONTEXT" "$@"; }
helm() { command helm --kube-context "$CONTEXT" "$@"; }
"""


@pytest.fixture(scope="module")
def fleet(ground: Ground) -> Fleet:
    """Replicas of these tests' own: the pages pin, annotate, scale and delete."""
    made = Fleet(name="pages", namespace=ground.namespace, folder=ground.folder)
    made.faults.mkdir(mode=0o755)
    kube.apply(pool(made.name, made.namespace, image=TRUNCATING_IMAGE, encoder="truncating"))
    until("the pool to be Ready", made.is_as_expected, seconds=240)
    return made


@pytest.fixture(scope="module")
def chosen() -> list[str]:
    """The replicas that the commands were about, the last one last."""
    return []


@pytest.mark.parametrize("block", COMMANDS, ids=[block.splitlines()[0][:60] for block in COMMANDS])
def test_a_command_of_the_pages_works_as_it_stands_there(fleet: Fleet, chosen: list[str], block: str) -> None:
    if not {pod["metadata"]["name"] for pod in fleet.pods()}.intersection(chosen[-1:]):
        # The one before was deleted, as a page says; what was done to it is not to be undone on another.
        chosen.append(until("a replica that is Ready", lambda: ready(fleet), seconds=240))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", CONTEXT + block],
        cwd=ROOT,
        env={**os.environ, **settings(fleet), "POD": chosen[-1]},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_of_the_pages_is_answered(fleet: Fleet, query: str) -> None:
    form = urllib.parse.urlencode({"query": query}).encode()
    with urllib.request.urlopen(f"{ground.PROMETHEUS}/api/v1/query", data=form, timeout=10) as answer:
        assert json.load(answer)["status"] == "success"


def ready(fleet: Fleet) -> str | None:
    """The name of a replica that is."""
    return next((str(pod["metadata"]["name"]) for pod in fleet.pods() if kube.is_ready(pod)), None)


def settings(fleet: Fleet) -> dict[str, str]:
    """What the pages have a person say first, said of the fleet as it is now."""
    status = (kube.get("encoderpool", fleet.name, fleet.namespace) or {})["status"]
    return {
        "CONTEXT": ground.context(),
        "NAMESPACE": fleet.namespace,
        "POOL": fleet.name,
        "REVISION": status["revision"],
        "FINGERPRINT": status["fingerprint"],
        "OPERATOR": OPERATOR_NAMESPACE,
        "PROMETHEUS": ground.PROMETHEUS,
        "IMAGE": TRUNCATING_IMAGE,
    }
