"""A replica that computes otherwise, with every count and fingerprint as before, is held until it is repaired."""

from __future__ import annotations

from tests.support import kube
from tests.support.fleet import Fleet
from tests.support.pools import identity, reason_is, serving_label
from tests.support.waiting import throughout, until


def test_other_arithmetic_of_equal_fingerprint_is_held_and_named(fleet: Fleet) -> None:
    name = str(fleet.pods()[0]["metadata"]["name"])
    before = identity(fleet.pod(name))
    fleet.scales(name).touch()
    fleet.restart(name, "other-arithmetic")

    until("SignatureDrift", lambda: reason_is(fleet.name, fleet.namespace, "SignatureDrift", name), seconds=120)
    said = identity(fleet.pod(name))
    assert (said["state"], said["reason"], said["probe"]["result"]) == ("HELD", "SignatureDrift", "passed")
    assert said["bootId"] != before["bootId"]
    assert said["fingerprint"] == before["fingerprint"]
    assert said["signature"] != before["signature"]
    throughout(f"{name} is held and the others serve", lambda: is_held(fleet, name), seconds=5)

    fleet.scales(name).unlink()
    fleet.restart(name, "as-before")
    until("the pool to be as expected", fleet.is_as_expected, seconds=120)
    assert identity(fleet.pod(name))["signature"] == before["signature"]


def is_held(fleet: Fleet, name: str) -> bool:
    """Not Ready, out of the Service by that alone: its label is untouched, and the others serve."""
    pods = {pod["metadata"]["name"]: pod for pod in fleet.pods()}
    held = pods.pop(name)
    return (
        not kube.is_ready(held)
        and serving_label(held) == "true"
        and not fleet.is_in_service(name)
        and all(map(kube.is_ready, pods.values()))
    )
