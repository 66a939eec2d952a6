"""Cluster: the port through which this program sees and changes Kubernetes.

Place: apply, observe and reconcile call it; `kube_cluster` implements it on the official async client, tests
implement it in memory. Must never: decide anything, or know a pool's meaning beyond its labels.

Objects are plain dicts as the API has them. Absent is None (or done, for a deletion); everything else that
goes wrong is an `errors.ClusterError`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

JsonObject = dict[str, Any]


class ChildKind(Enum):
    """The kinds that a pool owns. Secrets are not among them, ever."""

    SERVICE_ACCOUNT = "ServiceAccount"
    CONFIG_MAP = "ConfigMap"
    SERVICE = "Service"
    DEPLOYMENT = "Deployment"
    DISRUPTION_BUDGET = "PodDisruptionBudget"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsListed:
    """All pods that there are now: what was known before is void. First in a watch, and after each gap."""

    pods: tuple[JsonObject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PodChanged:
    """One pod that was added, changed or deleted."""

    deleted: bool
    pod: JsonObject


PodEvent = PodsListed | PodChanged


class Cluster(Protocol):
    """What the operator asks of Kubernetes."""

    async def list_pools(self) -> list[JsonObject]:
        """All pools in the watched namespaces."""

    async def get_pool(self, namespace: str, name: str) -> JsonObject | None:
        """One pool, None where there is none."""

    async def patch_pool_status(self, namespace: str, name: str, status: JsonObject) -> None:
        """Make `status` the pool's whole status: fields that it lacks go. A pool that is gone is done."""

    async def list_pods(self, namespace: str, pool: str) -> list[JsonObject]:
        """The pool's pods, terminating ones included."""

    async def patch_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        """Set labels and annotations (None removes) of exactly this pod: ConflictError if its name is
        another's by now, and nothing at all if it is gone."""

    async def evict_pod(self, namespace: str, name: str, uid: str) -> None:
        """Evict exactly this pod: ConflictError if its name is another's by now, EvictionBlockedError where it may
        not go now. It is asked once and not waited for; a pod that is gone is done."""

    def watch_pods(self, namespace: str | None) -> AsyncIterator[PodEvent]:
        """The pods of all pools in a namespace (None: in all), listed, then watched, without end. Errors and
        gaps are dealt with inside: each gap ends with another PodsListed."""

    async def list_deployments(self, namespace: str, pool: str) -> list[JsonObject]:
        """The pool's Deployments, one for each live revision."""

    async def get_config_map(self, namespace: str, name: str) -> JsonObject | None:
        """One ConfigMap, None where there is none."""

    async def get_child(self, kind: ChildKind, namespace: str, name: str) -> JsonObject | None:
        """One object of a kind that pools own, whoever owns it."""

    async def list_children(self, kind: ChildKind, namespace: str, pool: str) -> list[JsonObject]:
        """The objects of this kind with the pool's labels."""

    async def apply_child(self, manifest: JsonObject) -> JsonObject:
        """Server-side apply, forced on the fields that the manifest names."""

    async def delete_child(self, kind: ChildKind, namespace: str, name: str, uid: str) -> None:
        """Delete exactly this object and, in the background, what it owns. One that is gone is done."""

    async def create_event(self, namespace: str, body: JsonObject) -> bool:
        """Create an Event; False when one of this name exists already."""
