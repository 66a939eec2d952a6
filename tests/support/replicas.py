"""Values that judge, cordon and status read, made as a test's sentence says them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from encoder_operator import names, vocabulary
from encoder_operator.observation import (
    CordonRecord,
    CordonState,
    Counts,
    Identity,
    ItemReport,
    Observation,
    Point,
    ProbeReport,
    ProbeResult,
    Replica,
    Size,
    Workload,
)
from encoder_operator.opinion import failed_sizes, subject_of
from encoder_operator.orders import question
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Expected, Revision, Role, Standing
from tests.support.pool_objects import a_pool

NOW = 1_800_000_000.0
FINGERPRINT = "9f" * 32
OTHER_FINGERPRINT = "11" * 32
LARGE = Size(modality="image", width=640, height=480)

POOL = a_pool(replicas=3, integrity={"minChecks": 20, "minDistinctMedia": 3, "maxMismatchPerMille": 10})
REVISION = names.revision_hash(POOL.spec)


def signature(*, times: float = 1.0) -> str:
    """A signature, or one that is as many times as long."""
    return base64.b64encode(struct.pack("<16f", *(times * each for each in range(1, 17)))).decode()


EXPECTED = Expected(fingerprint=FINGERPRINT, signature=signature())


def an_item(index: int = 0, *, size: Size = LARGE, result: str = "ok", produced: int | None = 16) -> ItemReport:
    """One item of a probe."""
    return ItemReport(index=index, size=size, grid=(1, 8, 8), promised=16, produced=produced, result=result)


PASSED = ProbeReport(result=ProbeResult.PASSED, order_id=None, items=(an_item(),))
FAILED = ProbeReport(
    result=ProbeResult.FAILED,
    order_id=None,
    items=(
        an_item(),
        an_item(2, size=Size(modality="image", width=112, height=112), result="count", produced=64),
    ),
)


def an_identity(**fields: Any) -> Identity:
    """A READY replica's identity, as expected, with these fields instead."""
    made = Identity(
        pod_uid="uid",
        boot_id="boot-1",
        revision=REVISION,
        state=vocabulary.STATE_READY,
        reason=vocabulary.AS_EXPECTED,
        message="as expected",
        fingerprint=FINGERPRINT,
        signature=signature(),
        probe=PASSED,
        probe_done=None,
        recent_violations=(),
    )
    return replace(made, **fields)


def held(reason: str, **fields: Any) -> Identity:
    """A HELD replica's identity."""
    return an_identity(state=vocabulary.STATE_HELD, reason=reason, message=f"held: {reason}", **fields)


def counted(good: int = 100, *, bad: int = 0, media: int | None = None, layout: int = 0, since: float = 20.0) -> Counts:
    """Counts of 30 s whose checks all fell after the first sample, `since` seconds ago."""
    wrong = {"count": bad, "width": 0, "dtype": 0, "layout": layout}
    points = (
        Point(at=NOW - since - 10, good=0, bad=0),
        Point(at=NOW - since, good=0, bad=min(bad + layout, 1)),
        Point(at=NOW - 1, good=good, bad=bad + layout),
    )
    return Counts(
        samples=6, seconds=30.0, good=good, bad=wrong, distinct_media=bad if media is None else media, points=points
    )


def a_replica(name: str = "a", *, ready: bool = True, **fields: Any) -> Replica:
    """A replica that serves as expected, with these fields instead; Ready since a while, or not."""
    made = Replica(
        name=name,
        uid=f"uid-{name}",
        revision=REVISION,
        address="10.0.0.1",
        serving=True,
        ready_since=NOW - 600 if ready else None,
        created_at=NOW - 600,
        container_started_at=NOW - 600,
        restarts=0,
        obstacle=None,
        unschedulable=None,
        cordon=None,
        probe_order=None,
        question=None,
        restart_order=None,
        expected_digest=None,
        hand_cordon=None,
        hand_release=None,
        skip=None,
        identity=an_identity(),
        counts=None,
    )
    return replace(made, **fields)


