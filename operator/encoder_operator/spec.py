"""Spec: an EncoderPool as frozen values.

Place: the first step of the way, spec → plan → apply → observe → judge → cordon → status. Must never:
touch the network, know of Kubernetes' clients, or guess a value that the schema did not default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalitySpec:
    """One accepted modality with its limits: pixels for each item, items for each request."""

    type: str
    max_pixels: int
    max_items: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """spec.server: requests in flight for each replica, and seconds until a request's deadline."""

    max_in_flight: int
    deadline_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegritySpec:
    """spec.integrity: how often pools are judged (seconds) and the thresholds of statistical drift."""

    evaluation_seconds: int
    window_seconds: int
    min_checks: int
    min_distinct_media: int
    max_mismatch_per_mille: int


@dataclass(frozen=True, slots=True, kw_only=True)
class QuarantineSpec:
    """spec.quarantine: seconds before another attempt to release: base times attempts, at most `max_seconds`."""

    base_seconds: int
    max_seconds: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolSpec:
    """An EncoderPool's spec. `resources` is passed on as the API has it (requests and limits)."""

    model: ModelSpec
    modalities: tuple[ModalitySpec, ...]
    replicas: int
    image: str
    image_pull_policy: str
    image_pull_secrets: tuple[str, ...]
    resources: Mapping[str, Any] = field(hash=False)
    server: ServerSpec
    integrity: IntegritySpec
    quarantine: QuarantineSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderPool:
    """One pool: who it is, which generation of its spec this is, and the status that was last written."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: PoolSpec
    status: Mapping[str, Any] = field(hash=False)


def parse(body: Mapping[str, Any]) -> EncoderPool:
    """The pool that this object of the API says; InvalidSpecError names the field and what to do."""
    raise NotImplementedError
