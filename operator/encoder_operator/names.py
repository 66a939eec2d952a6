"""Names: what a pool's children are called, and the hash that names a revision.

Place: read by plan, manifests, observe and status. Must never: change what it returns for the same input
between versions of the operator, since a changed revision hash is a rollout.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.spec import ClaimSource, Device, LocalSource, ModalitySpec, PoolSpec, Source, UrlFetch

# A pod's name is its Deployment's name, a hash of the template (up to 10) and 5 random characters, with two
# hyphens, within 63.
_DEPLOYMENT_NAME = 46
_OBJECT_NAME = 63
_REVISION = 10


def revision_hash(spec: PoolSpec) -> str:
    """The revision's name: 10 hex digits over what makes one replica differ from another. Replicas,
    integrity (but for what its servers are told), quarantine and the identity policy are not part of it."""
    content: dict[str, Any] = {
        "source": _source(spec.model.source),
        "processor": _source(spec.model.processor),
        "encoder": spec.model.encoder,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "imagePullSecrets": list(spec.image_pull_secrets),
        "modalities": [_modality(each) for each in sorted(spec.modalities, key=lambda each: each.type)],
        "resources": spec.resources,
        "server": {
            "maxInFlight": spec.server.max_in_flight,
            "deadlineSeconds": spec.server.deadline_seconds,
        },
        **_set_later(spec),
    }
    return _digest(json.dumps(content, sort_keys=True, separators=(",", ":")))


def _set_later(spec: PoolSpec) -> dict[str, Any]:
    """What is named only where it is set: a field that comes later must not change the hash of who does not use it."""
    content: dict[str, Any] = {}
    if spec.accelerator is not None:
        content["accelerator"] = {
            "resourceName": spec.accelerator.resource_name,
            "count": spec.accelerator.count,
            "runtimeClassName": spec.accelerator.runtime_class_name,
        }
    if spec.server.device is not Device.AUTO:
        content["device"] = spec.server.device.value
    if spec.server.fetch.url_fetch is not UrlFetch.DENY:
        content["urlFetch"] = [spec.server.fetch.url_fetch.value, *spec.server.fetch.hosts]
    if spec.cache.memory_bytes:
        content["cacheMemory"] = spec.cache.memory_bytes
    if spec.integrity.probe_period_seconds != vocabulary.PROBE_PERIOD_SECONDS:
        content["probePeriodSeconds"] = spec.integrity.probe_period_seconds
    if spec.cache.redis is not None:
        redis = spec.cache.redis
        content["cacheRedis"] = {"url": redis.url, "secret": redis.secret_name, "key": redis.secret_key}
    return content


def _modality(limits: ModalitySpec) -> dict[str, Any]:
    content: dict[str, Any] = {"type": limits.type, "maxPixels": limits.max_pixels, "maxItems": limits.max_items}
    if limits.max_frames is not None:
        content["maxFrames"] = limits.max_frames
    if limits.max_seconds is not None:
        content["maxSeconds"] = limits.max_seconds
    return content


def deployment_name(pool: str, revision: str) -> str:
    """The name of a revision's Deployment."""
    return _fitted(pool, f"-{revision}", _DEPLOYMENT_NAME)


def service_name(pool: str) -> str:
    """The name of the pool's Service: the pool's own."""
    return pool


def service_account_name(pool: str) -> str:
    """The name of the ServiceAccount that the pool's pods run as."""
    return _fitted(pool, "-encoder", _OBJECT_NAME)


def disruption_budget_name(pool: str) -> str:
    """The name of the pool's PodDisruptionBudget: the pool's own."""
    return pool


def identities_name(pool: str) -> str:
    """The name of the ConfigMap of expected identities."""
    return _fitted(pool, "-identities", _OBJECT_NAME)


def history_name(pool: str) -> str:
    """The name of the ConfigMap of the revisions that may be gone back to."""
    return _fitted(pool, "-revisions", _OBJECT_NAME)


def identity_key(revision: str) -> str:
    """The key in that ConfigMap, and the file's name in the pod, for one revision."""
    return f"{revision}.json"


def pool_selector(pool: str) -> str:
    """The label selector of a pool's pods and children."""
    return f"{vocabulary.LABEL_MANAGED_BY}={vocabulary.MANAGED_BY},{vocabulary.LABEL_POOL}={pool}"


def _fitted(pool: str, suffix: str, limit: int) -> str:
    if len(pool) + len(suffix) <= limit:
        return pool + suffix
    # Two long names with one beginning must stay two: the hash is of the whole name.
    mark = f"-{_digest(pool)[:8]}"
    return pool[: limit - len(suffix) - len(mark)].rstrip("-") + mark + suffix


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:_REVISION]


def _source(source: Source | None) -> dict[str, Any] | None:
    match source:
        case None:
            return None
        case ClaimSource():
            return {"claimName": source.claim_name, "subPath": source.sub_path}
        case LocalSource():
            return {"path": source.path}
