"""The end-to-end tests' ground: the chart installed by Helm, a volume with a checkpoint, the truth in-process."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import ground as settings
from tests.support import kube
from tests.support.fleet import Fleet
from tests.support.pools import OPERATOR_NAMESPACE, TRUNCATING_IMAGE, Ground, install_chart, pool
from tests.support.truth import Truth, make_checkpoint
from tests.support.waiting import until


@pytest.fixture(scope="session", autouse=True)
def allowed() -> None:
    """Nothing begins on a cluster that is not allowed."""
    try:
        settings.context()
    except PermissionError as refusal:
        pytest.exit(str(refusal), returncode=2)


@pytest.fixture(scope="session")
def operator(allowed: None) -> Iterator[None]:
    """The operator, installed from the chart as a user would."""
    install_chart(prometheus_address=settings.PROMETHEUS_INSIDE)
    yield
    kube.helm("uninstall", "encoderpool", "-n", OPERATOR_NAMESPACE, "--wait", "--timeout=120s", check=False)


@pytest.fixture(scope="session")
def truth(tmp_path_factory: pytest.TempPathFactory) -> Truth:
    """What the untouched checkpoint gives for a picture, computed in this process."""
    folder = tmp_path_factory.mktemp("truth") / "checkpoint"
    make_checkpoint(folder)
    return Truth(folder)


@pytest.fixture(scope="module")
def ground(request: pytest.FixtureRequest, operator: None) -> Iterator[Ground]:
    """A namespace named after the test module, with its own checkpoint on its own volume."""
    with made_ground(request.module.__name__.rpartition(".")[2].replace("test_", "e2e-").replace("_", "-")) as made:
        yield made


@pytest.fixture(scope="session")
def fleet(operator: None) -> Iterator[Fleet]:
    """Three replicas whose faults a test can set, for tests that leave them as good as they found them."""
    with made_ground("e2e-fleet") as made:
        shared = Fleet(name="fleet", namespace=made.namespace, folder=made.folder)
        shared.faults.mkdir(mode=0o755)
        kube.apply(pool(shared.name, shared.namespace, image=TRUNCATING_IMAGE, encoder="truncating"))
        until("the fleet to be Ready", shared.is_as_expected, seconds=240)
        yield shared


@contextmanager
def made_ground(name: str) -> Iterator[Ground]:
    """A namespace of this name with a checkpoint on a volume, until both are removed again."""
    folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=settings.FOLDER))
    folder.chmod(0o755)
    make_checkpoint(folder / "checkpoint")
    remove_namespace(name)
    kube.apply(kube.namespace(name))
    kube.apply(*kube.volume("weights", name, str(folder / "checkpoint")))
    yield Ground(namespace=name, folder=folder / "checkpoint")
    remove_namespace(name)
    shutil.rmtree(folder)


def remove_namespace(name: str) -> None:
    """Delete the namespace with all that is in it, and its volume; wait until both are gone."""
    kube.kubectl("delete", "namespace", name, "--ignore-not-found", "--wait=false")
    until(
        f"namespace {name} to be gone",
        lambda: not kube.kubectl("get", "namespace", name, "--ignore-not-found").strip(),
        seconds=150,
    )
    kube.kubectl("delete", "persistentvolume", f"{name}-weights", "--ignore-not-found", "--timeout=60s")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each wait here has its own deadline; the limit on a whole test is for what no deadline guards."""
    for item in items:
        if "e2e" in item.path.parts:
            item.add_marker(pytest.mark.timeout(900))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """A failed test's report shows what a person would look at: pools, pods, events, the operator's log."""
    report = yield
    if report.failed and report.when == "call":  # type: ignore[attr-defined]
        given = getattr(item, "funcargs", {})
        namespace = given.get("ground") or given.get("fleet")
        where = ["-n", namespace.namespace] if namespace else ["-A"]
        for title, command in {
            "pools": ["get", "encoderpools", *where, "-o", "yaml"],
            "pods": ["get", "pods", "-A", "-o", "wide", "--show-labels"],
            "events": ["get", "events", *where, "--sort-by=.lastTimestamp"],
            "operator": ["-n", OPERATOR_NAMESPACE, "logs", "deployment/encoderpool", "--tail=150"],
        }.items():
            report.sections.append((title, kube.kubectl(*command, check=False)))  # type: ignore[attr-defined]
    return report
