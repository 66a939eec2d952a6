"""Worlds for properties: any replicas, with any records, orders and annotations on their pods."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import strategies as st

from encoder_operator import vocabulary
from encoder_operator.observation import (
    CordonRecord,
    CordonState,
    Counts,
    DoneOrder,
    Identity,
    Observation,
    Order,
    ProbeReport,
    ProbeResult,
    Replica,
)
from encoder_operator.orders import about, question
from encoder_operator.spec import Management
from tests.support.pool_objects import a_pool
from tests.support.replicas import (
    EXPECTED,
    FAILED,
    FINGERPRINT,
    LARGE,
    NOW,
    OTHER_FINGERPRINT,
    PASSED,
    POOL,
    a_record,
    a_replica,
    an_identity,
    an_item,
    counted,
    observed,
    signature,
    standing,
    with_identity_policy,
    with_quarantine,
)

BOOTS = st.sampled_from(["boot-1", "boot-2"])
VIOLATIONS = (an_item(result="count", produced=9),)
WHY = st.sampled_from([None, None, None, "a person says so"])
PROBE_IDS = st.sampled_from(["probe-1-1", "probe-1-2", "probe-2-1"])
QUESTIONS = st.builds(
    lambda boot, times, since, asked_of: replace(
        question(about(boot, times), asked_of, (LARGE,), NOW - since), boot_id=asked_of
    ),
    BOOTS,
    st.integers(0, 2),
    st.sampled_from([0.0, 5.0, 31.0, 1000.0]),
    BOOTS,
)


def probes() -> st.SearchStrategy[ProbeReport | None]:
    ordered = st.builds(
        lambda result, order_id: ProbeReport(result=result, order_id=order_id, items=(an_item(),)),
        st.sampled_from(ProbeResult),
        st.one_of(PROBE_IDS, QUESTIONS.map(lambda each: each.id)),
    )
    return st.one_of(st.none(), st.just(PASSED), st.just(FAILED), ordered)


def identities() -> st.SearchStrategy[Identity]:
    return st.builds(
        an_identity,
        state=st.sampled_from(vocabulary.STATES),
        boot_id=BOOTS,
        fingerprint=st.sampled_from([None, FINGERPRINT, OTHER_FINGERPRINT]),
        signature=st.sampled_from([None, signature(), signature(times=2.0)]),
        probe=probes(),
        probe_done=st.one_of(st.none(), st.builds(DoneOrder, id=PROBE_IDS, result=st.sampled_from(ProbeResult))),
        recent_violations=st.sampled_from([(), VIOLATIONS]),
    )


def counts() -> st.SearchStrategy[Counts]:
    number = st.integers(0, 60)
    return st.builds(
        lambda good, bad, layout, media, since: counted(good, bad=bad, layout=layout, media=media, since=since),
        number,
        number,
        number,
        st.integers(0, 6),
        st.sampled_from([2.0, 10.0, 20.0]),
    )


def records() -> st.SearchStrategy[CordonRecord]:
    return st.builds(
        a_record,
        by=st.sampled_from([vocabulary.FIELD_MANAGER, "somebody", "person:to look at it"]),
        state=st.sampled_from(CordonState),
        since=st.sampled_from([NOW - 300, NOW - 60, NOW - 5]),
        released_at=st.sampled_from([None, NOW - 3]),
        times=st.integers(1, 2),
        in_a_row=st.integers(1, 2),
        attempt=st.integers(1, 4),
        attempt_boot_id=st.one_of(st.none(), BOOTS),
        next_attempt_at=st.sampled_from([None, NOW - 5, NOW + 5]),
        boot_id=st.one_of(st.none(), BOOTS),
    )


def replicas() -> st.SearchStrategy[Replica]:
    return st.builds(
        a_replica,
        serving=st.booleans(),
        ready=st.booleans(),
        identity=st.one_of(st.none(), identities()),
        counts=st.one_of(st.none(), counts()),
        cordon=st.one_of(st.none(), records()),
        hand_cordon=WHY,
        hand_release=WHY,
        skip=WHY,
        probe_order=st.one_of(st.none(), st.builds(Order, id=PROBE_IDS, boot_id=BOOTS)),
        question=st.one_of(st.none(), QUESTIONS),
        restart_order=st.one_of(
            st.none(), st.builds(Order, id=st.sampled_from(["restart-1-1", "restart-1-2"]), boot_id=BOOTS)
        ),
    )


def _named(found: list[Replica]) -> Observation:
    return observed([replace(each, name=f"r{index}", uid=f"uid-{index}") for index, each in enumerate(found)])


def told_apart(world: Observation) -> Observation:
    """The same world, in which no boot of one replica has the id of another's."""

    def own(replica: Replica) -> Replica:
        if replica.identity is None:
            return replica
        return replace(replica, identity=replace(replica.identity, boot_id=f"{replica.name}-boot"))

    return replace(world, replicas=tuple(map(own, world.replicas)))


