"""The replica's identity: its fingerprint, how far its signature is off, and whether it is admitted.

Place: between what an engine measured (Hello, Probed) and the state. Pure: `replica` brings the values.
Must never: echo an identity that was configured instead of measured, or read a file or a clock.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import blake3
import pydantic

from encoder_server import check
from encoder_server.engine.messages import Measured, Probed, ProbeItem

_SIGNATURE = struct.Struct("<16f")
# The same program on the same device: what is allowed between one run of an engine and another, or itself later.
_RESTART_TOLERANCE_PER_MILLE = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether a replica may serve, with the contract's reason and a sentence."""

    admitted: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Golden:
    """What the golden probe showed when it ended last: its items, and what their rows sign (None: one failed)."""

    items: tuple[ProbeItem, ...]
    signature: str | None


class Expected(pydantic.BaseModel):
    """What a replica must be: one key of the pool's ConfigMap. The signature is base64 of 16 float32."""

    model_config = pydantic.ConfigDict(extra="ignore", frozen=True)

    policy: Literal["Learn", "Pinned", "Off"]
    revision: str
    fingerprint: str | None = pydantic.Field(default=None, pattern="^[0-9a-f]{64}$")
    signature: str | None = None
    max_signature_distance_per_mille: float = pydantic.Field(alias="maxSignatureDistancePerMille", ge=0)

    @pydantic.field_validator("signature")
    @classmethod
    def _is_a_signature(cls, value: str | None) -> str | None:
        if value is not None:
            floats(value)
        return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What there is to compare with. `named` is false outside a pool; `expected` is None where the file is
    absent or, with `fault`, not usable."""

    named: bool
    expected: Expected | None = None
    fault: str | None = None


def read_reference(text: bytes | None, revision: str) -> Reference:
    """Return what the expected-identity file says (None: there is no file); never raises."""
    if text is None:
        return Reference(named=True)
    try:
        expected = Expected.model_validate_json(text)
    except pydantic.ValidationError as invalid:
        first = invalid.errors(include_input=False, include_url=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        return Reference(named=True, fault=f"{where} is not valid ({first['type']})")
    if expected.revision != revision:
        return Reference(named=True, fault=f"it is for revision {expected.revision[:64]}, not {revision}")
    if expected.policy == "Pinned" and expected.fingerprint is None:
        return Reference(named=True, fault="policy Pinned needs a fingerprint")
    return Reference(named=True, expected=expected)


def exact(measured: Measured) -> dict[str, Any]:
    """Return the parts that must be equal, bit for bit, between replicas of a revision."""
    return {
        "weights": measured.weights,
        "processor": measured.processor,
        "config": measured.config,
        "classes": dict(measured.classes),
        "widths": {modality: declared.width for modality, declared in measured.declared.items()},
        "probe": [
            {
                "modality": item.modality,
                **item.measures,
                "grid": None if item.grid is None else list(item.grid),
                "tokens": item.promised,
            }
            for item in measured.probe
        ],
    }


def fingerprint(measured: Measured) -> str:
    """Return the digest of the exact parts: 64 hex digits."""
    canonical = json.dumps(exact(measured), sort_keys=True, separators=(",", ":"))
    return blake3.blake3(canonical.encode()).hexdigest()


def floats(signature: str) -> tuple[float, ...]:
    """Return the 16 numbers of a signature; raises ValueError where it is not one."""
    try:
        return _SIGNATURE.unpack(base64.b64decode(signature, validate=True))
    except (binascii.Error, struct.error) as wrong:
        raise ValueError("not base64 of 16 float32") from wrong


def distance_per_mille(measured: str, expected: str) -> float:
    """Return 1000 * |measured - expected| / |expected| (Euclidean); infinite where it cannot be told."""
    ours, theirs = floats(measured), floats(expected)
    if not all(map(math.isfinite, (*ours, *theirs))):
        return math.inf
    gap, norm = math.dist(ours, theirs), math.hypot(*theirs)
    if norm == 0:
        return 0.0 if gap == 0 else math.inf
    return 1000 * gap / norm


def begin(measured: Measured) -> Golden:
    """Return what the golden probe showed when the engine that measured this came up."""
    return Golden(items=measured.probe, signature=measured.signature)


def gather(measured: Measured, probes: Sequence[Probed]) -> tuple[tuple[ProbeItem, ...], Golden]:
    """Make one probe of those of several engines: each item as it fared worst, and the golden ones with the signature
    that is farthest from the one at start. An engine that is wrong must not hide behind one that is right."""
    items: dict[int, ProbeItem] = {}
    for probed in probes:
        for item in probed.items:
            if item.result != "ok" or item.index not in items:
                items[item.index] = item
    worst = tuple(items[index] for index in sorted(items))
    golden = worst[: len(measured.probe)]
    signed = [probed.signature for probed in probes]
    signature = None if None in signed else max(signed, key=lambda each: _gap(measured, each), default=None)
    return worst, Golden(items=golden, signature=signature)


def judge(measured: Measured, golden: Golden, reference: Reference) -> Verdict:
    """Decide whether a replica may serve, by what it measured at its start and what its last finished probe showed.

    The probe comes first: rows that are not what was promised are wrong whatever is expected. Then what it measured
    itself: an engine that no longer computes what it did when it came up is faulty, whatever is expected too.
    """
    failed = next((item for item in golden.items if item.result != "ok"), None)
    expected = reference.expected
    if failed is not None:
        return Verdict(admitted=False, reason="ProbeFailed", message=check.describe_probe_item(failed))
    if not golden.items:
        return Verdict(admitted=False, reason="ProbeFailed", message="the golden probe has no item")
    drifted = _drift(measured, golden)
    if drifted is not None:
        return drifted
    if not reference.named:
        return _admitted("the probe passed; no expected identity is named")
    if reference.fault is not None:
        return _learning(f"the expected-identity file cannot be used: {reference.fault}")
    if expected is None:
        return _learning("there is no expected identity to compare with yet")
    if expected.policy == "Off":
        return _admitted("the probe passed; policy Off compares no identity")
    if expected.fingerprint is None:
        return _learning("the expected identity has no fingerprint yet")
    return _compare(replace(measured, signature=golden.signature), expected)


def _drift(measured: Measured, golden: Golden) -> Verdict | None:
    """Say in what a running engine is no longer what it was when it came up."""
    if exact(replace(measured, probe=golden.items)) != exact(measured):
        message = "the golden probe's promises are no longer those at the start of this replica"
        return Verdict(admitted=False, reason="FingerprintDrift", message=message)
    gap = _gap(measured, golden.signature)
    if gap <= _RESTART_TOLERANCE_PER_MILLE:
        return None
    message = f"the signature is {gap:.3g} per mille off the one at the start of this replica"
    return Verdict(admitted=False, reason="SignatureDrift", message=message)


def _gap(measured: Measured, signature: str | None) -> float:
    """Return how far a signature is off the measured one; one that was not measured is no ground to be off."""
    if measured.signature is None:
        return 0.0
    return math.inf if signature is None else distance_per_mille(signature, measured.signature)


def _compare(measured: Measured, expected: Expected) -> Verdict:
    ours = fingerprint(measured)
    if ours != expected.fingerprint:
        message = f"fingerprint {ours} was measured, {expected.fingerprint} is expected"
        return Verdict(admitted=False, reason="FingerprintDrift", message=message)
    if expected.signature is not None:
        if measured.signature is None:
            return Verdict(admitted=False, reason="SignatureDrift", message="no signature could be measured")
        gap, limit = (
            distance_per_mille(measured.signature, expected.signature),
            expected.max_signature_distance_per_mille,
        )
        if not gap <= limit:
            message = f"the signature is {gap:.3g} per mille off, {limit:g} are allowed"
            return Verdict(admitted=False, reason="SignatureDrift", message=message)
    return _admitted("the probe passed and the identity is the expected one")


def _admitted(message: str) -> Verdict:
    return Verdict(admitted=True, reason="AsExpected", message=message)


def _learning(message: str) -> Verdict:
    return Verdict(admitted=False, reason="Learning", message=message)


def difference(server: Measured, engine: Measured) -> str | None:
    """Say in what an engine differs from the server that it would join, or return None where it is the same.

    An engine that starts later may have read a volume that changed underneath.
    """
    parts, others = exact(server), exact(engine)
    changed = [name for name in parts if parts[name] != others[name]]
    if changed:
        return f"another {', '.join(changed)} than this server's"
    if [item.result for item in server.probe] != [item.result for item in engine.probe]:
        return "another result of the golden probe than this server's"
    if server.declared != engine.declared:
        return "other declared rows than this server's"
    if (server.signature is None) != (engine.signature is None):
        return "a signature where this server has none, or none where it has one"
    gap = _gap(server, engine.signature)
    return None if gap <= _RESTART_TOLERANCE_PER_MILLE else f"a signature {gap:.3g} per mille off this server's"
