"""The operator's rights: the chart grants all that its port to Kubernetes asks for, and no look at a Secret.

The product's own code asks a real API server, as the operator's own service account: a verb that the chart's role
lacks is a ForbiddenError here, whichever story would have needed it.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from kubernetes.aio.client import ApiClient, Configuration

from encoder_operator.announcements import Announcement
from encoder_operator.api_requests import ApiRequests
from encoder_operator.apply import apply
from encoder_operator.cluster import ChildKind, PodsListed
from encoder_operator.events import body_of
from encoder_operator.kube_cluster import KubeCluster
from encoder_operator.plan import plan
from encoder_operator.recall import Children, recall
from encoder_operator.spec import parse
from tests.support import kube
from tests.support.pools import OPERATOR_NAMESPACE, SERVER_IMAGE, Ground, pool
from tests.support.waiting import until

ACCOUNT = "encoderpool"
POOL = "asked-for"
POD = "nowhere"


async def test_the_chart_grants_all_that_the_operator_asks_for(ground: Ground, tmp_path: Path) -> None:
    namespace = ground.namespace
    paused = pool(POOL, namespace, image=SERVER_IMAGE, encoder="Auto")
    paused["spec"] |= {"management": "Paused", "replicas": 0}
    kube.apply(paused, pod_that_no_node_takes(namespace))
    until("the operator's own first look", lambda: kube.condition(POOL, namespace), seconds=60)
    uid = str((kube.get("pod", POD, namespace) or {})["metadata"]["uid"])
    async with as_the_operator(tmp_path / "ca.crt") as cluster:
        assert POOL in {each["metadata"]["name"] for each in await cluster.list_pools()}
        body = await cluster.get_pool(namespace, POOL)
        assert body
        await cluster.patch_pool_status(namespace, POOL, body["status"])
        asked = parse(body)
        wanted = plan(asked, recall(asked, Children(deployments=(), identities={}, history={}), 0.0))
        assert {ChildKind(each["kind"]) for each in wanted.objects} == set(ChildKind)
        assert len((await apply(cluster, wanted, [])).applied) == len(wanted.objects)
        made = await cluster.list_deployments(namespace, POOL)
        assert len((await apply(cluster, replace(wanted, objects=()), made)).pruned) == len(wanted.objects)
        async with asyncio.timeout(60), aclosing(cluster.watch_pods(None)) as watched:
            assert isinstance(await anext(watched), PodsListed)
            await cluster.patch_pod(namespace, POD, uid, {}, {"encoderpool.io/skip": "to be seen"})
            await anext(watched)
        await cluster.evict_pod(namespace, POD, uid)
        told = Announcement(reason="Learned", subject="rights", key="", message="enough", warning=False)
        assert await cluster.create_event(namespace, body_of(asked, told, 0.0))


@pytest.mark.parametrize("verb", ["get", "list", "watch", "create", "patch", "delete"])
def test_no_secret_may_be_touched(operator: None, verb: str) -> None:
    account = f"system:serviceaccount:{OPERATOR_NAMESPACE}:{ACCOUNT}"
    answer = kube.kubectl("auth", "can-i", verb, "secrets", "--all-namespaces", f"--as={account}", check=False)
    assert answer.split()[0] == "no"


@asynccontextmanager
async def as_the_operator(authority: Path) -> AsyncIterator[KubeCluster]:
    """The product's port to Kubernetes, as the operator's service account."""
    cluster = KubeCluster(ApiRequests(ApiClient(credentials(authority))), ())
    try:
        yield cluster
    finally:
        await cluster.close()


def credentials(authority: Path) -> Configuration:
    """The API server of the tests' context, with a token of the operator's account; `authority` is a file to write."""
    view = json.loads(kube.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o", "json"))
    server = view["clusters"][0]["cluster"]
    authority.write_bytes(base64.b64decode(server["certificate-authority-data"]))
    token = kube.kubectl("-n", OPERATOR_NAMESPACE, "create", "token", ACCOUNT).strip()
    configuration = Configuration(host=server["server"])
    configuration.ssl_ca_cert = str(authority)
    configuration.api_key["authorization"] = f"Bearer {token}"
    return configuration


def pod_that_no_node_takes(namespace: str) -> kube.Object:
    """A pod that looks like one of the pool's, and never runs."""
    labels = {"encoderpool.io/pool": POOL, "app.kubernetes.io/managed-by": "encoderpool-operator"}
    restricted = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": POD, "namespace": namespace, "labels": labels},
        "spec": {
            "nodeSelector": {"encoderpool.io/tests": "no-node-has-this"},
            "containers": [{"name": "encoder", "image": SERVER_IMAGE, "securityContext": restricted}],
        },
    }
