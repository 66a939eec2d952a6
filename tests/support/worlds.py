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
from encoder_operator.spec import Management
from tests.support.replicas import (
    EXPECTED,
    FAILED,
    FINGERPRINT,
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
WHY = st.sampled_from([None, None, None, "a person says so"])
PROBE_IDS = st.sampled_from(["probe-1-1", "probe-1-2", "probe-2-1"])


def probes() -> st.SearchStrategy[ProbeReport | None]:
    ordered = st.builds(
        lambda result, order_id: ProbeReport(result=result, order_id=order_id, items=(an_item(),)),
        st.sampled_from(ProbeResult),
        PROBE_IDS,
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
        restart_order=st.one_of(
            st.none(), st.builds(Order, id=st.sampled_from(["restart-1-1", "restart-1-2"]), boot_id=BOOTS)
        ),
    )


def _named(found: list[Replica]) -> Observation:
    return observed([replace(each, name=f"r{index}", uid=f"uid-{index}") for index, each in enumerate(found)])


def worlds() -> st.SearchStrategy[Observation]:
    return st.lists(replicas(), max_size=5).map(_named)


POOLS = st.sampled_from(
    [
        POOL,
        with_quarantine(mode="Cordon"),
        with_quarantine(maxCordoned="100%", minServing=0),
        with_quarantine(maxCordoned=2, minServing=2, maxSeconds=60),
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
