"""How far the operator goes, one replica's fault through: told, passed over, repaired, evicted, its revision given up.

The pool serves revision after revision: the first is good, in the second one replica goes wrong, and so does what
comes in its place; the first is brought back, and the second tried again once a person asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support import kube, pictures
from tests.support.fleet import Fleet
from tests.support.pools import (
    EVALUATION_SECONDS,
    OPERATOR_NAMESPACE,
    TRUNCATING_IMAGE,
    Ground,
    cordon_record,
    pool,
    service_address,
)
from tests.support.router import Router
from tests.support.truth import Truth
from tests.support.waiting import throughout, until

POOL = "vision"
ALBUM = pictures.album(31, 25, smallest=40, largest=200) + pictures.album(32, 25, smallest=360, largest=520)
# A replacement that goes wrong later than maxSeconds after the eviction would be another story.
LITTLE_PATIENCE = {"baseSeconds": 2, "maxSeconds": 600, "maxRestarts": 1}
TWO_BUDGETS = "This pod has more than one PodDisruptionBudget"
WATCHED_SECONDS = 2.5 * EVALUATION_SECONDS


@dataclass(slots=True)
class Story:
    """What the tests of this module hand on to each other: two revisions, and the replica that is at fault now."""

    fleet: Fleet
    router: Router
    good: str
    bad: str
    victim: str = ""

    def record(self) -> dict[str, Any]:
        """The cordon record on the victim."""
        return cordon_record(self.fleet.pod(self.victim))

    def names(self) -> set[str]:
        """The replicas' names."""
        return {str(pod["metadata"]["name"]) for pod in self.fleet.pods()}


@pytest.fixture(scope="module")
def story(ground: Ground, truth: Truth) -> Iterator[Story]:
    """Two replicas under traffic, on the second revision that this pool serves; all rows accepted are true ones."""
    fleet = Fleet(name=POOL, namespace=ground.namespace, folder=ground.folder)
    fleet.faults.mkdir(mode=0o755)
    wanted = pool(POOL, ground.namespace, image=TRUNCATING_IMAGE, encoder="truncating")
    # A slow machine fills it too.
    wanted["spec"]["integrity"]["windowSeconds"] = 60
    wanted["spec"] |= {"replicas": 1, "quarantine": {"mode": "Observe"} | LITTLE_PATIENCE}
    kube.apply(wanted)
    until("the pool to be Ready", fleet.is_as_expected, seconds=240)
    good = str(status(fleet)["revision"])
    address, port = service_address(POOL, ground.namespace)
    with Router(address=address, port=port, pictures=ALBUM, threads=3, pause=0.1, bound=50_000) as router:
        change(fleet, server={"maxInFlight": 32})
        until("the next revision", lambda: serves_another_revision_than(fleet, good), seconds=180)
        change(fleet, replicas=2)
        until("both replicas", lambda: fleet.is_as_expected() and status(fleet)["servingReplicas"] == 2, seconds=120)
        yield Story(fleet=fleet, router=router, good=good, bad=str(status(fleet)["revision"]))
    assert truth.check(router.accepted()) > 100


def test_a_cordon_by_hand_stands_until_its_annotation_goes(story: Story) -> None:
    story.victim = sorted(story.names())[0]
    annotate(story, "encoderpool.io/hand-cordon=to look at it")
    until("the cordon", lambda: story.fleet.is_cordoned(story.victim), seconds=30)
    until("it to leave the Service", lambda: not story.fleet.is_in_service(story.victim), seconds=30)
    found = story.record()
    assert (found["by"], found["state"], found["message"]) == ("person:to look at it", "Cordoned", "to look at it")
    until("the pool to tell of it", lambda: told_first(story, story.victim, "by hand", "to look at it"), seconds=30)
    annotate(story, "encoderpool.io/hand-cordon-")
    until("it to be back", lambda: story.fleet.is_in_service(story.victim), seconds=30)


