from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from kubernetes.aio.client import ApiClient, Configuration

from encoder_operator import errors
from encoder_operator.api_requests import ApiRequests
from encoder_operator.cluster import ChildKind, PodChanged, PodsListed
from encoder_operator.kube_cluster import KubeCluster

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ApiServer:
    """Answers each request with the next of the answers given, and remembers what was asked."""

    def __init__(self, *answers: Answer) -> None:
        self._answers = iter(answers)
        self.asked: list[tuple[str, str, dict[str, str], Any]] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        text = await request.text()
        self.asked.append((request.method, request.path, dict(request.query), json.loads(text) if text else None))
        return await next(self._answers)(request)


@asynccontextmanager
async def connected(server: ApiServer, *namespaces: str) -> AsyncIterator[KubeCluster]:
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", server.answer)
    async with TestServer(application) as listening:
        configuration = Configuration(host=str(listening.make_url("")).rstrip("/"))
        cluster = KubeCluster(ApiRequests(ApiClient(configuration)), namespaces)
        try:
            yield cluster
        finally:
            await cluster.close()


def says(body: Any, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def fails(status: int, message: str = "no", **headers: str) -> Answer:
    return says({"kind": "Status", "message": message}, status, **headers)


def streams(*events: Any) -> Answer:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for event in events:
            text = event if isinstance(event, str) else json.dumps(event) + "\n"
            await response.write(text.encode())
        await response.write_eof()
        return response

    return answer


def page(*names: str, version: str = "7", proceed: str = "") -> dict[str, Any]:
    metadata = {"resourceVersion": version} | ({"continue": proceed} if proceed else {})
    return {"metadata": metadata, "items": [pod(name) for name in names]}


def pod(name: str, version: str = "1") -> dict[str, Any]:
    return {"metadata": {"name": name, "resourceVersion": version}}


async def test_a_list_is_read_page_by_page_in_the_watched_namespaces() -> None:
    server = ApiServer(says(page("a", proceed="more")), says(page("b")), says(page("c")))
    async with connected(server, "x", "y") as cluster:
        assert [each["metadata"]["name"] for each in await cluster.list_pools()] == ["a", "b", "c"]
    root = "/apis/encoderpool.io/v1alpha1/namespaces"
    assert [(path, query.get("continue")) for _, path, query, _ in server.asked] == [
        (f"{root}/x/encoderpools", None),
        (f"{root}/x/encoderpools", "more"),
        (f"{root}/y/encoderpools", None),
    ]
    assert all(query["limit"] for _, _, query, _ in server.asked)


async def test_a_page_that_is_too_old_starts_the_list_again() -> None:
    server = ApiServer(says(page("a", proceed="more")), fails(410), says(page("a", "b")))
    async with connected(server) as cluster:
        pods = await cluster.list_pods("models", "vision")
    assert [each["metadata"]["name"] for each in pods] == ["a", "b"]


async def test_what_is_absent_is_none() -> None:
    async with connected(ApiServer(fails(404), fails(404))) as cluster:
        assert await cluster.get_pool("models", "vision") is None
        assert await cluster.get_config_map("models", "vision-identities") is None


async def test_a_missing_crd_is_named() -> None:
    async with connected(ApiServer(fails(404))) as cluster:
        with pytest.raises(errors.RejectedError, match="is the CRD installed"):
            await cluster.list_pools()


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, errors.RejectedError),
        (401, errors.ForbiddenError),
        (403, errors.ForbiddenError),
        (409, errors.ConflictError),
        (410, errors.GoneError),
        (422, errors.RejectedError),
        (500, errors.UnavailableError),
        (503, errors.UnavailableError),
    ],
)
async def test_each_status_is_one_error_with_the_api_servers_words(
    status: int, error: type[errors.ClusterError]
) -> None:
    async with connected(ApiServer(fails(status, "in its words"))) as cluster:
        with pytest.raises(error, match="in its words") as raised:
            await cluster.get_pool("models", "vision")
    assert type(raised.value) is error
    assert raised.value.status == status


async def test_a_server_that_is_not_there_is_unavailable() -> None:
    configuration = Configuration(host="http://127.0.0.1:9")
    cluster = KubeCluster(ApiRequests(ApiClient(configuration)), ())
    with pytest.raises(errors.UnavailableError, match="no answer"):
        await cluster.get_pool("models", "vision")
    await cluster.close()


async def test_an_answer_that_is_not_json_is_unavailable() -> None:
    async def proxy(request: web.Request) -> web.StreamResponse:
        return web.Response(text="<html>")

    async with connected(ApiServer(proxy)) as cluster:
        with pytest.raises(errors.UnavailableError, match="not JSON"):
            await cluster.get_pool("models", "vision")


async def test_a_throttled_request_waits_and_is_sent_again() -> None:
    server = ApiServer(fails(429, **{"Retry-After": "0"}), fails(429, **{"Retry-After": "0"}), says({"kind": "Event"}))
    async with connected(server) as cluster:
        assert await cluster.create_event("models", {"metadata": {"name": "e"}}) is True
    assert len(server.asked) == 3


async def test_a_request_that_stays_throttled_says_so() -> None:
    async with connected(ApiServer(*[fails(429, **{"Retry-After": "0"})] * 4)) as cluster:
        with pytest.raises(errors.ThrottledError):
            await cluster.get_pool("models", "vision")


async def test_a_failed_write_is_not_sent_again() -> None:
    server = ApiServer(fails(500))
    async with connected(server) as cluster:
        with pytest.raises(errors.UnavailableError):
            await cluster.create_event("models", {"metadata": {"name": "e"}})
    assert len(server.asked) == 1


