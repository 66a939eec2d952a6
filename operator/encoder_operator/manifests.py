"""Manifests: a pool's children as plain objects that name only the fields that the operator owns.

Place: called by plan. Must never: name a field that the API server would answer in another form (list keys
that it fills in are written out), or leave out owner and labels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from encoder_operator import names, vocabulary
from encoder_operator.spec import EncoderPool, IdentityPolicy
from encoder_operator.standing import Expected

JsonObject = dict[str, Any]

# A model may load for long before its first replica is Ready; nothing is undone when this passes.
PROGRESS_DEADLINE_SECONDS = 3600


def deployment(pool: EncoderPool, revision: str, template: Mapping[str, Any], replicas: int) -> JsonObject:
    """The Deployment of one revision, with its frozen pod template; the template is kept in an annotation, as
    the API server hands back another that has its own defaults in it."""
    made = _object(pool, "apps/v1", "Deployment", names.deployment_name(pool.name, revision))
    made["metadata"]["labels"][vocabulary.LABEL_REVISION] = revision
    made["metadata"]["annotations"] = {
        vocabulary.ANNOTATION_APPLIED_TEMPLATE: json.dumps(template, sort_keys=True, separators=(",", ":"))
    }
    made["spec"] = {
        "replicas": replicas,
        "selector": {
            "matchLabels": {vocabulary.LABEL_POOL: pool.name, vocabulary.LABEL_REVISION: revision},
        },
        # Accelerators are not to spare: should a template ever change, one replica goes before one comes.
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}},
        "progressDeadlineSeconds": PROGRESS_DEADLINE_SECONDS,
        "revisionHistoryLimit": 1,
        "template": template,
    }
    return made


def applied_template(deployment: Mapping[str, Any]) -> dict[str, Any] | None:
    """The template with which a Deployment was first applied; None where its annotation is gone or broken."""
    annotations = deployment.get("metadata", {}).get("annotations") or {}
    try:
        template = json.loads(annotations.get(vocabulary.ANNOTATION_APPLIED_TEMPLATE, ""))
    except ValueError:
        return None
    return template if isinstance(template, dict) and "spec" in template else None


def service(pool: EncoderPool) -> JsonObject:
    """The Service: the replicas of all revisions whose label says that they serve."""
    made = _object(pool, "v1", "Service", names.service_name(pool.name))
    made["spec"] = {
        "selector": {
            vocabulary.LABEL_POOL: pool.name,
            vocabulary.LABEL_SERVING: vocabulary.SERVING,
        },
        "ports": [
            {
                "name": vocabulary.PORT_NAME,
                "port": vocabulary.SERVICE_PORT,
                "targetPort": vocabulary.PORT_NAME,
                "protocol": "TCP",
            }
        ],
    }
    return made


def disruption_budget(pool: EncoderPool) -> JsonObject:
    """How many healthy replicas may be evicted at once. One that is not Ready may always go: a cordoned or held
    replica must not keep a node from being drained."""
    made = _object(pool, "policy/v1", "PodDisruptionBudget", names.disruption_budget_name(pool.name))
    made["spec"] = {
        "selector": {"matchLabels": {vocabulary.LABEL_POOL: pool.name}},
        "maxUnavailable": pool.spec.disruption.max_unavailable,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
    return made


def service_account(pool: EncoderPool) -> JsonObject:
    """The ServiceAccount of the replicas. It has no rights, and its token is not mounted."""
    made = _object(pool, "v1", "ServiceAccount", names.service_account_name(pool.name))
    made["automountServiceAccountToken"] = False
    return made


def identities(pool: EncoderPool, identities: Mapping[str, str]) -> JsonObject:
    """The ConfigMap that tells each revision's replicas what they must be."""
    made = _object(pool, "v1", "ConfigMap", names.identities_name(pool.name))
    made["data"] = {names.identity_key(revision): text for revision, text in identities.items()}
    return made


def history(pool: EncoderPool, kept: Mapping[str, str]) -> JsonObject:
    """The ConfigMap of the revisions that may be gone back to."""
    made = _object(pool, "v1", "ConfigMap", names.history_name(pool.name))
    made["data"] = dict(kept)
    return made


def expected_identity(pool: EncoderPool, revision: str, policy: IdentityPolicy, expected: Expected | None) -> str:
    """The file that tells a revision's replicas what they must be (tests/contract/expected.json)."""
    known = None if policy is IdentityPolicy.OFF else expected
    return json.dumps(
        {
            "policy": policy.value,
            "revision": revision,
            "fingerprint": known.fingerprint if known else None,
            "signature": known.signature if known else None,
            "maxSignatureDistancePerMille": pool.spec.model.identity.max_signature_distance,
        },
        sort_keys=True,
        indent=2,
    )


def _object(pool: EncoderPool, api_version: str, kind: str, name: str) -> JsonObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": pool.namespace,
            "labels": {
                vocabulary.LABEL_POOL: pool.name,
                vocabulary.LABEL_NAME: vocabulary.SERVER_NAME,
                vocabulary.LABEL_INSTANCE: pool.name,
                vocabulary.LABEL_MANAGED_BY: vocabulary.MANAGED_BY,
            },
            "ownerReferences": [
                {
                    "apiVersion": vocabulary.API_VERSION,
                    "kind": vocabulary.KIND,
                    "name": pool.name,
                    "uid": pool.uid,
                    "controller": True,
                    # Blocking needs rights on finalizers, and nothing here has to go before its pool.
                    "blockOwnerDeletion": False,
                }
            ],
        },
    }