def test_observe_says_what_would_be_done_and_touches_nobody(story: Story) -> None:
    story.fleet.truncates(story.victim).touch()
    told = until("the pool to say what it would do", lambda: quarantine_is(story, "TokenMismatch"), seconds=90)
    assert told["message"].startswith(f"mode Observe, not done: cordon {story.victim}")
    said = until(
        "an event", lambda: events(story, "NotDone", f"{story.victim}: mode Observe, not done: Cordoned"), seconds=10
    )
    assert all(each["type"] == "Warning" for each in said)
    throughout("nobody is touched", lambda: nobody_is_touched(story), seconds=WATCHED_SECONDS)


def test_paused_writes_nothing_but_the_status(story: Story) -> None:
    change(story.fleet, management="Paused", replicas=3, quarantine={"mode": "Repair"})
    until("the pool to say so", lambda: told_first(story, "management is Paused, nothing is applied"), seconds=30)
    throughout("nobody is touched", lambda: nobody_is_touched(story), seconds=WATCHED_SECONDS)
    assert len(story.names()) == 2, "not even more replicas are applied"
    change(story.fleet, replicas=2)


def test_skip_keeps_the_operators_hands_off_a_replica_that_it_finds_at_fault(story: Story) -> None:
    annotate(story, "encoderpool.io/skip=we know")
    change(story.fleet, management="Active")
    until("the fault to be told", lambda: told_first(story, story.victim, "checks failed"), seconds=30)
    throughout("nobody is touched", lambda: nobody_is_touched(story), seconds=WATCHED_SECONDS)
    annotate(story, "encoderpool.io/skip-")
    until("the cordon", lambda: story.fleet.is_cordoned(story.victim), seconds=60)


def test_an_eviction_that_is_refused_is_told_and_done_once_it_may(story: Story) -> None:
    guard = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "in-the-way", "namespace": story.fleet.namespace},
        "spec": {"selector": {"matchLabels": {"encoderpool.io/pool": POOL}}, "minAvailable": "100%"},
    }
    kube.apply(guard)
    blocked = until("the eviction to be refused", lambda: quarantine_is(story, "EvictionBlocked"), seconds=120)
    assert blocked["status"] == "False"
    assert story.victim in blocked["message"]
    assert TWO_BUDGETS in blocked["message"], "in the API server's own words"
    assert story.fleet.restarts()[story.victim] >= 1
    before = story.names()
    kube.kubectl("-n", story.fleet.namespace, "delete", "poddisruptionbudget", "in-the-way")
    (successor,) = until("its successor", lambda: story.names() - before, seconds=240)
    story.fleet.truncates(successor).touch()
    assert events(story, "Evicted", story.victim)
    story.victim = successor


def test_a_revision_whose_replacement_repeats_the_fault_is_given_up_for_the_last_good_one(story: Story) -> None:
    until("the revision to be rejected", lambda: roles(story).get(story.bad) == "Rejected", seconds=240)
    until("the last good one to serve", lambda: roles(story).get(story.good) == "Current", seconds=180)
    until("the pool to be as expected", story.fleet.is_as_expected, seconds=60)
    until("the other to be gone", lambda: {revision(pod) for pod in story.fleet.pods()} == {story.good}, seconds=60)
    told = kube.condition(POOL, story.fleet.namespace, "Progressing")
    assert (told["status"], told["reason"]) == ("False", "RevisionFault")
    assert f"revision {story.bad} was rejected and {story.good} serves instead" in told["message"]
    assert told["message"].endswith(f"kubectl annotate encoderpool {POOL} encoderpool.io/retry={story.bad}")