async def test_an_event_that_exists_is_not_created() -> None:
    async with connected(ApiServer(fails(409))) as cluster:
        assert await cluster.create_event("models", {"metadata": {"name": "e"}}) is False


async def test_a_child_is_applied_by_one_field_manager() -> None:
    server = ApiServer(says({"metadata": {}}))
    manifest = {"kind": "Service", "metadata": {"namespace": "models", "name": "vision"}}
    async with connected(server) as cluster:
        await cluster.apply_child(manifest)
    assert server.asked == [
        (
            "PATCH",
            "/api/v1/namespaces/models/services/vision",
            {"fieldManager": "encoderpool-operator", "force": "true"},
            manifest,
        )
    ]


async def test_a_child_is_deleted_by_its_uid_and_one_that_is_gone_is_done() -> None:
    server = ApiServer(fails(404))
    async with connected(server) as cluster:
        await cluster.delete_child(ChildKind.DEPLOYMENT, "models", "vision-1", "u")
    _, path, _, body = server.asked[0]
    assert path == "/apis/apps/v1/namespaces/models/deployments/vision-1"
    assert body["preconditions"] == {"uid": "u"}
    assert body["propagationPolicy"] == "Background"


async def test_a_pod_is_patched_by_its_uid_and_a_none_takes_an_annotation_off() -> None:
    server = ApiServer(says({}))
    async with connected(server) as cluster:
        await cluster.patch_pod("models", "p", "u", {"l": "1"}, {"a": None})
    assert server.asked[0][3] == {"metadata": {"uid": "u", "labels": {"l": "1"}, "annotations": {"a": None}}}


async def test_another_pod_of_the_same_name_is_a_conflict() -> None:
    async with connected(ApiServer(fails(422, "metadata.uid: field is immutable"))) as cluster:
        with pytest.raises(errors.ConflictError):
            await cluster.patch_pod("models", "p", "u", {}, {})


async def test_a_status_is_applied_whole() -> None:
    server = ApiServer(says({}))
    async with connected(server) as cluster:
        await cluster.patch_pool_status("models", "vision", {"replicas": 3})
    method, path, query, body = server.asked[0]
    assert (method, query["force"]) == ("PATCH", "true")
    assert path.endswith("/namespaces/models/encoderpools/vision/status")
    assert body["status"] == {"replicas": 3}


async def events(server: ApiServer, count: int) -> list[PodsListed | PodChanged]:
    seen: list[PodsListed | PodChanged] = []
    async with connected(server) as cluster, asyncio.timeout(10), aclosing(cluster.watch_pods(None)) as watch:
        async for event in watch:
            seen.append(event)
            if len(seen) == count:
                break
    return seen


async def test_a_watch_goes_on_where_the_last_bookmark_was() -> None:
    server = ApiServer(
        says(page("a", version="7")),
        streams({"type": "MODIFIED", "object": pod("a", "8")}, {"type": "BOOKMARK", "object": pod("", "20")}),
        streams({"type": "DELETED", "object": pod("a", "21")}),
    )
    assert await events(server, 3) == [
        PodsListed(pods=(pod("a"),)),
        PodChanged(deleted=False, pod=pod("a", "8")),
        PodChanged(deleted=True, pod=pod("a", "21")),
    ]
    watches = [query for _, _, query, _ in server.asked[1:]]
    assert [query["resourceVersion"] for query in watches] == ["7", "20"]
    assert all(query["allowWatchBookmarks"] == "true" and query["timeoutSeconds"] for query in watches)


GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old"}}


@pytest.mark.parametrize(
    "gap", [streams(GONE), fails(410), fails(500), streams('{"type": "MODI')], ids=["event", "status", "fault", "cut"]
)
async def test_after_a_gap_the_pods_are_listed_again(gap: Answer) -> None:
    server = ApiServer(says(page("a")), gap, says(page("b", version="9")), streams())
    assert await events(server, 2) == [PodsListed(pods=(pod("a"),)), PodsListed(pods=(pod("b"),))]


async def test_a_silent_watch_is_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await asyncio.sleep(1)
        return response

    monkeypatch.setattr("encoder_operator.pod_watch._SILENCE_SECONDS", 0.1)
    server = ApiServer(says(page("a")), silent, says(page("b")), streams())
    assert await events(server, 2) == [PodsListed(pods=(pod("a"),)), PodsListed(pods=(pod("b"),))]


async def test_an_eviction_is_of_exactly_this_pod() -> None:
    server = ApiServer(says({"kind": "Status"}), fails(404))
    async with connected(server) as cluster:
        await cluster.evict_pod("models", "a", "uid-a")
        await cluster.evict_pod("models", "gone", "uid-g")
    method, path, _, body = server.asked[0]
    assert (method, path) == ("POST", "/api/v1/namespaces/models/pods/a/eviction")
    assert (body["kind"], body["deleteOptions"]) == ("Eviction", {"preconditions": {"uid": "uid-a"}})


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (403, errors.EvictionBlockedError),
        (409, errors.ConflictError),
        (429, errors.EvictionBlockedError),
        (500, errors.EvictionBlockedError),
        (503, errors.UnavailableError),
    ],
)
async def test_a_refused_eviction_is_told_at_once_and_not_repeated(
    status: int, error: type[errors.ClusterError]
) -> None:
    server = ApiServer(fails(status, "would violate the pod's disruption budget"))
    async with connected(server) as cluster:
        with pytest.raises(error, match="disruption budget") as raised:
            await cluster.evict_pod("models", "a", "uid-a")
    assert type(raised.value) is error
    assert len(server.asked) == 1
