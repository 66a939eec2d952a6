"""The spec's model: where model and processor come from, and how identity is judged; values and reading.

Place: part of spec. Must never: touch the network, know of Kubernetes' clients, or guess a value that the
schema did not default.
"""

from __future__ import annotations

import base64
import math
import struct
from dataclasses import dataclass
from enum import Enum

from encoder_operator.fields import Fields

# The rest of a path without a part that is two dots.
_INSIDE = r"(?!(?:.*/)?\.\.(?:/|\Z)).*"


class IdentityPolicy(Enum):
    """How a replica's expected identity is found."""

    LEARN = "Learn"
    PINNED = "Pinned"
    OFF = "Off"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSource:
    """Model files on a PersistentVolumeClaim, below `sub_path` (empty: its root)."""

    claim_name: str
    sub_path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalSource:
    """Model files inside the server image, at an absolute path."""

    path: str


Source = ClaimSource | LocalSource


@dataclass(frozen=True, slots=True, kw_only=True)
class Pinned:
    """A pinned identity: the fingerprint (64 hex digits) and, where given, the signature (base64)."""

    fingerprint: str
    signature: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IdentitySpec:
    """spec.model.identity; `max_signature_distance` is in per mille."""

    policy: IdentityPolicy
    pinned: Pinned | None
    max_signature_distance: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """spec.model: where model and processor come from (processor None: with the model) and which encoder."""

    source: Source
    processor: Source | None
    encoder: str
    identity: IdentitySpec


def parse_model(model: Fields) -> ModelSpec:
    """The model that spec.model says."""
    return ModelSpec(
        source=_source(model, "source"),
        processor=_source(model, "processor") if model.has("processor") else None,
        encoder=model.text(
            "encoder",
            r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?",
            "Auto, or the name of an entry point in the group encoder_server.encoders",
        ),
        identity=_identity(model.object("identity")),
    )


def _source(model: Fields, name: str) -> Source:
    source = model.object(name)
    if source.has("persistentVolumeClaim") == source.has("local"):
        raise model.error(name, "must have exactly one of persistentVolumeClaim and local")
    if source.has("local"):
        path = source.object("local").text("path", rf"/{_INSIDE}", "an absolute path, without '..'")
        return LocalSource(path=path)
    claim = source.object("persistentVolumeClaim")
    relative = rf"(?!/){_INSIDE}"
    return ClaimSource(
        claim_name=claim.text("claimName"),
        sub_path=claim.text("subPath", relative, "a folder on the claim: relative, without '..'"),
    )


def _identity(identity: Fields) -> IdentitySpec:
    policy = identity.choice("policy", IdentityPolicy)
    if (policy is IdentityPolicy.PINNED) != identity.has("pinned"):
        raise identity.error("pinned", "must be set together with policy: Pinned, and only then")
    return IdentitySpec(
        policy=policy,
        pinned=_pinned(identity.object("pinned")) if policy is IdentityPolicy.PINNED else None,
        max_signature_distance=identity.integer("maxSignatureDistancePerMille", 0, 1000),
    )


def _pinned(pinned: Fields) -> Pinned:
    fingerprint = pinned.text("fingerprint", r"[0-9a-f]{64}", "64 hex digits, as GET /v1/identity shows them")
    if not pinned.has("signature"):
        return Pinned(fingerprint=fingerprint, signature=None)
    expected = "16 finite float32, not all zero, in base64, as GET /v1/identity shows them"
    signature = pinned.text("signature", r"[A-Za-z0-9+/]{85}[AQgw]==", expected)
    numbers = struct.unpack("<16f", base64.b64decode(signature))
    if not any(numbers) or not all(map(math.isfinite, numbers)):
        raise pinned.error("signature", f"must be {expected}")
    return Pinned(fingerprint=fingerprint, signature=signature)