def test_a_rejected_revision_is_tried_again_when_a_person_asks_as_the_readme_says(story: Story) -> None:
    for fault in story.fleet.faults.iterdir():
        fault.unlink()
    retry = f"encoderpool.io/retry={story.bad}"
    kube.kubectl("-n", story.fleet.namespace, "annotate", "encoderpool", POOL, retry)
    until("it to serve", lambda: roles(story) == {story.bad: "Current"}, seconds=180)
    until("the pool to be as expected", story.fleet.is_as_expected, seconds=60)
    until("the other to be gone", lambda: {revision(pod) for pod in story.fleet.pods()} == {story.bad}, seconds=60)
    assert kube.condition(POOL, story.fleet.namespace, "Progressing")["reason"] == "AsExpected"


def test_without_an_operator_the_replicas_serve_on_and_a_good_new_one_is_admitted(story: Story) -> None:
    deployment = ("-n", OPERATOR_NAMESPACE, "scale", "deployment/encoderpool")
    kube.kubectl(*deployment, "--replicas=0")
    until("the operator to be gone", lambda: not kube.listed("pods", OPERATOR_NAMESPACE), seconds=60)
    since, before = len(story.router.calls), story.names()
    try:
        kube.kubectl("-n", story.fleet.namespace, "delete", "pod", min(before), "--wait=false")
        (successor,) = until("its successor", lambda: story.names() - before, seconds=60)
        until("it to serve", lambda: story.fleet.is_in_service(successor), seconds=90)
    finally:
        kube.kubectl(*deployment, "--replicas=1")
    assert len(story.router.calls) > since + 20
    assert all(call.answer for call in story.router.calls[since:]), "every call was answered"
    kube.kubectl("-n", OPERATOR_NAMESPACE, "rollout", "status", "deployment/encoderpool", "--timeout=90s")


def change(fleet: Fleet, **fields: Any) -> None:
    """Merge these fields into the pool's spec."""
    patch = json.dumps({"spec": fields})
    kube.kubectl("-n", fleet.namespace, "patch", "encoderpool", POOL, "--type=merge", "--patch", patch)


def annotate(story: Story, annotation: str) -> None:
    """Annotate the victim, as a person does."""
    kube.kubectl("-n", story.fleet.namespace, "annotate", "pod", story.victim, "--overwrite", annotation)


def status(fleet: Fleet) -> kube.Object:
    """The pool's status."""
    found: kube.Object = (kube.get("encoderpool", POOL, fleet.namespace) or {}).get("status", {})
    return found


def serves_another_revision_than(fleet: Fleet, former: str) -> bool:
    """Whether the pool has left this revision behind."""
    (serving, *others) = status(fleet)["revisions"]
    return fleet.is_as_expected() and not others and bool(serving["hash"] != former)


def roles(story: Story) -> dict[str, str]:
    """The role of each revision that the status names."""
    return {str(each["hash"]): str(each["role"]) for each in status(story.fleet)["revisions"]}


def revision(pod: kube.Object) -> str:
    """The revision that a replica is of."""
    return str(pod["metadata"]["labels"]["encoderpool.io/revision"])


def nobody_is_touched(story: Story) -> bool:
    """Whether all serve by their labels, none was restarted, and no cordon stands."""
    pods = story.fleet.pods()
    records = [cordon_record(pod) for pod in pods]
    cordoned = [record for record in records if record.get("state") == "Cordoned"]
    return story.fleet.labels() == {"true"} and not cordoned and set(story.fleet.restarts().values()) == {0}


def told_first(story: Story, *words: str) -> bool:
    """Whether what `kubectl describe` shows first has all these words."""
    message = kube.condition(POOL, story.fleet.namespace).get("message", "")
    return all(word in message for word in words)


def quarantine_is(story: Story, reason: str) -> kube.Object:
    """The quarantine's condition, where it has this reason."""
    found = kube.condition(POOL, story.fleet.namespace, "QuarantineWithinBudget")
    return found if found.get("reason") == reason else {}


def events(story: Story, reason: str, words: str) -> list[kube.Object]:
    """The pool's events of this reason whose message begins with these words."""
    found = [each for each in kube.listed("events", story.fleet.namespace) if each["involvedObject"]["name"] == POOL]
    return [each for each in found if each["reason"] == reason and each["message"].startswith(words)]