def a_record(**fields: Any) -> CordonRecord:
    """The operator's record of a cordon whose first attempt is for boot-1."""
    made = CordonRecord(
        by=vocabulary.FIELD_MANAGER,
        state=CordonState.CORDONED,
        reason=vocabulary.TOKEN_MISMATCH,
        message="38 of 120 checks failed in 30 s",
        since=NOW - 60,
        released_at=None,
        times=1,
        in_a_row=1,
        attempt=1,
        attempt_boot_id="boot-1",
        next_attempt_at=None,
        eviction_blocked=None,
        sizes=(LARGE,),
    )
    return replace(made, **fields)


def cordoned(name: str = "a", *, record: CordonRecord | None = None, **fields: Any) -> Replica:
    """A replica that the operator has cordoned."""
    identity = fields.pop("identity", an_identity(state=vocabulary.STATE_CORDONED, reason="Cordoned"))
    return a_replica(name, serving=False, ready=False, cordon=record or a_record(), identity=identity, **fields)


def suspect(name: str = "a", *sizes: Size, **fields: Any) -> Replica:
    """A replica that mismatches in traffic, and tells the sizes at which it does (LARGE, where none is named)."""
    failed = tuple(an_item(size=size, result="count", produced=9) for size in sizes or (LARGE,))
    identity = an_identity(boot_id=f"boot-of-{name}", recent_violations=failed)
    shown: dict[str, Any] = {"identity": identity, "counts": counted(80, bad=40)}
    return a_replica(name, **(shown | fields))


def asked(peer: Replica, about: Replica, *, since: float = 2.0, **fields: Any) -> Replica:
    """The peer, asked so many seconds ago about a suspect; it has not answered."""
    subject, identity = subject_of(about), peer.identity
    assert subject is not None
    assert identity is not None
    made = question(subject, identity.boot_id, failed_sizes(about.identity), NOW - since)
    return replace(peer, question=replace(made, **fields))


def answered(peer: Replica, result: ProbeResult, *failing: Size, **fields: Any) -> Replica:
    """The peer, with its answer to what it is asked: it fails at these sizes of the question."""
    asks, identity = peer.question, peer.identity
    assert asks is not None
    assert identity is not None
    items = tuple(
        an_item(index, size=size, result="count" if size in failing else "ok", produced=9 if size in failing else 16)
        for index, size in enumerate(asks.sizes, start=5)
    )
    made = ProbeReport(result=result, order_id=asks.id, items=() if result is ProbeResult.RUNNING else items)
    return replace(peer, identity=replace(identity, probe=replace(made, **fields)))


def observed(replicas: Sequence[Replica], *, at: float = NOW, problem: str | None = None) -> Observation:
    """What there is, with one workload that counts its replicas."""
    ready = sum(each.ready for each in replicas)
    workload = Workload(revision=REVISION, desired=3, created=len(replicas), ready=ready, message=None)
    return Observation(
        at=at, workloads=(workload,), replicas=tuple(replicas), leaving=frozenset(), evidence_problem=problem
    )


def standing(expected: Expected | None = EXPECTED, role: Role = Role.CURRENT) -> Standing:
    """One revision that stands."""
    revision = Revision(
        hash=REVISION,
        role=role,
        expected=expected,
        distinct_identities=1,
        reason=vocabulary.AS_EXPECTED,
        since="2027-01-15T08:00:00Z",
        scale=None,
    )
    return Standing(revisions=(revision,), templates={})


def with_identity_policy(**identity: Any) -> EncoderPool:
    """The pool with another identity policy; its revision is the same."""
    model = {"source": {"persistentVolumeClaim": {"claimName": "weights", "subPath": "qwen"}}, "identity": identity}
    return a_pool(replicas=3, model=model, integrity={"minChecks": 20, "minDistinctMedia": 3})


def with_quarantine(**quarantine: Any) -> EncoderPool:
    """The pool with another quarantine; its revision is the same."""
    return a_pool(replicas=3, integrity={"minChecks": 20, "minDistinctMedia": 3}, quarantine=quarantine)


def with_status(pool: EncoderPool, status: Mapping[str, Any]) -> EncoderPool:
    """The pool as it is read after this status was written."""
    return replace(pool, status=status)
