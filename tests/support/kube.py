"""The cluster as a user sees it: kubectl and helm, with JSON read back.

Expects KUBECONFIG, kubectl and helm as `tests/cluster/cluster run` gives them; `ground` says which context.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.support import ground

Object = dict[str, Any]


def run(*command: str, given: str | None = None, check: bool = True) -> str:
    """Run a command and return what it printed; a failure shows its error text."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=180, check=False)
    if check and done.returncode:
        raise AssertionError(f"{' '.join(command)} exited {done.returncode}: {done.stderr.strip()}")
    return done.stdout if done.returncode == 0 else done.stdout + done.stderr


def kubectl(*arguments: str, given: str | None = None, check: bool = True) -> str:
    """kubectl, as typed."""
    return run("kubectl", "--context", ground.context(), *arguments, given=given, check=check)


def helm(*arguments: str, check: bool = True) -> str:
    """helm, as typed."""
    return run("helm", "--kube-context", ground.context(), *arguments, check=check)


def apply(*objects: Mapping[str, Any]) -> None:
    """`kubectl apply` these objects in one call."""
    kubectl("apply", "-f", "-", given=json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))


def get(kind: str, name: str, namespace: str) -> Object | None:
    """One object, or None where there is none."""
    text = kubectl("-n", namespace, "get", kind, name, "--ignore-not-found", "-o", "json")
    return json.loads(text) if text.strip() else None


def listed(kind: str, namespace: str, selector: str = "") -> list[Object]:
    """All objects of a kind in a namespace, by label selector."""
    found: list[Object] = json.loads(kubectl("-n", namespace, "get", kind, "-l", selector, "-o", "json"))["items"]
    return found


def namespace(name: str) -> Object:
    """A namespace that admits only pods of the restricted standard."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    }


def volume(name: str, namespace: str, path: str) -> tuple[Object, Object]:
    """A static hostPath PersistentVolume over a folder of this machine, and the claim that binds it."""
    size = {"storage": "1Gi"}
    volume_name = f"{namespace}-{name}"
    return (
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": volume_name},
            "spec": {
                "capacity": size,
                "accessModes": ["ReadOnlyMany"],
                "persistentVolumeReclaimPolicy": "Retain",
                "storageClassName": "",
                "hostPath": {"path": str(ground.seen_by_node(Path(path))), "type": "Directory"},
                "claimRef": {"namespace": namespace, "name": name},
            },
        },
        {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "accessModes": ["ReadOnlyMany"],
                "storageClassName": "",
                "volumeName": volume_name,
                "resources": {"requests": size},
            },
        },
    )


def pods(pool: str, namespace: str) -> list[Object]:
    """The pool's pods that are not going away, by name."""
    found = listed("pods", namespace, f"encoderpool.io/pool={pool}")
    alive = [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]
    return sorted(alive, key=lambda pod: str(pod["metadata"]["name"]))


def is_ready(pod: Mapping[str, Any]) -> bool:
    """Whether the kubelet calls the pod Ready."""
    conditions = pod.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def condition(pool: str, namespace: str, kind: str = "Ready") -> Object:
    """One condition of an EncoderPool; an empty object where it has none yet."""
    found = get("encoderpool", pool, namespace) or {}
    conditions: Sequence[Object] = found.get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == kind), {})


def endpoints(service: str, namespace: str) -> set[str]:
    """The addresses that the Service sends traffic to now."""
    slices = listed("endpointslices", namespace, f"kubernetes.io/service-name={service}")
    return {
        address
        for each in slices
        for endpoint in each.get("endpoints") or []
        if endpoint.get("conditions", {}).get("ready")
        for address in endpoint["addresses"]
    }
