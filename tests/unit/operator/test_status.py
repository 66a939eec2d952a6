"""Status: what the user is told, and that an unchanged world leaves it as it is."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from encoder_operator import vocabulary
from encoder_operator.cordon import cordon
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, Identity, Observation, Obstacle, Replica, Workload
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Role
from encoder_operator.status import refused, status
from tests.support.pool_objects import SCHEMA
from tests.support.replicas import (
    FAILED,
    FINGERPRINT,
    NOW,
    POOL,
    REVISION,
    a_record,
    a_replica,
    an_identity,
    cordoned,
    counted,
    held,
    observed,
    standing,
    with_status,
)

REASONS = json.loads((Path(__file__).parents[2] / "contract" / "vocabulary.json").read_text())["reasons"]


def told(world: Observation, pool: EncoderPool = POOL, role: Role = Role.CURRENT) -> dict[str, Any]:
    stands = standing(role=role)
    judgement = judge(pool, stands, world)
    return status(pool, stands, world, judgement, cordon(pool, stands, world, judgement))


def condition(found: dict[str, Any], kind: str) -> dict[str, Any]:
    return next(each for each in found["conditions"] if each["type"] == kind)


def three(first: Replica) -> list[Replica]:
    return [first, *(a_replica(name, counts=counted(100)) for name in "bc")]


WORLDS: list[tuple[str, list[Replica], tuple[str, str]]] = [
    ("all serve", three(a_replica(counts=counted(100))), ("True", "AsExpected")),
    ("nobody is there", [], ("False", "NoEvidence")),
    (
        "one is held",
        three(a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED))),
        ("False", "ProbeFailed"),
    ),
    (
        "one has drifted",
        three(a_replica(ready=False, identity=held("FingerprintDrift", fingerprint="11" * 32))),
        ("False", "FingerprintDrift"),
    ),
    ("one is cordoned", three(cordoned()), ("False", "TokenMismatch")),
    ("one is not Ready yet", three(a_replica(ready=False)), ("False", "NoEvidence")),
    ("one is not heard but serves", three(a_replica(identity=None)), ("True", "NoEvidence")),
    (
        "all mismatch",
        [a_replica(name, counts=counted(50, bad=50)) for name in "abc"],
        ("False", "RevisionFault"),
    ),
    (
        "all mismatch on one picture",
        [a_replica(name, counts=counted(50, bad=50, media=1)) for name in "abc"],
        ("False", "CallerFault"),
    ),
]


@pytest.mark.parametrize(("sentence", "replicas", "expected"), WORLDS)
def test_ready_tells_at_a_glance(sentence: str, replicas: list[Replica], expected: tuple[str, str]) -> None:
    found = told(observed(replicas))
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == expected, sentence


@pytest.mark.parametrize(("sentence", "replicas", "expected"), WORLDS)
def test_every_status_fits_the_schema_and_the_vocabulary(
    sentence: str, replicas: list[Replica], expected: tuple[str, str]
) -> None:
    found = told(observed(replicas))
    schema = json.loads(json.dumps(SCHEMA["properties"]["status"]).replace('"format": "date-time"', '"x": 1'))
    jsonschema.validate(found, schema)
    assert set(found) <= set(schema["properties"]), "what the schema does not name is pruned"
    for each in found["conditions"]:
        assert each["reason"] in REASONS
        assert each["observedGeneration"] == POOL.generation
    assert [each["type"] for each in found["conditions"]] == [
        *("Ready", "Available", "Progressing", "IdentityConsistent", "IntegrityHealthy", "QuarantineWithinBudget")
    ]


@pytest.mark.parametrize(("sentence", "replicas", "expected"), WORLDS)
def test_an_unchanged_world_gives_an_equal_status(
    sentence: str, replicas: list[Replica], expected: tuple[str, str]
) -> None:
    first = told(observed(replicas))
    again = told(observed(replicas, at=NOW + 1000), with_status(POOL, first))
    assert json.dumps(again) == json.dumps(first), sentence


def test_counts_are_of_what_is_there() -> None:
    replicas = [cordoned("a"), a_replica("b", ready=False, identity=held("Learning")), a_replica("c")]
    found = told(observed(replicas))
    names = ("replicas", "readyReplicas", "servingReplicas", "updatedReplicas", "heldReplicas", "cordonedReplicas")
    assert [found[name] for name in names] == [3, 1, 1, 3, 1, 1]
    assert (found["revision"], found["fingerprint"]) == (REVISION, FINGERPRINT)
    assert found["selector"] == f"{vocabulary.LABEL_POOL}=vision"


def test_the_message_names_the_replica_and_what_was_measured() -> None:
    found = told(observed(three(a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED)))))
    message = condition(found, "Ready")["message"]
    assert message == "a: item 2 (image 112x112) promised 16, produced 64; 2 of 3 replicas serve"
    assert condition(found, "IdentityConsistent")["status"] == "False"
    assert condition(found, "Available")["status"] == "True"


def test_replicas_that_serve_and_have_not_reached_the_redis_for_long_are_told_of_and_nothing_is_done_to_them() -> None:
    def world(*seconds: float | None) -> Observation:
        since = [None if each is None else NOW - each for each in seconds]
        pairs = zip("abc", since, strict=True)
        return observed(
            [a_replica(name, identity=an_identity(sharing_lost_since=at), counts=counted(100)) for name, at in pairs]
        )

    found, good = told(world(600, 61, 3)), told(world(None, None, None))
    available = condition(found, "Available")
    assert (available["status"], available["reason"]) == ("True", "AsExpected")
    assert available["message"] == (
        "3 of 3 replicas serve; 2 of them cannot use the Redis of spec.cache.redis: see encoder_cache_errors_total"
    )
    assert condition(good, "Available")["message"] == "3 of 3 replicas serve"
    assert [each for each in found["conditions"] if each["type"] != "Available"] == [
        each for each in good["conditions"] if each["type"] != "Available"
    ]
    assert "cordoned" not in found or found["cordoned"] == []


def test_at_most_twenty_cordoned_are_listed_the_worst_first() -> None:
    replicas = [cordoned(f"r{index:02}", record=a_record(times=index)) for index in range(25)]
    found = told(observed(replicas))
    assert [each["name"] for each in found["cordoned"]][:2] == ["r24", "r23"]
    assert (len(found["cordoned"]), found["cordonedTruncated"], found["cordonedReplicas"]) == (20, 5, 25)


def test_the_last_bad_verdict_stays_with_its_time() -> None:
    bad = three(a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED)))
    first = told(observed(bad))
    assert first["verdict"]["reason"] == "ProbeFailed"
    good = told(observed(three(a_replica()), at=NOW + 100), with_status(POOL, first))
    assert good["verdict"] == first["verdict"]
    again = told(observed(bad, at=NOW + 200), with_status(POOL, good))
    assert again["verdict"]["at"] != first["verdict"]["at"], "another time it is another verdict"


def test_a_transition_time_moves_only_with_its_status() -> None:
    first = told(observed(three(a_replica(ready=False))))
    second = told(
        observed(three(a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED))), at=NOW + 100),
        with_status(POOL, first),
    )
    third = told(observed(three(a_replica()), at=NOW + 200), with_status(POOL, second))
    times = [condition(each, "Ready")["lastTransitionTime"] for each in (first, second, third)]
    assert times[0] == times[1] != times[2]


def test_why_counters_are_unknown_is_told() -> None:
    found = told(observed(three(a_replica()), problem="Prometheus answered 503"))
    integrity = condition(found, "IntegrityHealthy")
    assert (integrity["status"], integrity["reason"], integrity["message"]) == (
        "Unknown",
        "NoEvidence",
        "Prometheus answered 503",
    )


def test_a_workload_that_cannot_progress_is_told() -> None:
    stuck = Workload(revision=REVISION, desired=3, created=0, ready=0, message="exceeded quota")
    world = replace(observed([]), workloads=(stuck,))
    found = told(world, role=Role.TARGET)
    assert condition(found, "Progressing")["reason"] == "DeadlineExceeded"
    assert "exceeded quota" in condition(found, "Ready")["message"]


UNBOUND = Obstacle(message='no node takes it: persistentvolumeclaim "weights" not found', lasting=True)
REFUSED = an_identity(
    state="FAILED", reason="LoadFailed", message="no vision tower in it", fingerprint=None, signature=None, probe=None
)
LOADING = an_identity(
    state="STARTING", reason="Loading", message="an engine is loading", fingerprint=None, signature=None, probe=None
)


@pytest.mark.parametrize(
    ("sentence", "replica", "reason", "words"),
    [
        ("no node takes it", a_replica("b", ready=False, identity=None, obstacle=UNBOUND), "DeadlineExceeded", UNBOUND),
        ("its checkpoint is refused", a_replica("b", ready=False, identity=REFUSED), "DeadlineExceeded", REFUSED),
    ],
)
def test_the_cause_is_named_before_what_will_come_by_itself(
    sentence: str, replica: Replica, reason: str, words: Obstacle | Identity
) -> None:
    found = told(observed([a_replica("a", ready=False, identity=LOADING), replica]), role=Role.TARGET)
    for kind in ("Ready", "Progressing"):
        made = condition(found, kind)
        assert (made["status"], made["reason"]) == ("False", reason), sentence
        assert words.message in made["message"]
        assert "b: " in made["message"]


def test_a_pool_that_loads_for_the_first_time_is_learning() -> None:
    world = observed([a_replica(name, ready=False, identity=LOADING) for name in "abc"])
    stands = standing(None, Role.TARGET)
    judgement = judge(POOL, stands, world)
    ready = condition(status(POOL, stands, world, judgement, cordon(POOL, stands, world, judgement)), "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "Learning")
    assert ready["message"] == "0 of 3 replicas serve; a: STARTING (Loading): an engine is loading"


def test_a_deployment_that_gave_up_does_not_hide_why() -> None:
    late = Workload(revision=REVISION, desired=3, created=3, ready=0, message="has timed out progressing")
    replicas = (a_replica(ready=False, identity=None, obstacle=UNBOUND),)
    found = told(replace(observed(replicas), workloads=(late,)), role=Role.TARGET)
    for kind in ("Ready", "Progressing"):
        assert "has timed out progressing" in condition(found, kind)["message"]
        assert UNBOUND.message in condition(found, kind)["message"]


def test_a_cordoned_replica_that_does_not_come_up_says_why() -> None:
    crashing = Obstacle(message="container is waiting: CrashLoopBackOff", lasting=True)
    for victim in (cordoned(obstacle=crashing, identity=None), cordoned(identity=REFUSED)):
        ready = condition(told(observed(three(victim))), "Ready")
        assert ready["reason"] == "TokenMismatch"
        assert "CrashLoopBackOff" in ready["message"] or "no vision tower" in ready["message"]


def test_a_persons_cordon_is_not_told_with_an_old_record_of_ours() -> None:
    before = a_record(state=CordonState.RELEASED, released_at=NOW - 100)
    found = told(observed(three(a_replica(serving=False, ready=False, cordon=before))))
    assert found["cordoned"] == [{"name": "a", "message": "label encoderpool.io/serving was set by a person"}]


def test_a_refused_spec_keeps_what_is_known() -> None:
    before = told(observed(three(a_replica())))
    found = refused(before, 7, "InvalidSpec", "spec.replicas: must be a number", NOW + 5)
    assert found["observedGeneration"] == 7
    assert found["revisions"] == before["revisions"]
    ready = condition(found, "Ready")
    assert (ready["status"], ready["reason"]) == ("False", "InvalidSpec")
    again = refused(found, 7, "InvalidSpec", "spec.replicas: must be a number", NOW + 50)
    assert again == found
