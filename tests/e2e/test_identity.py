"""A replica whose processor or identity is not what its pool expects never serves; repaired, it is admitted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support import kube, pictures
from tests.support.pools import SERVER_IMAGE, Ground, identity, pool, reason_is, service_address, serving_label
from tests.support.router import Router
from tests.support.truth import Truth
from tests.support.waiting import throughout, until

POOL = "vision"


@pytest.fixture(scope="module")
def traffic(ground: Ground, truth: Truth) -> Iterator[Router]:
    """Three good replicas under traffic; afterwards, no call failed and every embedding was the true one."""
    kube.apply(pool(POOL, ground.namespace, image=SERVER_IMAGE, encoder="Auto"))
    until("the pool to be Ready", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=240)
    address, port = service_address(POOL, ground.namespace)
    album = pictures.album(1, 40, smallest=30, largest=420)
    with Router(address=address, port=port, pictures=album, threads=3, pause=0.1, bound=20_000) as router:
        yield router
    assert not router.failed(), f"{len(router.failed())} of {len(router.calls)} calls failed: {router.failed()[0]}"
    assert truth.check(router.accepted()) > 500


def test_a_processor_that_disagrees_with_the_model_is_held_and_named(ground: Ground, traffic: Router) -> None:
    edit_processor(ground.folder, lambda settings: settings.update(merge_size=4))
    others, successor = replace_one_pod(ground)

    until("ProbeFailed", lambda: reason_is(POOL, ground.namespace, "ProbeFailed"), seconds=120)
    message = kube.condition(POOL, ground.namespace)["message"]
    failed = next(item for item in identity(named(ground, successor))["probe"]["items"] if item["result"] == "count")
    assert f"item {failed['index']}" in message
    assert f"promised {failed['promised']}" in message
    assert f"produced {failed['produced']}" in message
    stays_held(ground, successor, others)


def test_other_pixel_limits_pass_the_probe_but_not_the_identity(ground: Ground, traffic: Router) -> None:
    edit_processor(ground.folder, lambda settings: settings.update(merge_size=2))
    edit_processor(ground.folder, halve_pixel_limit)
    others, successor = replace_one_pod(ground, held=True)

    until("FingerprintDrift", lambda: reason_is(POOL, ground.namespace, "FingerprintDrift"), seconds=120)
    said = identity(named(ground, successor))
    assert (said["state"], said["reason"], said["probe"]["result"]) == ("HELD", "FingerprintDrift", "passed")
    stays_held(ground, successor, others)


def test_repaired_files_let_the_next_pod_be_admitted(ground: Ground, traffic: Router, truth: Truth) -> None:
    from tests.support.truth import make_checkpoint

    repaired = ground.folder.parent / "repaired"
    make_checkpoint(repaired)
    name = "preprocessor_config.json"
    (ground.folder / name).write_bytes((repaired / name).read_bytes())
    _, successor = replace_one_pod(ground, held=True)

    until("the successor to be Ready", lambda: kube.is_ready(named(ground, successor)), seconds=120)
    until("the pool to be as expected", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=30)
    since = len(traffic.calls)
    until("traffic to go on", lambda: len(traffic.calls) > since + 20, seconds=60)


def edit_processor(folder: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change the processor's configuration on the volume, as an upgrade that nobody announced would."""
    path = folder / "preprocessor_config.json"
    settings = json.loads(path.read_text())
    change(settings)
    path.write_text(json.dumps(settings))


def halve_pixel_limit(settings: dict[str, Any]) -> None:
    """Halve the largest area, by whichever name the configuration has it."""
    if "max_pixels" in settings:
        settings["max_pixels"] //= 2
    if "size" in settings:
        settings["size"]["longest_edge"] //= 2


def replace_one_pod(ground: Ground, *, held: bool = False) -> tuple[set[str], str]:
    """Delete one pod (the held one, where asked); returns the others' names and the successor's."""
    before = {pod["metadata"]["name"]: pod for pod in kube.pods(POOL, ground.namespace)}
    victim = next(name for name, pod in before.items() if kube.is_ready(pod) != held)
    kube.kubectl("-n", ground.namespace, "delete", "pod", victim, "--wait=false")
    names = until(
        f"a successor of {victim}",
        lambda: {pod["metadata"]["name"] for pod in kube.pods(POOL, ground.namespace)} - set(before),
        seconds=60,
    )
    return set(before) - {victim}, names.pop()


def named(ground: Ground, name: str) -> kube.Object:
    """The pod of this name."""
    pod = kube.get("pod", name, ground.namespace)
    assert pod, f"pod {name} is gone"
    return pod


def stays_held(ground: Ground, name: str, others: set[str]) -> None:
    """The replica is never Ready, gets no traffic, its label is untouched; the others serve."""

    def held() -> bool:
        pod = named(ground, name)
        return (
            not kube.is_ready(pod)
            and serving_label(pod) == "true"
            and pod["status"]["podIP"] not in kube.endpoints(POOL, ground.namespace)
            and all(kube.is_ready(named(ground, other)) for other in others)
        )

    throughout(f"{name} is held and {sorted(others)} serve", held, seconds=6)
    columns = kube.kubectl("-n", ground.namespace, "get", "encp", POOL, "--no-headers").split()
    assert columns[1:6] == ["False", "3", "2", "1", "0"], f"Ready, Desired, Serving, Held, Cordoned: {columns}"
