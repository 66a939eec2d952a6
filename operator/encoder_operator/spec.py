"""Spec: an EncoderPool as frozen values.

Place: the first step of the way, spec → plan → apply → observe → judge → cordon → status. Must never:
touch the network, know of Kubernetes' clients, or guess a value that the schema did not default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.fields import Fields
from encoder_operator.spec_cache import CacheSpec, RedisSpec, parse_cache
from encoder_operator.spec_fetch import FetchSpec, UrlFetch, parse_fetch
from encoder_operator.spec_model import (
    ClaimSource,
    IdentityPolicy,
    IdentitySpec,
    LocalSource,
    ModelSpec,
    Pinned,
    Source,
    parse_model,
)
from encoder_operator.spec_placement import (
    Accelerator,
    Device,
    DisruptionSpec,
    RolloutSpec,
    Strategy,
    parse_accelerator,
    parse_disruption,
    parse_rollout,
    runs_on_cuda,
)
from encoder_operator.spec_quarantine import Management, Mode, QuarantineSpec, Share, parse_quarantine

__all__ = [
    "Accelerator",
    "CacheSpec",
    "ClaimSource",
    "Device",
    "DisruptionSpec",
    "EncoderPool",
    "FetchSpec",
    "IdentityPolicy",
    "IdentitySpec",
    "IntegritySpec",
    "LocalSource",
    "Management",
    "ModalitySpec",
    "Mode",
    "ModelSpec",
    "Pinned",
    "PoolSpec",
    "QuarantineSpec",
    "RedisSpec",
    "RolloutSpec",
    "ServerSpec",
    "Share",
    "Source",
    "Strategy",
    "UrlFetch",
    "parse",
    "runs_on_cuda",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModalitySpec:
    """One accepted modality with its limits: pixels for each picture or frame, items for each request, frames of a
    video, seconds of a video or sound. None: as the server has it."""

    type: str
    max_pixels: int
    max_items: int
    max_frames: int | None = None
    max_seconds: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSpec:
    """spec.server: the device, requests in flight for each replica, seconds until a request's deadline, and from where
    media are fetched."""

    device: Device
    max_in_flight: int
    deadline_seconds: int
    fetch: FetchSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class IntegritySpec:
    """spec.integrity: how often pools are judged (seconds), the thresholds of statistical drift, and how often a
    replica probes itself (seconds; 0: at its start and on order alone)."""

    evaluation_seconds: int
    window_seconds: int
    min_checks: int
    min_distinct_media: int
    max_mismatch_per_mille: int
    probe_period_seconds: int


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
    accelerator: Accelerator | None
    server: ServerSpec
    cache: CacheSpec
    rollout: RolloutSpec
    integrity: IntegritySpec
    quarantine: QuarantineSpec
    disruption: DisruptionSpec
    management: Management


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderPool:
    """One pool: who it is, which generation of its spec this is, the status that was last written, and which
    rejected revision its annotation asks to try again."""

    name: str
    namespace: str
    uid: str
    generation: int
    spec: PoolSpec
    status: Mapping[str, Any] = field(hash=False)
    retry: str | None


class _PullPolicy(Enum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class _Modality(Enum):
    IMAGE = "image"
    VIDEO = "video"
    AUDIO = "audio"


def parse(body: Mapping[str, Any]) -> EncoderPool:
    """The pool that this object of the API says; InvalidSpecError names the field and what to do.

    Fields that it does not know are left to the schema: a CRD newer than the operator, as in an upgrade or a
    rollback, must not stop every pool."""
    root = Fields(body, "")
    metadata = root.object("metadata")
    return EncoderPool(
        name=metadata.text(
            "name",
            r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?",
            "at most 63 lower-case letters, digits and hyphens, the first a letter: the Service is named so",
        ),
        namespace=metadata.text("namespace"),
        uid=metadata.text("uid"),
        generation=metadata.integer("generation", 1, 2**63 - 1),
        spec=_spec(root.object("spec")),
        status=root.mapping("status") if root.has("status") else {},
        retry=_annotation(metadata, vocabulary.ANNOTATION_RETRY),
    )


def _annotation(metadata: Fields, name: str) -> str | None:
    value = metadata.mapping("annotations").get(name) if metadata.has("annotations") else None
    return value if isinstance(value, str) else None


def _spec(spec: Fields) -> PoolSpec:
    secrets = spec.objects("imagePullSecrets") if spec.has("imagePullSecrets") else ()
    server, resources = spec.object("server"), _resources(spec.object("resources")) if spec.has("resources") else {}
    return PoolSpec(
        model=parse_model(spec.object("model")),
        modalities=_modalities(spec),
        replicas=spec.integer("replicas", 0, 2**31 - 1),
        image=spec.text("image", r"\S+", "an image, without spaces"),
        image_pull_policy=spec.choice("imagePullPolicy", _PullPolicy).value,
        image_pull_secrets=tuple(secret.text("name") for secret in secrets),
        resources=resources,
        accelerator=parse_accelerator(spec, [name for named in resources.values() for name in named]),
        server=ServerSpec(
            device=server.choice("device", Device),
            max_in_flight=server.integer("maxInFlight", 1, 65536),
            deadline_seconds=server.integer("deadlineSeconds", 1, 3600),
            fetch=parse_fetch(server),
        ),
        cache=parse_cache(spec.object("cache")),
        rollout=parse_rollout(spec.object("rollout")),
        integrity=_integrity(spec.object("integrity")),
        quarantine=parse_quarantine(spec.object("quarantine")),
        disruption=parse_disruption(spec.object("disruption")),
        management=spec.choice("management", Management),
    )


def _modalities(spec: Fields) -> tuple[ModalitySpec, ...]:
    modalities = tuple(_modality(each) for each in spec.objects("modalities"))
    if not modalities or len({each.type for each in modalities}) < len(modalities):
        raise spec.error("modalities", "must have at least one entry, and each type once")
    return modalities


def _modality(fields: Fields) -> ModalitySpec:
    modality = fields.choice("type", _Modality)
    for name, of in (("maxFrames", (_Modality.VIDEO,)), ("maxSeconds", (_Modality.VIDEO, _Modality.AUDIO))):
        if fields.has(name) and modality not in of:
            raise fields.error(name, f"goes with {' and '.join(each.value for each in of)} only: remove it")
    return ModalitySpec(
        type=modality.value,
        max_pixels=fields.integer("maxPixels", 1, 2**30),
        max_items=fields.integer("maxItems", 1, 1024),
        max_frames=fields.integer("maxFrames", 1, 65536) if fields.has("maxFrames") else None,
        max_seconds=fields.integer("maxSeconds", 1, 86400) if fields.has("maxSeconds") else None,
    )


def _resources(resources: Fields) -> dict[str, dict[str, str]]:
    read = {key: resources.quantities(key) for key in ("requests", "limits") if resources.has(key)}
    return {key: quantities for key, quantities in read.items() if quantities}


def _integrity(integrity: Fields) -> IntegritySpec:
    evaluation = integrity.integer("evaluationSeconds", 1, 3600)
    window = integrity.integer("windowSeconds", 4, 86400)
    if window < 4 * evaluation:
        raise integrity.error("windowSeconds", "must be at least 4 times evaluationSeconds")
    return IntegritySpec(
        evaluation_seconds=evaluation,
        window_seconds=window,
        min_checks=integrity.integer("minChecks", 1, 2**31 - 1),
        min_distinct_media=integrity.integer("minDistinctMedia", 1, 2**31 - 1),
        max_mismatch_per_mille=integrity.integer("maxMismatchPerMille", 0, 1000),
        probe_period_seconds=integrity.integer("probePeriodSeconds", 0, 86400),
    )
