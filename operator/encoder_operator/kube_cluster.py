"""The cluster port on the official async client.

Place: made by __main__, handed down as `cluster.Cluster`. Must never: cache an answer, or know the meaning
of what it carries. The dynamic client is not used: its watch has no read time limit.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping

from kubernetes.aio.client import ApiClient, Configuration
from kubernetes.aio.config import ConfigException, load_incluster_config, load_kube_config

from encoder_operator import names, vocabulary
from encoder_operator.api_requests import APPLY, MERGE, ApiRequests
from encoder_operator.cluster import ChildKind, JsonObject, PodEvent
from encoder_operator.errors import (
    ConflictError,
    EvictionBlockedError,
    ForbiddenError,
    RejectedError,
    ThrottledError,
    UnavailableError,
)
from encoder_operator.pod_watch import watch_pods

_FORCED = {"fieldManager": vocabulary.FIELD_MANAGER, "force": "true"}
_MANAGED = {"fieldManager": vocabulary.FIELD_MANAGER}
_UNPROCESSABLE = 422
_INTERNAL_ERROR = 500

_COLLECTIONS = {
    ChildKind.SERVICE_ACCOUNT: ("/api/v1", "serviceaccounts"),
    ChildKind.CONFIG_MAP: ("/api/v1", "configmaps"),
    ChildKind.SERVICE: ("/api/v1", "services"),
    ChildKind.DEPLOYMENT: ("/apis/apps/v1", "deployments"),
    ChildKind.DISRUPTION_BUDGET: ("/apis/policy/v1", "poddisruptionbudgets"),
}


async def connect(watch_namespaces: tuple[str, ...]) -> KubeCluster:
    """The cluster that this process runs in, or else the one that its kubeconfig names; `watch_namespaces`
    are those whose pools are listed, empty for all."""
    configuration = Configuration()
    try:
        load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException:
        await load_kube_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    return KubeCluster(ApiRequests(ApiClient(configuration)), watch_namespaces)


class KubeCluster:
    """The API server, as `cluster.Cluster`."""

    def __init__(self, requests: ApiRequests, watch_namespaces: tuple[str, ...]) -> None:
        self._requests = requests
        self._watch_namespaces = watch_namespaces

    async def close(self) -> None:
        """Close all connections."""
        await self._requests.close()

    async def list_pools(self) -> list[JsonObject]:
        """See `cluster.Cluster`."""
        pools: list[JsonObject] = []
        for namespace in self._watch_namespaces or (None,):
            items, _ = await self._requests.list_all(_pools(namespace))
            pools += items
        return pools

    async def get_pool(self, namespace: str, name: str) -> JsonObject | None:
        """See `cluster.Cluster`."""
        return await self._requests.send("GET", f"{_pools(namespace)}/{name}")

    async def patch_pool_status(self, namespace: str, name: str, status: JsonObject) -> None:
        """See `cluster.Cluster`. An apply, since it alone removes what is no longer named."""
        await self._requests.send(
            "PATCH",
            f"{_pools(namespace)}/{name}/status",
            query=_FORCED,
            content_type=APPLY,
            body={
                "apiVersion": vocabulary.API_VERSION,
                "kind": vocabulary.KIND,
                "metadata": {"name": name, "namespace": namespace},
                "status": status,
            },
        )

    async def list_pods(self, namespace: str, pool: str) -> list[JsonObject]:
        """See `cluster.Cluster`."""
        pods, _ = await self._requests.list_all(_pods(namespace), names.pool_selector(pool))
        return pods

    async def patch_pod(
        self,
        namespace: str,
        name: str,
        uid: str,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
    ) -> None:
        """See `cluster.Cluster`."""
        metadata: JsonObject = {"uid": uid, "labels": dict(labels), "annotations": dict(annotations)}
        try:
            await self._requests.send(
                "PATCH",
                f"{_pods(namespace)}/{name}",
                query=_MANAGED,
                content_type=MERGE,
                body={"metadata": metadata},
            )
        except RejectedError as error:
            # Another pod of this name: for the API server that is a change of a field that cannot change.
            if error.status == _UNPROCESSABLE and "metadata.uid" in str(error):
                raise ConflictError(error.status, str(error)) from error
            raise

    async def evict_pod(self, namespace: str, name: str, uid: str) -> None:
        """See `cluster.Cluster`."""
        body: JsonObject = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        try:
            await self._requests.send("POST", f"{_pods(namespace)}/{name}/eviction", body=body, throttled_tries=1)
        except (ForbiddenError, ThrottledError, UnavailableError) as error:
            # 500 is the answer where two disruption budgets cover the pod; no answer at all is another matter.
            if isinstance(error, UnavailableError) and error.status != _INTERNAL_ERROR:
                raise
            raise EvictionBlockedError(error.status, str(error)) from error

    def watch_pods(self, namespace: str | None) -> AsyncGenerator[PodEvent, None]:
        """See `cluster.Cluster`."""
        selector = f"{vocabulary.LABEL_MANAGED_BY}={vocabulary.MANAGED_BY},{vocabulary.LABEL_POOL}"
        return watch_pods(self._requests, _pods(namespace), selector)

    async def list_deployments(self, namespace: str, pool: str) -> list[JsonObject]:
        """See `cluster.Cluster`."""
        return await self.list_children(ChildKind.DEPLOYMENT, namespace, pool)

    async def get_config_map(self, namespace: str, name: str) -> JsonObject | None:
        """See `cluster.Cluster`."""
        return await self.get_child(ChildKind.CONFIG_MAP, namespace, name)

    async def get_child(self, kind: ChildKind, namespace: str, name: str) -> JsonObject | None:
        """See `cluster.Cluster`."""
        return await self._requests.send("GET", f"{_children(kind, namespace)}/{name}")

    async def list_children(self, kind: ChildKind, namespace: str, pool: str) -> list[JsonObject]:
        """See `cluster.Cluster`."""
        items, _ = await self._requests.list_all(_children(kind, namespace), names.pool_selector(pool))
        return items

    async def apply_child(self, manifest: JsonObject) -> JsonObject:
        """See `cluster.Cluster`."""
        metadata = manifest["metadata"]
        path = f"{_children(ChildKind(manifest['kind']), metadata['namespace'])}/{metadata['name']}"
        applied = await self._requests.send("PATCH", path, query=_FORCED, content_type=APPLY, body=manifest)
        if applied is None:
            raise RejectedError(404, f"namespace {metadata['namespace']} is gone")
        return applied

    async def delete_child(self, kind: ChildKind, namespace: str, name: str, uid: str) -> None:
        """See `cluster.Cluster`."""
        await self._requests.send(
            "DELETE",
            f"{_children(kind, namespace)}/{name}",
            body={
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "propagationPolicy": "Background",
                "preconditions": {"uid": uid},
            },
        )

    async def create_event(self, namespace: str, body: JsonObject) -> bool:
        """See `cluster.Cluster`."""
        path = f"/api/v1/namespaces/{namespace}/events"
        try:
            await self._requests.send("POST", path, query=_MANAGED, body=body)
        except ConflictError:
            return False
        return True


def _pools(namespace: str | None) -> str:
    return _collection(f"/apis/{vocabulary.API_VERSION}", vocabulary.PLURAL, namespace)


def _pods(namespace: str | None) -> str:
    return _collection("/api/v1", "pods", namespace)


def _children(kind: ChildKind, namespace: str) -> str:
    root, plural = _COLLECTIONS[kind]
    return _collection(root, plural, namespace)


def _collection(root: str, plural: str, namespace: str | None) -> str:
    return f"{root}/{plural}" if namespace is None else f"{root}/namespaces/{namespace}/{plural}"
