"""Properties of the quarantine: its budget, its modes and its back-off, in any world."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from encoder_operator import vocabulary
from encoder_operator.actions import Action, AskPeer, Cordon, Evict, OrderRestart, is_cordoned_here
from encoder_operator.backoff import next_in_a_row, wait_seconds
from encoder_operator.budget import serves
from encoder_operator.cordon import CordonPlan, cordon
from encoder_operator.eviction import Next
from encoder_operator.hand import by_hand
from encoder_operator.judge import judge
from encoder_operator.observation import CordonState, Observation, ProbeResult, Replica
from encoder_operator.opinion import may_be_asked, subject_of
from encoder_operator.spec import EncoderPool, Mode, QuarantineSpec
from encoder_operator.standing import Replaced, Standing
from encoder_operator.traffic import mismatch, vouches
from tests.support.replicas import NOW, POOL, a_record, standing, with_quarantine
from tests.support.worlds import HEARINGS, OBSERVED_POOL, PAUSED_POOL, POOLS, STANDINGS, fleets, worlds

STOCKS = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda each: f"{each}%"))
LIMITS = st.builds(
    lambda base, more, most, least: with_quarantine(
        baseSeconds=base, maxSeconds=base + more, maxCordoned=most, minServing=least
    ),
    st.integers(1, 60),
    st.integers(0, 1000),
    STOCKS,
    st.integers(0, 4),
)


def decided(pool: EncoderPool, stands: Standing, world: Observation) -> CordonPlan:
    return cordon(pool, stands, world, judge(pool, stands, world))


def answer(peer: Replica) -> ProbeResult | None:
    """How the probe ended that this peer was asked for; None where it did not, or nobody tells of it."""
    asks, identity = peer.question, peer.identity
    if asks is None or identity is None or identity.probe is None or identity.boot_id != asks.boot_id:
        return None
    return identity.probe.result if identity.probe.order_id == asks.id else None


def failed(peer: Replica) -> bool:
    """Whether it failed at a size that it was asked about."""
    items = peer.identity.probe.items if peer.identity is not None and peer.identity.probe is not None else ()
    return answer(peer) in (ProbeResult.PASSED, ProbeResult.FAILED) and any(each.result != "ok" for each in items)


def is_over(world: Observation, peer: Replica) -> bool:
    """Whether this question is of another boot, or old enough to be given up."""
    assert peer.question is not None
    assert peer.identity is not None
    return peer.identity.boot_id != peer.question.boot_id or world.at - peer.question.asked_at > 30


def vouches_for(pool: EncoderPool, peer: Replica, suspect: Replica) -> bool:
    """Whether this peer's checks are good since the suspect's first failure."""
    found = mismatch(suspect, pool.spec.integrity)
    return found is not None and vouches(peer, found.onset, pool.spec.integrity)


def new_cordons(actions: tuple[Action, ...]) -> list[Cordon]:
    found = [each for each in actions if isinstance(each, Cordon)]
    return [each for each in found if each.record.by == vocabulary.FIELD_MANAGER]


def without(kinds: tuple[type[Action], ...], actions: tuple[Action, ...]) -> list[Action]:
    return [each for each in actions if not isinstance(each, kinds)]


@given(LIMITS, STANDINGS, st.one_of(fleets(), worlds(), HEARINGS))
def test_never_above_the_budget_and_never_below_min_serving(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    found = new_cordons(decided(pool, stands, world).actions)
    assert len(found) <= 1
    for action in found:
        limits = pool.spec.quarantine
        already = sum(is_cordoned_here(each) and not each.serving for each in world.replicas)
        assert already + 1 <= limits.max_cordoned.of(pool.spec.replicas)
        others = [each for each in world.replicas if each.name != action.replica.name]
        assert sum(map(serves, others)) >= limits.min_serving


@given(LIMITS, STANDINGS, fleets())
def test_what_is_blocked_is_told_and_what_is_not_is_done(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    found = decided(pool, stands, world)
    assert found.blocked is None or not new_cordons(found.actions)
    if found.blocked is not None:
        assert found.blocked.reason in (vocabulary.BUDGET_EXCEEDED, vocabulary.MIN_SERVING)


@given(LIMITS, STANDINGS, fleets(), st.integers(0, 3))
def test_a_larger_budget_never_takes_a_cordon_away(
    pool: EncoderPool, stands: Standing, world: Observation, more: int
) -> None:
    limits = pool.spec.quarantine
    most = limits.max_cordoned.of(pool.spec.replicas)
    wider = replace(
        limits,
        max_cordoned=replace(limits.max_cordoned, count=most + more, per_cent=None),
        min_serving=max(0, limits.min_serving - more),
    )
    wide = replace(pool, spec=replace(pool.spec, quarantine=wider))
    assert len(new_cordons(decided(wide, stands, world).actions)) >= len(
        new_cordons(decided(pool, stands, world).actions)
    )


@given(LIMITS, STANDINGS, st.one_of(fleets(), worlds(), HEARINGS))
def test_no_budget_blocks_a_release_a_probe_or_a_restart(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    none = replace(
        pool.spec.quarantine, max_cordoned=replace(pool.spec.quarantine.max_cordoned, count=0, per_cent=None)
    )
    spent = replace(pool, spec=replace(pool.spec, quarantine=replace(none, min_serving=1000)))
    before = decided(pool, stands, world).actions
    assert decided(spent, stands, world).actions == tuple(each for each in before if each not in new_cordons(before))


@given(POOLS, STANDINGS, st.one_of(fleets(), worlds(), HEARINGS))
def test_what_a_person_said_to_skip_is_neither_cordoned_nor_restarted(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    actions = decided(pool, stands, world).actions
    own: list[Action] = [*new_cordons(actions), *(each for each in actions if isinstance(each, OrderRestart))]
    assert all(each.replica.skip is None and each.replica.hand_cordon is None for each in own)


@given(STANDINGS, st.one_of(fleets(), worlds(), HEARINGS))
def test_observe_decides_all_and_does_only_what_a_person_says(stands: Standing, world: Observation) -> None:
    would, does = decided(OBSERVED_POOL, stands, world), decided(with_quarantine(mode="Repair"), stands, world)
    asked = tuple(each for replica in world.replicas if (each := by_hand(replica, world.at)) is not None)
    assert would.actions == asked
    if any(each.awaits for each in judge(with_quarantine(mode="Repair"), stands, world).replicas):
        # A peer would be asked first: told is what the answer would decide.
        differs = (Cordon, AskPeer)
        assert without(differs, asked + would.withheld) == without(differs, does.actions)
    else:
        assert asked + would.withheld == does.actions
        assert would.blocked == does.blocked
        assert would.next_look_at == does.next_look_at


@given(STANDINGS, st.one_of(fleets(), worlds(), HEARINGS))
def test_paused_does_nothing_at_all(stands: Standing, world: Observation) -> None:
    found = decided(PAUSED_POOL, stands, world)
    assert (found.actions, found.withheld, found.blocked) == ((), (), None)


@given(POOLS, STANDINGS, HEARINGS)
def test_nobody_is_cordoned_whom_a_peer_may_clear(pool: EncoderPool, stands: Standing, world: Observation) -> None:
    judgement = judge(pool, stands, world)
    verdicts = {each.subject: each for each in judgement.replicas}
    for action in new_cordons(cordon(pool, stands, world, judgement).actions):
        subject = subject_of(action.replica)
        if subject is None:
            continue
        others = [each for each in world.replicas if each.serving and each.name != action.replica.name]
        asked = [each for each in others if each.question is not None and each.question.about == subject]
        assert not any(failed(each) and verdicts[each.name].reason == vocabulary.AS_EXPECTED for each in asked)
        if any(answer(each) is ProbeResult.PASSED for each in asked):
            continue
        able = [each for each in others if vouches_for(pool, each, action.replica) and may_be_asked(each)]
        able = [each for each in able if verdicts[each.name].reason == vocabulary.AS_EXPECTED]
        taken = [each for each in able if each.question is not None and each not in asked]
        assert len(asked) >= 3 or all(each in (*asked, *taken) for each in able), "each was asked, and in vain"
        assert asked or not able
        for each in asked:
            assert each.identity is None or each.question is None or answer(each) is not None or is_over(world, each)


@given(POOLS, STANDINGS, HEARINGS)
def test_one_question_at_a_time_to_one_that_may_be_asked(
    pool: EncoderPool, stands: Standing, world: Observation
) -> None:
    judgement = judge(pool, stands, world)
    questions = [each for each in cordon(pool, stands, world, judgement).actions if isinstance(each, AskPeer)]
    assert len(questions) <= 1
    for each in questions:
        suspect = next(one for one in world.replicas if one.name == each.suspect)
        assert suspect.skip is None
        assert suspect.revision == each.replica.revision
        assert each.replica.name != suspect.name
        assert (each.replica.serving, each.replica.skip, each.replica.hand_cordon) == (True, None, None)
        assert vouches_for(pool, each.replica, suspect)
        assert each.replica.question is None or each.replica.question.about != each.question.about


REPLACED = st.builds(
    lambda attempts, uid: Replaced(attempts=attempts, uid=uid, at="2027-01-15T08:00:00Z"),
    st.integers(0, 4),
    st.sampled_from([None, "uid-0", "uid-1", "uid-gone"]),
)


@given(POOLS, REPLACED, st.one_of(fleets(), worlds(), HEARINGS))
def test_one_at_a_time_is_evicted_and_only_what_was_written_down_before(
    pool: EncoderPool, replaced: Replaced, world: Observation
) -> None:
    revision = replace(standing().revisions[0], replaced=replaced)
    found = decided(pool, replace(standing(), revisions=(revision,)), world)
    evicted = [each for each in found.actions if isinstance(each, Evict)]
    assert [each.replica.uid for each in evicted] in ([], [replaced.uid])
    assert all(is_cordoned_here(each.replica) and each.replica.skip is None for each in evicted)
    assert not evicted or pool.spec.quarantine.mode is Mode.REPAIR
    if isinstance(found.end, Next):
        out = {each.uid for each in world.replicas if is_cordoned_here(each)}
        assert replaced.uid not in out, "one after the other"
        assert replaced.attempts < pool.spec.quarantine.max_restarts


SECONDS = st.builds(
    lambda base, more: replace(POOL.spec.quarantine, base_seconds=base, max_seconds=base + more),
    st.integers(1, 1000),
    st.integers(0, 10000),
)


@given(SECONDS, st.integers(1, 50), st.integers(1, 50), st.text(max_size=5))
def test_a_wait_is_within_its_limits_and_longer_each_time(
    limits: QuarantineSpec, attempt: int, in_a_row: int, uid: str
) -> None:
    record = a_record(attempt=attempt, in_a_row=in_a_row)
    wait = wait_seconds(limits, record, uid)
    assert 0.75 * limits.base_seconds <= wait <= limits.max_seconds
    assert wait == wait_seconds(limits, record, uid)
    for later in (replace(record, attempt=attempt + 1), replace(record, in_a_row=in_a_row + 1)):
        if limits.base_seconds * (attempt + in_a_row) <= limits.max_seconds:
            assert wait_seconds(limits, later, uid) > wait


@given(SECONDS, st.integers(1, 20), st.integers(0, 30), st.floats(0, 0.99))
def test_cordons_in_a_row_fall_by_one_for_each_whole_max_seconds_of_health(
    limits: QuarantineSpec, in_a_row: int, stretches: int, part: float
) -> None:
    released = NOW - (stretches + part) * limits.max_seconds
    record = a_record(in_a_row=in_a_row, state=CordonState.RELEASED, released_at=round(released))
    healthy = int((NOW - round(released)) // limits.max_seconds)
    assert next_in_a_row(limits, record, NOW) == max(1, 1 + in_a_row - healthy)
    assert next_in_a_row(limits, None, NOW) == 1
