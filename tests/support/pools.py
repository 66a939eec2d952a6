"""Pools as a user writes them, and the chart as a user installs it."""

from __future__ import annotations

import json
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support import ground, kube

OPERATOR_NAMESPACE = "encoderpool-system"
SERVER_IMAGE = ground.image("server")
TRUNCATING_IMAGE = ground.image("server-with-test-encoder")
EVALUATION_SECONDS = 3
CHART = Path(__file__).parents[2] / "charts" / "encoderpool"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """A namespace with the claim `weights` over a folder of this machine."""

    namespace: str
    folder: Path


def install_chart(*, prometheus_address: str) -> None:
    """`helm upgrade --install` the chart with the images of this ground, and wait for the operator; without an
    address it scrapes the replicas itself."""
    kube.helm(
        *("upgrade", "--install", "encoderpool", str(CHART)),
        *("--namespace", OPERATOR_NAMESPACE, "--create-namespace", "--wait", "--timeout=180s"),
        *("--set", f"image.repository={ground.repository('operator')}", "--set", f"image.tag={ground.IMAGE_TAG}"),
        *("--set", f"image.pullPolicy={ground.PULL_POLICY}"),
        *("--set", f"prometheus.address={prometheus_address}"),
    )


def pool(name: str, namespace: str, *, image: str, encoder: str) -> kube.Object:
    """An EncoderPool of three replicas over the claim `weights`, judged often so that a test need not wait."""
    return {
        "apiVersion": "encoderpool.io/v1alpha1",
        "kind": "EncoderPool",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "image": image,
            "imagePullPolicy": ground.PULL_POLICY,
            "replicas": 3,
            "model": {"source": {"persistentVolumeClaim": {"claimName": "weights"}}, "encoder": encoder},
            "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
            "integrity": {"evaluationSeconds": EVALUATION_SECONDS, "windowSeconds": 30, "minChecks": 20},
            "quarantine": {"baseSeconds": 5, "maxSeconds": 15},
        },
    }


def service_address(name: str, namespace: str) -> tuple[str, int]:
    """Where the pool's Service answers."""
    service = kube.get("service", name, namespace)
    assert service, f"pool {name} has no Service"
    return str(service["spec"]["clusterIP"]), int(service["spec"]["ports"][0]["port"])


def identity(pod: kube.Object) -> dict[str, Any]:
    """GET /v1/identity of one pod."""
    with urllib.request.urlopen(f"http://{pod['status']['podIP']}:8000/v1/identity", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def serving_label(pod: kube.Object) -> str:
    """The label by which the Service selects."""
    return str(pod["metadata"]["labels"]["encoderpool.io/serving"])


def cordon_record(pod: kube.Object) -> dict[str, Any]:
    """The operator's record on the pod; empty where there is none."""
    text = pod["metadata"].get("annotations", {}).get("encoderpool.io/cordon")
    record: dict[str, Any] = json.loads(text) if text else {}
    return record


def reason_is(name: str, namespace: str, reason: str, *words: str) -> bool:
    """Whether the pool's Ready condition has this reason and names all these words."""
    ready = kube.condition(name, namespace)
    return ready.get("reason") == reason and all(word in ready.get("message", "") for word in words)
