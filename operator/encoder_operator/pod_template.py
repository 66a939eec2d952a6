"""The pod template of one revision: one container, hardened, that serves the pool's model.

Place: part of plan, beside manifests. Must never: depend on anything that the revision hash does not cover
(except the pool's own name and namespace), or change what it gives for a live revision: plan freezes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from encoder_operator import names, pod_cache, vocabulary
from encoder_operator.spec import (
    ClaimSource,
    EncoderPool,
    LocalSource,
    ModalitySpec,
    Source,
    UrlFetch,
    runs_on_cuda,
)

JsonObject = dict[str, Any]

_USER = 10001
# Until a stopping replica has finished what it accepted: its longest request, and then some.
_GRACE_SECONDS = 15
# Counted as the container's memory once used, so it needs an end; tensors do not pass through it.
_SHARED_MEMORY = "256Mi"
_MODEL_VOLUME = "model"
_PROCESSOR_VOLUME = "processor"


def pod_template(pool: EncoderPool, revision: str) -> JsonObject:
    """The pod template with which this revision's Deployment is first applied."""
    spec = pool.spec
    pod: JsonObject = {
        "serviceAccountName": names.service_account_name(pool.name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": spec.server.deadline_seconds + _GRACE_SECONDS,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(pool, revision)],
        "volumes": _volumes(pool),
    }
    if spec.image_pull_secrets:
        pod["imagePullSecrets"] = [{"name": name} for name in spec.image_pull_secrets]
    if spec.accelerator is not None and spec.accelerator.runtime_class_name is not None:
        pod["runtimeClassName"] = spec.accelerator.runtime_class_name
    return {"metadata": {"labels": pod_labels(pool.name, revision)}, "spec": pod}


def pod_labels(pool: str, revision: str) -> dict[str, str]:
    """The labels with which a replica starts. The Service selects on serving, the Deployment does not."""
    return {
        vocabulary.LABEL_POOL: pool,
        vocabulary.LABEL_REVISION: revision,
        vocabulary.LABEL_SERVING: vocabulary.SERVING,
        vocabulary.LABEL_NAME: vocabulary.SERVER_NAME,
        vocabulary.LABEL_INSTANCE: pool,
        vocabulary.LABEL_MANAGED_BY: vocabulary.MANAGED_BY,
    }


def _container(pool: EncoderPool, revision: str) -> JsonObject:
    spec = pool.spec
    return {
        "name": vocabulary.CONTAINER,
        "image": spec.image,
        "imagePullPolicy": spec.image_pull_policy,
        "args": _arguments(pool, revision),
        "env": [
            *pod_cache.variable(spec.cache.redis),
            {"name": "POD_NAME", "valueFrom": _field("metadata.name")},
            {"name": "POD_UID", "valueFrom": _field("metadata.uid")},
            {"name": "HF_HUB_OFFLINE", "value": "1"},
            {"name": "HOME", "value": vocabulary.MOUNT_TEMPORARY},
        ],
        "ports": [
            {"name": vocabulary.PORT_NAME, "containerPort": vocabulary.PORT, "protocol": "TCP"},
        ],
        "resources": _resources(pool),
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": _mounts(pool),
        # The front answers /healthz within seconds; however long the model loads, only readiness waits for it.
        "startupProbe": _probe(vocabulary.PATH_HEALTHZ, period=1, timeout=2, failures=120),
        "livenessProbe": _probe(vocabulary.PATH_HEALTHZ, period=10, timeout=5, failures=3),
        "readinessProbe": _probe(vocabulary.PATH_READYZ, period=1, timeout=2, failures=2),
    }


def _resources(pool: EncoderPool) -> JsonObject:
    resources: JsonObject = {kind: dict(quantities) for kind, quantities in pool.spec.resources.items()}
    accelerator = pool.spec.accelerator
    if accelerator is not None:
        for kind in ("requests", "limits"):
            resources[kind] = resources.get(kind, {}) | {accelerator.resource_name: str(accelerator.count)}
    return resources


def _arguments(pool: EncoderPool, revision: str) -> list[str]:
    spec = pool.spec
    arguments = [
        "serve",
        _path(spec.model.source, vocabulary.MOUNT_MODEL),
        "--host=0.0.0.0",
        f"--port={vocabulary.PORT}",
        f"--encoder={spec.model.encoder}",
        f"--revision={revision}",
        f"--expected-identity={vocabulary.MOUNT_EXPECTED}/{names.identity_key(revision)}",
        f"--pod-directory={vocabulary.MOUNT_POD}",
        f"--max-in-flight={spec.server.max_in_flight}",
        f"--deadline-seconds={spec.server.deadline_seconds}",
    ]
    arguments += _limits(spec.modalities)
    if spec.model.processor is not None:
        arguments.append(f"--processor={_path(spec.model.processor, vocabulary.MOUNT_PROCESSOR)}")
    arguments += pod_cache.arguments(pool)
    if spec.integrity.probe_period_seconds != vocabulary.PROBE_PERIOD_SECONDS:
        arguments.append(f"--probe-period-seconds={spec.integrity.probe_period_seconds}")
    if spec.server.fetch.url_fetch is UrlFetch.PUBLIC:
        arguments.append("--fetch-public")
    if spec.server.fetch.url_fetch is UrlFetch.LISTED:
        arguments.append(f"--fetch-hosts={','.join(spec.server.fetch.hosts)}")
    if runs_on_cuda(spec.server.device, spec.accelerator):
        arguments.append("--device=cuda")
    return arguments


def _limits(modalities: Sequence[ModalitySpec]) -> list[str]:
    """Which modalities are accepted, and what one item and one request may have; a server has one limit of items and of
    pixels, so the widest."""
    seen = [each for each in modalities if each.type != "audio"] or modalities
    arguments = [
        f"--modalities={','.join(sorted(each.type for each in modalities))}",
        f"--max-items={max(each.max_items for each in modalities)}",
        f"--max-pixels={max(each.max_pixels for each in seen)}",
    ]
    for each in modalities:
        if each.max_frames is not None:
            arguments.append(f"--max-frames={each.max_frames}")
        if each.max_seconds is not None:
            arguments.append(f"--max-{each.type}-seconds={each.max_seconds}")
    return arguments


def _path(source: Source, mount: str) -> str:
    return source.path if isinstance(source, LocalSource) else mount


def _volumes(pool: EncoderPool) -> list[JsonObject]:
    model = pool.spec.model
    volumes = [
        *_claim_volume(_MODEL_VOLUME, model.source),
        *_claim_volume(_PROCESSOR_VOLUME, model.processor),
    ]
    files = [
        (vocabulary.POD_FILE_LABELS, "metadata.labels"),
        (vocabulary.POD_FILE_ANNOTATIONS, "metadata.annotations"),
    ]
    items = [{"path": path, **_field(field)} for path, field in files]
    return [
        *volumes,
        {"name": "pod", "downwardAPI": {"items": items}},
        {
            "name": "expected",
            "configMap": {"name": names.identities_name(pool.name), "optional": True},
        },
        *pod_cache.volume(pool.spec.cache.redis),
        {"name": "temporary", "emptyDir": {}},
        {"name": "shared-memory", "emptyDir": {"medium": "Memory", "sizeLimit": _SHARED_MEMORY}},
    ]


def _claim_volume(name: str, source: Source | None) -> list[JsonObject]:
    if not isinstance(source, ClaimSource):
        return []
    return [{"name": name, "persistentVolumeClaim": {"claimName": source.claim_name, "readOnly": True}}]


def _mounts(pool: EncoderPool) -> list[JsonObject]:
    model = pool.spec.model
    return [
        *_claim_mount(_MODEL_VOLUME, vocabulary.MOUNT_MODEL, model.source),
        *_claim_mount(_PROCESSOR_VOLUME, vocabulary.MOUNT_PROCESSOR, model.processor),
        {"name": "pod", "mountPath": vocabulary.MOUNT_POD, "readOnly": True},
        {"name": "expected", "mountPath": vocabulary.MOUNT_EXPECTED, "readOnly": True},
        *(
            {"name": each["name"], "mountPath": vocabulary.MOUNT_REDIS, "readOnly": True}
            for each in pod_cache.volume(pool.spec.cache.redis)
        ),
        {"name": "temporary", "mountPath": vocabulary.MOUNT_TEMPORARY},
        {"name": "shared-memory", "mountPath": vocabulary.MOUNT_SHARED_MEMORY},
    ]


def _claim_mount(name: str, path: str, source: Source | None) -> list[JsonObject]:
    if not isinstance(source, ClaimSource):
        return []
    mount: JsonObject = {"name": name, "mountPath": path, "readOnly": True}
    if source.sub_path:
        mount["subPath"] = source.sub_path
    return [mount]


def _field(path: str) -> JsonObject:
    return {"fieldRef": {"apiVersion": "v1", "fieldPath": path}}


def _probe(path: str, *, period: int, timeout: int, failures: int) -> JsonObject:
    return {
        "httpGet": {"path": path, "port": vocabulary.PORT_NAME, "scheme": "HTTP"},
        "periodSeconds": period,
        "timeoutSeconds": timeout,
        "failureThreshold": failures,
    }
