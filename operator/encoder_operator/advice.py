"""Advice: what a person may type where the operator says that it must not decide.

Place: conditions asks it; pure. Must never: decide, or advise what would admit a replica whose probe failed.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from encoder_operator import names
from encoder_operator.learning import differing, teaches
from encoder_operator.observation import Observation
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Standing


def on_a_suspect_reference(pool: EncoderPool, standing: Standing, observation: Observation) -> str:
    """How to say that what most of the differing replicas measured is right, or that it is not; empty where that
    is no matter of the revision that the spec asks for, of which alone a pin speaks."""
    asked, allowed = names.revision_hash(pool.spec), pool.spec.model.identity.max_signature_distance
    known = next((each.expected for each in standing.revisions if each.hash == asked), None)
    teachers = [each for each in observation.replicas if each.revision == asked and teaches(each)]
    against = teachers if known is None else differing(teachers, known, allowed)
    measured = [(each.identity.fingerprint, each.identity.signature) for each in against if each.identity is not None]
    if not measured:
        return ""
    (fingerprint, signature), _ = min(Counter(measured).most_common(), key=lambda each: (-each[1], str(each[0])))
    pinned: dict[str, Any] = {"fingerprint": fingerprint} | ({"signature": signature} if signature else {})
    patch = json.dumps({"spec": {"model": {"identity": {"policy": "Pinned", "pinned": pinned}}}}, separators=(",", ":"))
    pin = f"kubectl -n {pool.namespace} patch encoderpool {pool.name} --type=merge -p '{patch}'"
    return f"; if what they measured is right: {pin}; if not, delete the pods that differ once their cause is gone"
