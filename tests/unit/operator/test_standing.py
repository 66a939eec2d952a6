"""Standing: what is recalled, under which policy, and what one pass may teach it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from encoder_operator import history, manifests, names
from encoder_operator.judge import judge
from encoder_operator.learning import lesson
from encoder_operator.observation import Replica, Workload
from encoder_operator.plan import plan
from encoder_operator.recall import Children, recall
from encoder_operator.rollout import advance
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Expected, Kept, Past, Revision, Role, Standing
from tests.support.pool_objects import a_pool
from tests.support.replicas import (
    EXPECTED,
    FAILED,
    FINGERPRINT,
    NOW,
    OTHER_FINGERPRINT,
    POOL,
    REVISION,
    a_replica,
    an_identity,
    counted,
    held,
    observed,
    signature,
    standing,
    suspect,
    with_identity_policy,
    with_status,
)

NOTHING = Children(deployments=(), identities={}, history={})
OLD = a_pool(replicas=3, image="encoder-server:0")
OLD_HASH = names.revision_hash(OLD.spec)


def deployments(pool: EncoderPool, ready: int = 3) -> list[dict[str, Any]]:
    found = [each for each in plan(pool, Standing(revisions=(), templates={})).objects if each["kind"] == "Deployment"]
    return [each | {"status": {"readyReplicas": ready}} for each in found]


def roles(found: Standing) -> list[tuple[str, Role]]:
    return [(each.hash, each.role) for each in found.revisions]


def written(*revisions: tuple[str, str, str | None]) -> dict[str, Any]:
    entries = [
        {"hash": each, "role": role, "since": "2027-01-15T08:00:00Z"} | ({"fingerprint": known} if known else {})
        for each, role, known in revisions
    ]
    return {"revisions": entries}


def test_a_new_pool_has_its_target_alone() -> None:
    found = recall(POOL, NOTHING, NOW)
    assert roles(found) == [(REVISION, Role.TARGET)]
    assert found.revisions[0].expected is None


def test_a_changed_spec_puts_a_target_beside_what_serves() -> None:
    pool = with_status(POOL, written((OLD_HASH, "Current", FINGERPRINT)))
    found = recall(pool, Children(deployments=deployments(OLD), identities={}, history={}), NOW)
    assert roles(found) == [(OLD_HASH, Role.CURRENT), (REVISION, Role.TARGET)]
    assert OLD_HASH in found.templates


def test_a_spec_changed_back_drops_the_target() -> None:
    other = "0123456789"
    pool = with_status(POOL, written((REVISION, "Current", FINGERPRINT), (other, "Target", None)))
    assert roles(recall(pool, NOTHING, NOW)) == [(REVISION, Role.CURRENT)]


def test_a_spec_changed_once_more_drops_the_target_before() -> None:
    other = "0123456789"
    pool = with_status(POOL, written((OLD_HASH, "Current", FINGERPRINT), (other, "Target", None)))
    found = recall(pool, Children(deployments=deployments(OLD), identities={}, history={}), NOW)
    assert roles(found) == [(OLD_HASH, Role.CURRENT), (REVISION, Role.TARGET)]


def test_what_served_but_has_no_deployment_any_more_stands_no_longer() -> None:
    pool = with_status(POOL, written((OLD_HASH, "Current", FINGERPRINT)))
    assert roles(recall(pool, NOTHING, NOW)) == [(REVISION, Role.TARGET)]


def test_a_lost_status_is_adopted_from_the_children() -> None:
    known = manifests.expected_identity(POOL, REVISION, IdentityPolicy.LEARN, EXPECTED)
    children = Children(
        deployments=[*deployments(OLD), *deployments(POOL, ready=1)], identities={f"{REVISION}.json": known}, history={}
    )
    found = recall(POOL, children, NOW)
    assert roles(found) == [(OLD_HASH, Role.CURRENT), (REVISION, Role.TARGET)]
    assert found.revisions[1].expected == EXPECTED


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"fingerprint": 7}'])
def test_a_config_map_that_a_person_broke_teaches_nothing(text: str) -> None:
    found = recall(POOL, Children(deployments=(), identities={f"{REVISION}.json": text}, history={}), NOW)
    assert found.revisions[0].expected is None


def test_the_status_speaks_before_the_config_map() -> None:
    pool = with_status(POOL, written((REVISION, "Current", OTHER_FINGERPRINT)))
    known = manifests.expected_identity(POOL, REVISION, IdentityPolicy.LEARN, EXPECTED)
    found = recall(pool, Children(deployments=(), identities={f"{REVISION}.json": known}, history={}), NOW)
    assert found.revisions[0].expected == Expected(fingerprint=OTHER_FINGERPRINT, signature=None)


def test_a_pin_replaces_what_was_learned_for_the_target_alone() -> None:
    pinned = with_identity_policy(policy="Pinned", pinned={"fingerprint": OTHER_FINGERPRINT})
    pool = with_status(pinned, written((OLD_HASH, "Current", FINGERPRINT), (REVISION, "Target", FINGERPRINT)))
    found = recall(pool, Children(deployments=deployments(OLD), identities={}, history={}), NOW)
    assert [each.expected.fingerprint for each in found.revisions if each.expected] == [FINGERPRINT, OTHER_FINGERPRINT]


def test_off_expects_nothing_and_so_forgets() -> None:
    pool = with_status(with_identity_policy(policy="Off"), written((REVISION, "Current", FINGERPRINT)))
    assert recall(pool, NOTHING, NOW).revisions[0].expected is None


def learning(name: str, fingerprint: str = FINGERPRINT, **fields: Any) -> Replica:
    return a_replica(name, ready=False, identity=held("Learning", fingerprint=fingerprint, **fields))


@pytest.mark.parametrize(
    ("sentence", "replicas", "taught"),
    [
        ("nobody teaches nothing", [], None),
        ("one that passed its probe is enough", [learning("a")], FINGERPRINT),
        ("one whose probe failed teaches nothing", [learning("a", probe=FAILED)], None),
        ("one that is not confirmed teaches nothing", [a_replica("a", identity=None)], None),
        ("one that was taken out of service teaches nothing", [replace(learning("a"), serving=False)], None),
        ("two that disagree teach nothing", [learning("a"), learning("b", OTHER_FINGERPRINT)], None),
        (
            "a strict majority teaches",
            [learning("a", OTHER_FINGERPRINT), learning("b"), learning("c")],
            FINGERPRINT,
        ),
        (
            "signatures too far apart disagree, though the fingerprint is one",
            [learning("a"), learning("b", signature=signature(times=2.0))],
            None,
        ),
        (
            "signatures within the tolerance agree",
            [learning("a"), learning("b", signature=signature(times=1.001))],
            FINGERPRINT,
        ),
    ],
)
def test_lessons(sentence: str, replicas: list[Replica], taught: str | None) -> None:
    found = lesson(replicas, 10).expected
    assert (found.fingerprint if found else None) == taught, sentence


def advanced(pool: EncoderPool, stands: Standing, replicas: list[Replica]) -> Standing:
    world = observed(replicas)
    return advance(pool, stands, world, judge(pool, stands, world))


def test_a_lesson_is_recorded_once() -> None:
    first = advanced(POOL, standing(None), [learning("a")])
    assert first.revisions[0].expected == EXPECTED
    again = advanced(POOL, first, [learning("a", OTHER_FINGERPRINT)])
    assert again.revisions[0].expected == EXPECTED


@pytest.mark.parametrize(
    ("sentence", "stands", "others", "learned"),
    [
        ("a majority of all that are asked for overrules", standing(role=Role.TARGET), 2, OTHER_FINGERPRINT),
        ("one of three does not", standing(role=Role.TARGET), 1, FINGERPRINT),
        ("what serves is final", standing(role=Role.CURRENT), 3, FINGERPRINT),
        (
            "what is gone back to is final",
            replace(
                standing(role=Role.TARGET),
                past=Past(
                    rejected=(), kept=(Kept(hash=REVISION, expected=EXPECTED, template={}, since=""),), retried=None
                ),
            ),
            3,
            FINGERPRINT,
        ),
        (
            "what was pinned is no lesson to overrule, and one that confirms it is enough",
            replace(standing(), revisions=(replace(standing(role=Role.TARGET).revisions[0], pinned=True),)),
            2,
            FINGERPRINT,
        ),
    ],
)
def test_until_a_revision_serves_in_full_a_majority_overrules_what_was_learned(
    sentence: str, stands: Standing, others: int, learned: str
) -> None:
    replicas = [
        learning(name, OTHER_FINGERPRINT if index < others else FINGERPRINT) for index, name in enumerate("abc")
    ]
    found = advanced(POOL, stands, replicas).revisions[0].expected
    assert found is not None
    assert found.fingerprint == learned, sentence


@pytest.mark.parametrize(
    ("sentence", "pinned", "replicas", "kept"),
    [
        ("a pin without a signature is given the one that is taught", None, [learning("a"), learning("b")], EXPECTED),
        ("a pin with one keeps it", signature(times=1.001), [learning("a")], signature(times=1.001)),
        (
            "signatures that disagree give it none",
            None,
            [learning("a"), learning("b", signature=signature(times=2.0))],
            None,
        ),
    ],
)
def test_a_pin_that_is_taken_back_and_confirmed_is_kept_with_a_signature(
    sentence: str, pinned: str | None, replicas: list[Replica], kept: Expected | str | None
) -> None:
    pin = Expected(fingerprint=FINGERPRINT, signature=pinned)
    revision = replace(standing(role=Role.CURRENT).revisions[0], expected=pin, pinned=True)
    found = advanced(POOL, replace(standing(), revisions=(revision,)), replicas).revisions[0]
    wanted = kept if isinstance(kept, Expected) else Expected(fingerprint=FINGERPRINT, signature=kept)
    assert (found.expected, found.pinned) == (wanted, False), sentence


@pytest.mark.parametrize("asked", [0, 1])
def test_fewer_being_asked_for_makes_one_of_many_no_majority(asked: int) -> None:
    replicas = [learning("a", OTHER_FINGERPRINT), learning("b"), learning("c")]
    assert advanced(a_pool(replicas=asked), standing(role=Role.TARGET), replicas).revisions[0].expected == EXPECTED


def test_replicas_that_disagree_among_themselves_overrule_nothing() -> None:
    replicas = [learning("a", "aa" * 32), learning("b", "bb" * 32), learning("c", probe=FAILED)]
    found = advanced(POOL, standing(role=Role.TARGET), replicas).revisions[0]
    assert found.expected == EXPECTED


def test_a_pinned_pool_learns_nothing() -> None:
    pool = with_identity_policy(policy="Off")
    assert advanced(pool, standing(None), [learning("a")]).revisions[0].expected is None


def two_revisions() -> Standing:
    old = Revision(
        hash=OLD_HASH,
        role=Role.CURRENT,
        expected=EXPECTED,
        distinct_identities=1,
        reason="AsExpected",
        since="2027-01-15T08:00:00Z",
        scale=None,
    )
    return Standing(revisions=(old, *standing(role=Role.TARGET).revisions), templates={})


@pytest.mark.parametrize(
    ("sentence", "ready", "desired", "promoted"),
    [
        ("Ready in full", 3, 3, True),
        ("one too few", 2, 3, False),
        ("a Deployment that was not scaled yet is not full", 1, 1, False),
    ],
)
def test_the_target_serves_alone_once_it_is_ready_in_full(
    sentence: str, ready: int, desired: int, promoted: bool
) -> None:
    workload = Workload(revision=REVISION, desired=desired, created=desired, ready=ready, message=None)
    world = replace(observed([a_replica()]), workloads=(workload,))
    stands = two_revisions()
    found = advance(POOL, stands, world, judge(POOL, stands, world))
    kept = [(REVISION, Role.CURRENT)] if promoted else [(OLD_HASH, Role.CURRENT), (REVISION, Role.TARGET)]
    assert roles(found) == kept, sentence


def test_a_target_at_fault_is_not_promoted() -> None:
    replicas = [a_replica(name, ready=True, identity=an_identity(probe=FAILED)) for name in "abc"]
    assert roles(advanced(POOL, two_revisions(), replicas))[0] == (OLD_HASH, Role.CURRENT)


def test_a_target_of_which_a_peer_has_yet_to_tell_is_not_promoted() -> None:
    about, peer = suspect("a"), a_replica("b", counts=counted(120))
    workload = Workload(revision=REVISION, desired=3, created=3, ready=3, message=None)
    for replicas, promoted in (([about, peer], False), ([suspect("a", counts=None), peer], True)):
        world = replace(observed(replicas), workloads=(workload,))
        found = advance(POOL, two_revisions(), world, judge(POOL, two_revisions(), world))
        assert ((REVISION, Role.CURRENT) in roles(found)) == promoted


def kept_of(*found: tuple[str, str]) -> tuple[Kept, ...]:
    return tuple(Kept(hash=name, expected=EXPECTED, template={"spec": {}}, since=since) for name, since in found)


def test_a_history_is_read_as_it_was_written() -> None:
    kept = kept_of(("b", "2027-01-15T09:00:00Z"), ("a", "2027-01-15T08:00:00Z"))
    assert history.read(history.render(kept)) == kept
    assert history.read({"x.json": "{", "y.json": "[]", "z.json": '{"hash": "a"}'}) == ()


def test_a_history_holds_what_serves_and_two_before_it() -> None:
    kept = kept_of(*((name, f"2027-01-15T0{index}:00:00Z") for index, name in enumerate("abc")))
    now = Revision(
        hash="d",
        role=Role.CURRENT,
        expected=None,
        distinct_identities=0,
        reason="",
        since="2027-01-15T08:00:00Z",
        scale=None,
    )
    grown = history.served(kept, now, {"spec": {}}, "2027-01-15T08:00:00Z")
    assert [each.hash for each in grown] == ["d", "c", "b"]
    assert history.served(grown, now, {"spec": {}}, "2027-01-15T09:00:00Z") == grown, "an unchanged world stays"
    again = replace(now, hash="b")
    assert [each.hash for each in history.served(grown, again, {"spec": {}}, "2027-01-15T09:00:00Z")] == ["b", "d", "c"]
