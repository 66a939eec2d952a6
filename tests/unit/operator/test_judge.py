"""Judge: rule by rule, and whose fault it is before anything is done."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from encoder_operator import judge as judging
from encoder_operator.attribution import ATTRIBUTORS
from encoder_operator.judge import judge
from encoder_operator.observation import ProbeReport, ProbeResult, Replica
from encoder_operator.verdict import Judgement, Result, Scope
from tests.support.replicas import (
    EXPECTED,
    FAILED,
    OTHER_FINGERPRINT,
    POOL,
    REVISION,
    a_record,
    a_replica,
    an_identity,
    an_item,
    cordoned,
    counted,
    held,
    observed,
    signature,
    standing,
    with_identity_policy,
)

GOOD, UNKNOWN, BAD = Result.GOOD, Result.UNKNOWN, Result.BAD
STARTING = an_identity(state="STARTING", reason="Loading", fingerprint=None, signature=None, probe=None)
FAILED_AS_ORDERED = ProbeReport(result=ProbeResult.FAILED, order_id="probe-1-1", items=(an_item(result="count"),))
DRIFTED = held("FingerprintDrift", fingerprint=OTHER_FINGERPRINT)


def judged(*replicas: Replica) -> Judgement:
    return judge(POOL, standing(), observed(replicas))


def verdict_of(judgement: Judgement, name: str) -> tuple[Result, str, Scope]:
    found = next(each for each in judgement.replicas if each.subject == name)
    return found.result, found.reason, found.scope


def good(*names: str) -> list[Replica]:
    return [a_replica(name) for name in names]


@pytest.mark.parametrize(
    ("sentence", "replica", "expected"),
    [
        ("one that serves as expected is good", a_replica(), (GOOD, "AsExpected")),
        ("one that is not heard is unknown", a_replica(identity=None), (UNKNOWN, "NoEvidence")),
        ("one that starts is unknown", a_replica(ready=False, identity=STARTING), (UNKNOWN, "NoEvidence")),
        (
            "a failed probe is bad",
            a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED)),
            (BAD, "ProbeFailed"),
        ),
        ("another fingerprint is drift", a_replica(ready=False, identity=DRIFTED), (BAD, "FingerprintDrift")),
        (
            "a failed probe is named before the fingerprint that it changed",
            a_replica(ready=False, identity=held("ProbeFailed", probe=FAILED, fingerprint=OTHER_FINGERPRINT)),
            (BAD, "ProbeFailed"),
        ),
        (
            "a signature further away than allowed is drift",
            a_replica(ready=False, identity=held("SignatureDrift", signature=signature(times=1.02))),
            (BAD, "SignatureDrift"),
        ),
        (
            "a signature within the tolerance is no drift",
            a_replica(identity=an_identity(signature=signature(times=1.005))),
            (GOOD, "AsExpected"),
        ),
        (
            "one that is held though it matches has not read its file yet",
            a_replica(ready=False, identity=held("Learning")),
            (UNKNOWN, "Learning"),
        ),
        *(
            (
                f"a probe of named sizes that failed is no fault of one in {state} that a person let back",
                a_replica(ready=state == "READY", identity=an_identity(state=state, probe=FAILED_AS_ORDERED)),
                (result, reason),
            )
            for state, result, reason in (("READY", GOOD, "AsExpected"), ("CORDONED", UNKNOWN, "NoEvidence"))
        ),
        (
            "a probe that runs says nothing yet",
            a_replica(identity=an_identity(probe=ProbeReport(result=ProbeResult.RUNNING, order_id=None, items=()))),
            (UNKNOWN, "NoEvidence"),
        ),
        (
            "a lost engine is not known to be a drift",
            a_replica(identity=an_identity(state="FAILED", reason="EngineLost")),
            (UNKNOWN, "NoEvidence"),
        ),
        ("a cordoned one keeps its record's verdict", cordoned(), (BAD, "TokenMismatch")),
        (
            "a cordon by a person is left alone and told",
            a_replica(serving=False, ready=False),
            (UNKNOWN, "NoEvidence"),
        ),
        (
            "a cordon by another program is left alone and told",
            cordoned(record=a_record(by="somebody")),
            (UNKNOWN, "NoEvidence"),
        ),
        ("too few checks say nothing against it", a_replica(counts=counted(0, bad=19)), (GOOD, "AsExpected")),
        (
            "a mismatch within the allowance is good",
            a_replica(counts=counted(99, bad=1)),
            (GOOD, "AsExpected"),
        ),
        (
            "mismatch with good peers is its own",
            a_replica(counts=counted(82, bad=38)),
            (BAD, "TokenMismatch"),
        ),
        (
            "a majority of layout errors is named so",
            a_replica(counts=counted(82, bad=10, layout=28)),
            (BAD, "LayoutError"),
        ),
        (
            "failures of too few media wait, though peers are good",
            a_replica(counts=counted(82, bad=38, media=1)),
            (UNKNOWN, "NoEvidence"),
        ),
    ],
)
def test_a_replica_beside_two_good_peers(sentence: str, replica: Replica, expected: tuple[Result, str]) -> None:
    peers = [a_replica("b", counts=counted(100)), a_replica("c", counts=counted(100))]
    result, reason, scope = verdict_of(judged(replica, *peers), "a")
    assert (result, reason) == expected, sentence
    assert scope is Scope.REPLICA


def test_the_rules_speak_in_this_order() -> None:
    assert [rule.__name__.strip("_") for rule in judging.RULES] == [
        "cordoned_here",
        "cordoned_elsewhere",
        "no_spare_accelerator",
        "unheard",
        "probe_failed",
        "differs",
        "not_measured",
        "to_be_learned",
        "not_admitted_yet",
        "not_serving",
        "mismatches",
        "as_expected",
    ]
    assert [attributor.__name__.strip("_") for attributor in ATTRIBUTORS] == [
        "all_probes_fail",
        "the_reference",
        "the_teachers",
        "all_differ_from_pinned",
        "in_traffic",
    ]


def failing(*names: str) -> list[Replica]:
    return [a_replica(name, ready=False, identity=held("ProbeFailed", probe=FAILED)) for name in names]


def drifting(*names: str) -> list[Replica]:
    return [a_replica(name, ready=False, identity=DRIFTED) for name in names]


def mismatching(*names: str, media: int = 5) -> list[Replica]:
    return [a_replica(name, counts=counted(50, bad=50, media=media)) for name in names]


def serving_well(*names: str) -> list[Replica]:
    return [a_replica(name, counts=counted(100)) for name in names]


@pytest.mark.parametrize(
    ("sentence", "replicas", "scope", "result", "reason"),
    [
        ("all probes fail: the revision", failing("a", "b"), Scope.REVISION, BAD, "RevisionFault"),
        ("a pool of one is never one replica", failing("a"), Scope.REVISION, BAD, "RevisionFault"),
        (
            "the first of three to be heard is not all of them",
            [*failing("a"), a_replica("b", ready=False, identity=STARTING), a_replica("c", ready=False, identity=None)],
            Scope.REPLICA,
            BAD,
            "ProbeFailed",
        ),
        ("half differ: the reference", [*drifting("a"), *good("b")], Scope.REFERENCE, BAD, "ReferenceSuspect"),
        (
            "a minority differs: the replica",
            [*drifting("a"), *good("b", "c")],
            Scope.REPLICA,
            BAD,
            "FingerprintDrift",
        ),
        (
            "an admitted peer that is not read this time does not make a minority half",
            [*drifting("a"), *good("b"), a_replica("c", identity=None)],
            Scope.REPLICA,
            BAD,
            "FingerprintDrift",
        ),
        ("all mismatch on many media: the revision", mismatching("a", "b"), Scope.REVISION, BAD, "RevisionFault"),
        ("all mismatch on few media: the caller", mismatching("a", "b", media=2), Scope.CALLER, BAD, "CallerFault"),
        ("a single replica in traffic: the revision", mismatching("a"), Scope.REVISION, BAD, "RevisionFault"),
        (
            "no peer with evidence yet: wait",
            [*mismatching("a"), *good("b", "c")],
            Scope.REPLICA,
            UNKNOWN,
            "NoEvidence",
        ),
        (
            "a cordoned replica is no peer: its neighbour stands alone",
            [cordoned("a"), *mismatching("b")],
            Scope.REVISION,
            BAD,
            "RevisionFault",
        ),
        (
            "two of three mismatch beside a good one: these replicas",
            [*mismatching("a", "b"), *serving_well("c")],
            Scope.REPLICA,
            BAD,
            "TokenMismatch",
        ),
        ("nobody is there: unknown", [], Scope.REVISION, UNKNOWN, "NoEvidence"),
    ],
)
def test_attribution_of_a_revision(
    sentence: str, replicas: Sequence[Replica], scope: Scope, result: Result, reason: str
) -> None:
    found = judged(*replicas).pool
    assert (found.scope, found.result, found.reason) == (scope, result, reason), sentence


def test_checks_before_the_others_first_failure_do_not_vouch() -> None:
    """All begin to fail at once, but one has been scraped first: its peers' older checks met other media."""
    old = counted(100)
    stale = type(old)(
        samples=old.samples,
        seconds=old.seconds,
        good=old.good,
        bad=old.bad,
        distinct_media=0,
        points=tuple(type(p)(at=p.at - 25, good=p.good, bad=p.bad) for p in old.points),
    )
    found = judged(*mismatching("a"), a_replica("b", counts=stale), a_replica("c", counts=stale))
    assert verdict_of(found, "a")[:2] == (UNKNOWN, "NoEvidence")


