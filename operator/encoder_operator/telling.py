"""Telling: which replicas are made to read anew, now, what is expected of them.

Place: reconcile asks it between act and status; `act.refresh` carries it out. Must never: keep a replica from what it
would read by itself (the kubelet brings it within its own period), or decide what is expected.

Who serves and would be held by it is told last, once another serves that would not be: where an identity is learned
anew, those that it admits are up before the one that it holds goes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from encoder_operator.budget import serves
from encoder_operator.likeness import difference
from encoder_operator.observation import Observation, Replica
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Standing

_DIGITS = 16


def to_be_told(
    pool: EncoderPool, standing: Standing, observation: Observation, identities: Mapping[str, str]
) -> tuple[tuple[Replica, str], ...]:
    """The replicas that have not read the newest expectation, each with its digest. `identities` is, by revision,
    the text of the file."""
    digests = {name: hashlib.sha256(text.encode()).hexdigest()[:_DIGITS] for name, text in identities.items()}
    stale = [each for each in observation.replicas if each.expected_digest != digests.get(each.revision)]
    stale = [each for each in stale if each.revision in digests]
    differing = {each.name for each in observation.replicas if _differs(pool, standing, each)}
    stays = any(serves(each) and each.name not in differing for each in observation.replicas)
    comes = any(not serves(each) and each.serving and each.name not in differing for each in stale)
    waits = differing if comes and not stays else set()
    return tuple((each, digests[each.revision]) for each in stale if not (serves(each) and each.name in waits))


def _differs(pool: EncoderPool, standing: Standing, replica: Replica) -> bool:
    expected = next((each.expected for each in standing.revisions if each.hash == replica.revision), None)
    if expected is None or replica.identity is None:
        return False
    return difference(replica.identity, expected, pool.spec.model.identity.max_signature_distance) is not None
