"""Telling: who reads anew what is expected of it, and who waits until another serves."""

from __future__ import annotations

import hashlib

import pytest

from encoder_operator.observation import Replica
from encoder_operator.telling import to_be_told
from tests.support.replicas import (
    OTHER_FINGERPRINT,
    POOL,
    REVISION,
    a_replica,
    an_identity,
    held,
    observed,
    standing,
)

TEXT = "what is expected"
DIGEST = hashlib.sha256(TEXT.encode()).hexdigest()[:16]

drifted = a_replica("drifted", identity=an_identity(fingerprint=OTHER_FINGERPRINT))
waiting = a_replica("waiting", ready=False, identity=held("FingerprintDrift"))
told = a_replica("told", expected_digest=DIGEST)


@pytest.mark.parametrize(
    ("sentence", "replicas", "expected"),
    [
        ("all that have not read it are told", [a_replica("a"), a_replica("b")], ["a", "b"]),
        ("one that has read it is not", [told], []),
        ("one of a revision of which nothing is expected is not", [a_replica("a", revision="another")], []),
        ("who would be held waits while those that it admits come up", [drifted, waiting], ["waiting"]),
        ("and is told when one of them serves", [drifted, waiting, told], ["drifted", "waiting"]),
        ("where it admits nobody there is nothing to wait for", [drifted], ["drifted"]),
    ],
)
def test_who_is_told(sentence: str, replicas: list[Replica], expected: list[str]) -> None:
    found = to_be_told(POOL, standing(), observed(replicas), {REVISION: TEXT})
    assert [(each.name, digest) for each, digest in found] == [(name, DIGEST) for name in expected], sentence
