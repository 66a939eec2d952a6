"""Opinion: what a peer's probe of the failed sizes makes of a mismatch, and whom to ask, case by case."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from encoder_operator.act import patch_of
from encoder_operator.actions import Action, AskPeer
from encoder_operator.cordon import CordonPlan, cordon
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, ProbeResult, Replica, Size
from encoder_operator.orders import parse_order, parse_question
from encoder_operator.spec import EncoderPool
from encoder_operator.verdict import Verdict
from tests.support.replicas import (
    FAILED,
    LARGE,
    NOW,
    POOL,
    a_record,
    a_replica,
    answered,
    asked,
    cordoned,
    counted,
    held,
    observed,
    standing,
    suspect,
    with_quarantine,
)

RELEASED = CordonState.RELEASED
PASSED, FAILS, RUNNING = ProbeResult.PASSED, ProbeResult.FAILED, ProbeResult.RUNNING
WIDE = Size(modality="image", width=900, height=30)
A = suspect("a")


def good(name: str) -> Replica:
    return a_replica(name, counts=counted(120))


def idle(name: str) -> Replica:
    return a_replica(name)


def verdicts(pool: EncoderPool, replicas: Sequence[Replica]) -> dict[str, Verdict]:
    found = judge(pool, standing(), observed(replicas))
    return {"the revision": found.revisions[0]} | {each.subject: each for each in found.replicas}


def plan_for(pool: EncoderPool, *replicas: Replica) -> CordonPlan:
    world = observed(replicas)
    return cordon(pool, standing(), world, judge(pool, standing(), world))


def told(actions: Sequence[Action]) -> list[str]:
    """In words: `b about a`, `cordon a`."""
    return [
        f"{each.replica.name} about {each.suspect}"
        if isinstance(each, AskPeer)
        else f"{type(each).__name__.lower()} {each.replica.name}"
        for each in actions
    ]


PASSING = answered(asked(good("b"), A), PASSED)
FAILING = answered(asked(good("b"), A), FAILS, LARGE)
MET = (
    replace(FAILING.identity, recent_violations=A.identity.recent_violations)
    if FAILING.identity and A.identity
    else None
)
IN_VAIN = asked(good("b"), A, since=31)


@pytest.mark.parametrize(
    ("sentence", "peers", "verdict", "actions"),
    [
        ("first, a peer is asked", [good("b"), good("c")], "NoEvidence", ["b about a"]),
        ("one that cannot vouch is not", [idle("b"), good("c")], "NoEvidence", ["c about a"]),
        ("nobody is asked twice at once", [asked(good("b"), A), good("c")], "NoEvidence", []),
        ("it passes: the replica", [PASSING, good("c")], "TokenMismatch", ["cordon a"]),
        ("it fails: the revision", [FAILING, good("c")], "RevisionFault", []),
        ("while it probes: wait", [answered(asked(good("b"), A), RUNNING), good("c")], "NoEvidence", []),
        (
            "a probe that is heard of may take its time",
            [answered(asked(good("b"), A, since=100), RUNNING), good("c")],
            "NoEvidence",
            [],
        ),
        (
            "but not for ever",
            [answered(asked(good("b"), A, since=151), RUNNING), good("c")],
            "NoEvidence",
            ["c about a"],
        ),
        ("the order was lost: the next is asked", [IN_VAIN, good("c")], "NoEvidence", ["c about a"]),
        ("its answer comes late: it counts", [answered(IN_VAIN, PASSED), good("c")], "TokenMismatch", ["cordon a"]),
        (
            "a peer that failed weighs more than one that passed",
            [answered(IN_VAIN, FAILS, LARGE), answered(asked(good("c"), A), PASSED)],
            "RevisionFault",
            [],
        ),
        (
            "another boot has nothing to say: the next is asked",
            [asked(good("b"), A, boot_id="boot-0"), good("c")],
            "NoEvidence",
            ["c about a"],
        ),
        (
            "no engine lived to tell: the next is asked",
            [answered(asked(good("b"), A), FAILS, items=()), good("c")],
            "NoEvidence",
            ["c about a"],
        ),
        (
            "a size that it left out has not passed",
            [answered(asked(good("b"), A), PASSED, items=()), good("c")],
            "NoEvidence",
            ["c about a"],
        ),
        ("all were asked in vain: their checks must do", [IN_VAIN], "TokenMismatch", ["cordon a"]),
        (
            "three asked in vain are enough",
            [*(asked(good(name), A, since=31) for name in "bcd"), good("e")],
            "TokenMismatch",
            ["cordon a"],
        ),
        (
            "one that serves and was not read this time may have answered",
            [replace(IN_VAIN, identity=None), asked(good("c"), A, since=31)],
            "NoEvidence",
            [],
        ),
        ("a person's skip: it is not asked", [replace(good("b"), skip="mine"), good("c")], "NoEvidence", ["c about a"]),
        ("nobody may be asked: as their checks say", [replace(good("b"), skip="mine")], "TokenMismatch", ["cordon a"]),
        (
            "an old question, about another boot, is written over",
            [asked(good("b"), suspect("gone"))],
            "NoEvidence",
            ["b about a"],
        ),
        (
            "what the peer's other probes said is no answer",
            [answered(asked(good("b"), A), PASSED, order_id="probe-1-1")],
            "NoEvidence",
            [],
        ),
        (
            "a peer that is cordoned by now is nobody's",
            [replace(FAILING, serving=False, ready_since=None), good("c")],
            "NoEvidence",
            ["c about a"],
        ),
        (
            "the revision stays at fault when the peers' requests cease",
            [replace(FAILING, counts=None), idle("c")],
            "RevisionFault",
            [],
        ),
        (
            "and when the peer, met by the size, mismatches too: of that one another is asked",
            [replace(suspect("b"), question=FAILING.question, identity=MET), good("c"), good("d")],
            "RevisionFault",
            ["c about b"],
        ),
    ],
)
def test_a_mismatch_of_a(sentence: str, peers: list[Replica], verdict: str, actions: list[str]) -> None:
    assert verdicts(POOL, [A, *peers])["a"].reason == verdict, sentence
    assert told(plan_for(POOL, A, *peers).actions) == actions, sentence


def test_a_question_names_the_suspects_boot_and_cordons_and_the_sizes_asked() -> None:
    again = suspect("a", LARGE, WIDE, cordon=a_record(times=2, state=RELEASED, released_at=NOW - 30))
    (action,) = plan_for(POOL, again, good("b")).actions
    assert isinstance(action, AskPeer)
    patch = patch_of(action)
    assert patch.labels == {}
    assert list(patch.annotations) == ["encoderpool.io/order-probe"]
    text = patch.annotations["encoderpool.io/order-probe"]
    assert parse_question(text) == action.question
    assert (action.question.id, action.question.boot_id) == (f"opinion-boot-of-a-2-{NOW:.0f}", "boot-1")
    assert action.question.sizes == (LARGE, WIDE)


def test_newer_violations_do_not_reset_the_question() -> None:
    newer = suspect("a", WIDE)
    assert told(plan_for(POOL, newer, PASSING, good("c")).actions) == ["cordon a"]
    assert verdicts(POOL, [newer, FAILING, good("c")])["a"].reason == "RevisionFault"


def test_an_answer_of_long_ago_about_what_fails_no_more_is_asked_for_anew() -> None:
    old = answered(asked(good("b"), A, since=601), PASSED)
    assert told(plan_for(POOL, A, old).actions) == ["cordon a"], "the same size fails still"
    assert told(plan_for(POOL, suspect("a", WIDE), old).actions) == ["b about a"]
    refuted = answered(asked(good("b"), A, since=601), FAILS, LARGE)
    assert verdicts(POOL, [suspect("a", WIDE), refuted])["a"].reason == "RevisionFault", "a fault found stands"


@pytest.mark.parametrize("changed", ["boot", "times"])
def test_an_opinion_is_of_one_boot_and_of_one_cordon(changed: str) -> None:
    other = suspect("a")
    if changed == "boot" and other.identity is not None:
        other = replace(other, identity=replace(other.identity, boot_id="boot-after"))
    if changed == "times":
        other = replace(other, cordon=replace(a_record(), state=RELEASED, released_at=NOW - 30))
    assert told(plan_for(POOL, other, PASSING, good("c")).actions) == ["b about a"]


def test_both_sides_of_a_revisions_fault_are_told() -> None:
    message = verdicts(POOL, [A, FAILING, good("c")])["the revision"].message
    assert message == (
        "image 640x480 fails on a (promised 16, produced 9) and, when probed, on b too (promised 16, produced 9); "
        "a: 40 of 120 checks failed in 30 s (image 640x480: promised 16, produced 9)"
    )


@pytest.mark.parametrize(
    ("sentence", "peers", "words"),
    [
        ("what is to be asked", [good("b")], "1 peer is good; b has yet to probe the sizes that failed"),
        ("who is asked", [asked(good("b"), A)], "b is asked to probe the sizes that failed, and has not answered yet"),
        ("who passed", [PASSING, good("c")], "2 peers are good; b passed a probe of the sizes that failed"),
        ("who did not answer", [IN_VAIN], "asked to probe the sizes that failed, b did not answer"),
        ("that nobody may be asked", [replace(good("b"), skip="x")], "no peer may be asked to probe the sizes"),
    ],
)
def test_the_verdict_says(sentence: str, peers: list[Replica], words: str) -> None:
    assert words in verdicts(POOL, [A, *peers])["a"].message, sentence


def test_without_a_known_size_nobody_is_asked() -> None:
    lost = a_replica("a", counts=counted(80, bad=40))
    assert told(plan_for(POOL, lost, good("b"), good("c")).actions) == ["cordon a"]


def test_a_peer_is_not_at_fault_for_what_it_was_asked() -> None:
    for peer in (FAILING, answered(asked(good("b"), A), RUNNING), answered(asked(good("b"), A), FAILS, items=())):
        assert verdicts(POOL, [A, peer, good("c")])["b"].reason == "AsExpected"
    away = replace(FAILING.identity, state="DRAINING", reason="Draining") if FAILING.identity else None
    assert verdicts(POOL, [A, replace(FAILING, identity=away), good("c")])["b"].reason == "NoEvidence"


def test_a_peer_whose_golden_probe_fails_is_not_believed() -> None:
    broken = replace(FAILING, ready_since=None, identity=held("ProbeFailed", probe=FAILED, boot_id="boot-1"))
    assert told(plan_for(POOL, A, broken, good("c")).actions) == ["c about a"]


WORSE = suspect("w", counts=counted(60, bad=60))


@pytest.mark.parametrize(
    ("sentence", "replicas", "actions"),
    [
        ("the worst first", [A, WORSE, good("b"), good("c")], ["b about w"]),
        ("one question at a time", [A, WORSE, asked(good("b"), A), good("c")], []),
        ("one begun is asked about to the end", [A, WORSE, asked(good("b"), A, since=31), good("c")], ["c about a"]),
        (
            "an answer is not written over while it tells",
            [A, WORSE, answered(asked(good("b"), A), FAILS, LARGE), good("c")],
            ["c about w"],
        ),
        ("nor where there is nobody else", [A, WORSE, answered(asked(good("b"), A), FAILS, LARGE)], []),
        (
            "one asked about in vain waits for no other's peers",
            [A, WORSE, asked(good("b"), A, since=31), asked(good("c"), WORSE, since=31)],
            ["cordon w"],
        ),
        (
            "what a person said to skip holds nobody up",
            [replace(A, skip="mine"), WORSE, asked(good("b"), A)],
            ["b about w"],
        ),
        (
            "the cordoned one's peer is free again",
            [cordoned("a", record=a_record(next_attempt_at=NOW + 9, sizes=())), WORSE, PASSING],
            ["b about w"],
        ),
    ],
)
def test_of_two_suspects(sentence: str, replicas: list[Replica], actions: list[str]) -> None:
    pool = with_quarantine(maxCordoned=2)
    assert told(plan_for(pool, *replicas).actions) == actions, sentence


UNREPAIRED = cordoned("u", record=a_record(attempt=2, next_attempt_at=NOW + 9))


@pytest.mark.parametrize(
    ("sentence", "peer", "verdict"),
    [
        ("first a peer is asked", good("b"), "NoEvidence"),
        ("where it passes, each is bad by itself", PASSING, "TokenMismatch"),
        ("where none answers, two that fail at one size are the revision's", IN_VAIN, "RevisionFault"),
    ],
)
def test_next_to_a_cordoned_one_that_restarts_did_not_cure(sentence: str, peer: Replica, verdict: str) -> None:
    assert verdicts(POOL, [A, peer, UNREPAIRED])["a"].reason == verdict, sentence


def test_observe_asks_nobody_and_tells_what_is_known() -> None:
    pool = with_quarantine(mode="Observe")
    found = plan_for(pool, A, good("b"), good("c"))
    assert (found.actions, told(found.withheld), found.next_look_at) == ((), ["cordon a"], None)
    assert verdicts(pool, [A, good("b"), good("c")])["a"].reason == "TokenMismatch"
    assert told(plan_for(pool, A, PASSING, good("c")).withheld) == ["cordon a"]


def test_a_spent_budget_keeps_nobody_from_asking() -> None:
    pool = with_quarantine(maxCordoned=0)
    assert told(plan_for(pool, A, good("b"), good("c")).actions) == ["b about a"]
    found = plan_for(pool, A, PASSING, good("c"))
    assert found.actions == ()
    assert found.blocked is not None


def test_an_answer_is_looked_for_soon() -> None:
    assert plan_for(POOL, A, good("b")).next_look_at == NOW + 1
    assert plan_for(POOL, A, asked(good("b"), A)).next_look_at == NOW + 1
    assert plan_for(POOL, A, FAILING, good("c")).next_look_at is None


def test_the_cordon_of_a_peer_that_was_asked_is_by_its_own_record() -> None:
    """The ladder's order takes the question's place in the one annotation."""
    peer = replace(FAILING, serving=False, ready_since=None, cordon=a_record(attempt_boot_id="boot-0"))
    text = patch_of(plan_for(POOL, peer, good("c")).actions[0]).annotations["encoderpool.io/order-probe"]
    assert parse_question(text) is None
    order = parse_order(text)
    assert order is not None
    assert order.id == "probe-1-1"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "[]",
        "{}",
        '{"id": "opinion-b-0-17", "bootId": "b"}',
        '{"id": "opinion-b-0-17", "bootId": "b", "sizes": []}',
        '{"id": "opinion-b-0-17", "bootId": "b", "sizes": [1]}',
        '{"id": "opinion-b-0-17", "bootId": 7, "sizes": [{"modality": "image", "width": 1, "height": 1}]}',
        '{"id": "opinion-b-0-99999999999999", "bootId": "b", "sizes": [{"modality": "i", "width": 1, "height": 1}]}',
        '{"id": "probe-1-1", "bootId": "b", "sizes": [{"modality": "image", "width": 1, "height": 1}]}',
        '{"id": "opinion-b-0-17", "bootId": "b", "sizes": [{"modality": "image", "width": 1e999, "height": 1}]}',
    ],
)
def test_what_is_no_question_is_none(text: str | None) -> None:
    assert parse_question(text) is None