def test_all_that_differ_from_a_pinned_identity_are_the_revisions_fault() -> None:
    pool = with_identity_policy(policy="Pinned", pinned={"fingerprint": EXPECTED.fingerprint})
    found = judge(pool, standing(), observed(drifting("a", "b"))).pool
    assert (found.scope, found.reason) == (Scope.REVISION, "RevisionFault")


def test_half_that_differ_from_a_pinned_identity_are_replicas() -> None:
    pool = with_identity_policy(policy="Pinned", pinned={"fingerprint": EXPECTED.fingerprint})
    found = judge(pool, standing(), observed([*drifting("a"), *good("b")])).pool
    assert (found.scope, found.reason) == (Scope.REPLICA, "FingerprintDrift")


def test_with_the_policy_off_nothing_is_compared() -> None:
    pool = with_identity_policy(policy="Off")
    found = judge(pool, standing(None), observed([a_replica("a", identity=an_identity(fingerprint=OTHER_FINGERPRINT))]))
    assert found.pool.reason == "AsExpected"


def test_a_disagreement_of_those_to_learn_from_is_told() -> None:
    teachers = [
        a_replica("a", ready=False, identity=held("Learning")),
        a_replica("b", ready=False, identity=held("Learning", fingerprint=OTHER_FINGERPRINT)),
    ]
    found = judge(POOL, standing(None), observed(teachers)).pool
    assert (found.scope, found.result, found.reason) == (Scope.REFERENCE, BAD, "ReferenceSuspect")
    assert "no majority" in found.message