def hearings(draw: st.DrawFn) -> Observation:
    """Worlds in which replicas mismatch, and others were asked about them: in all stages of asking."""
    found = list(told_apart(draw(fleets())).replicas)
    suspects = [each for each in found if each.identity is not None and each.serving and draw(st.booleans())]
    for each in suspects:
        assert each.identity is not None
        index = found.index(each)
        found[index] = replace(each, identity=replace(each.identity, recent_violations=VIOLATIONS))
    for index, each in enumerate(found):
        asks = draw(st.sampled_from([None, None, *(one for one in suspects if one.name != each.name)]))
        if asks is not None and each.identity is not None and asks.identity is not None:
            found[index] = draw(_asked(each, asks.identity.boot_id, asks.cordon.times if asks.cordon else 0))
    return replace(observed(found), at=NOW)


HEARINGS = st.composite(hearings)()


def _asked(peer: Replica, boot: str, times: int) -> st.SearchStrategy[Replica]:
    def made(since: float, answer: ProbeResult | None, failing: bool, items: bool, stays: bool) -> Replica:
        assert peer.identity is not None
        asks = question(about(boot, times), peer.identity.boot_id if stays else "gone", (LARGE,), NOW - since)
        if answer is None:
            return replace(peer, question=asks)
        told = (an_item(5, result="count" if failing else "ok"),) if items else ()
        report = ProbeReport(result=answer, order_id=asks.id, items=told)
        return replace(peer, question=asks, identity=replace(peer.identity, probe=report))

    return st.builds(
        made,
        st.sampled_from([0.0, 5.0, 31.0, 1000.0]),
        st.sampled_from([None, *ProbeResult]),
        st.booleans(),
        st.booleans(),
        st.sampled_from([True, True, False]),
    )


def worlds() -> st.SearchStrategy[Observation]:
    return st.lists(replicas(), max_size=5).map(_named)


SHARING_POOL = replace(POOL, spec=replace(POOL.spec, cache=a_pool(cache={"redis": {"url": "redis://r"}}).spec.cache))
POOLS = st.sampled_from(
    [
        POOL,
        with_quarantine(mode="Cordon"),
        with_quarantine(maxCordoned="100%", minServing=0),
        with_quarantine(maxCordoned=2, minServing=2, maxSeconds=60),
        SHARING_POOL,
        with_identity_policy(policy="Off"),
        with_identity_policy(policy="Pinned", pinned={"fingerprint": EXPECTED.fingerprint}),
    ]
)
OBSERVED_POOL = with_quarantine(mode="Observe")
PAUSED_POOL = replace(POOL, spec=replace(POOL.spec, management=Management.PAUSED))
STANDINGS = st.sampled_from([standing(), standing(None)])


def fleets() -> st.SearchStrategy[Observation]:
    """Worlds in which much is at fault: good and bad replicas, and cordons of all ages."""
    bad = st.builds(lambda wrong: a_replica(counts=counted(60, bad=wrong)), st.integers(5, 60))
    good = st.just(a_replica(counts=counted(120)))
    skipped = bad.map(lambda each: replace(each, skip="a person says so"))
    lifted = st.builds(
        lambda each, since: replace(
            each, cordon=a_record(since=NOW - since, state=CordonState.RELEASED, released_at=NOW - since / 2)
        ),
        bad,
        st.integers(1, 1200),
    )
    out = st.builds(
        lambda since, record: a_replica(serving=False, ready=False, cordon=replace(record, since=NOW - since)),
        st.integers(1, 1200),
        records(),
    )
    return st.lists(st.one_of(bad, good, good, skipped, lifted, out), max_size=8).map(_named)