def test_a_failed_probe_is_told_with_item_size_and_numbers() -> None:
    message = judged(*failing("a"), *good("b", "c")).pool.message
    assert message == "a: item 2 (image 112x112) promised 16, produced 64"


def test_a_cordon_by_hand_is_told_in_the_persons_words() -> None:
    by_hand = a_record(by="person:to look at it", reason="HandCordon", message="to look at it")
    message = judged(cordoned("a", record=by_hand), *good("b", "c")).pool.message
    assert message == "a: cordoned by hand until annotation encoderpool.io/hand-cordon goes: to look at it"


def test_a_mismatch_is_told_with_what_was_measured() -> None:
    violation = an_item(size=an_item().size, result="count", produced=None)
    victim = a_replica("a", counts=counted(82, bad=38), identity=an_identity(recent_violations=(violation,)))
    message = judged(victim, *serving_well("b", "c")).pool.message
    assert message == (
        "a: 38 of 120 checks failed in 30 s (image 640x480: promised 16, produced nothing); 2 peers are good; "
        "b has yet to probe the sizes that failed"
    )


def test_a_replica_of_a_revision_that_no_longer_stands_says_nothing_of_the_pool() -> None:
    found = judged(*serving_well("a", "b"), a_replica("c", revision="0ld", identity=DRIFTED))
    assert verdict_of(found, "c")[0] is UNKNOWN
    assert found.pool.reason == "AsExpected"
    assert [each.subject for each in found.revisions] == [REVISION]
