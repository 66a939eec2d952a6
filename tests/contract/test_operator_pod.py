from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from encoder_operator import manifests
from encoder_operator.plan import plan
from encoder_operator.pod_template import pod_template
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Expected, Revision, Role, Standing
from tests.support.pool_objects import CLAIM, a_pool

HERE = Path(__file__).parent
POD = json.loads((HERE / "pod.json").read_text())
EXPECTED = json.loads((HERE / "expected.json").read_text())
REVISION = POD["revision"]


def the_pod(pool: EncoderPool) -> dict[str, Any]:
    pod: dict[str, Any] = pod_template(pool, REVISION)["spec"]
    return pod


def the_container(pool: EncoderPool) -> dict[str, Any]:
    container: dict[str, Any] = the_pod(pool)["containers"][0]
    return container


def by_name(things: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {each["name"]: each for each in things}


def test_the_server_is_started_with_the_agreed_arguments() -> None:
    assert the_container(a_pool())["args"] == POD["args"]


def test_the_limits_of_each_modality_reach_the_server() -> None:
    defaults = {"maxItems": 16, "maxPixels": 16777216}
    modalities = [
        {"type": "image"} | defaults,
        {"type": "video", "maxFrames": 768, "maxSeconds": 60, "maxItems": 4, "maxPixels": 1000},
        {"type": "audio", "maxSeconds": 30} | defaults,
    ]
    arguments = the_container(a_pool(modalities=modalities))["args"]
    assert arguments[-len(POD["mediaArgs"]) :] == POD["mediaArgs"]


def test_a_processor_on_a_claim_is_mounted_and_named_a_cache_sized_and_a_probe_timed() -> None:
    processor = {"persistentVolumeClaim": {"claimName": "processors"}}
    integrity = {"probePeriodSeconds": 60}
    pool = a_pool(model=CLAIM | {"processor": processor}, cache={"memory": "512Mi"}, integrity=integrity)
    container = the_container(pool)
    assert container["args"] == POD["args"] + POD["optionalArgs"]
    assert {"name": "processor", "mountPath": "/processor", "readOnly": True} in container["volumeMounts"]
    assert by_name(the_pod(pool)["volumes"])["processor"]["persistentVolumeClaim"]["claimName"] == "processors"


@pytest.mark.parametrize(("url_fetch", "argument"), POD["fetchArgs"].items())
def test_from_where_media_are_fetched_is_said_where_any_are(url_fetch: str, argument: str) -> None:
    hosts = {"urlFetchHosts": ["media.storage.svc:9000", "[fd00::7]"]} if url_fetch == "Listed" else {}
    assert the_container(a_pool(server={"urlFetch": url_fetch} | hosts))["args"] == [*POD["args"], argument]


def test_a_model_inside_the_image_is_served_from_its_path_without_a_volume() -> None:
    pool = a_pool(model={"source": {"local": {"path": "/models/x"}}})
    assert the_container(pool)["args"][:2] == ["serve", "/models/x"]
    assert "model" not in by_name(the_pod(pool)["volumes"])


def test_the_environment_is_as_agreed() -> None:
    agreed = {
        name: {"value": value}
        if isinstance(value, str)
        else {"valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": value["fieldRef"]}}}
        for name, value in POD["env"].items()
    }
    env = by_name(the_container(a_pool())["env"])
    assert {name: {k: v for k, v in each.items() if k != "name"} for name, each in env.items()} == agreed


@pytest.mark.parametrize("name", sorted(POD["volumes"]))
def test_each_volume_is_mounted_as_agreed(name: str) -> None:
    agreed = dict(POD["volumes"][name])
    mount = next(each for each in the_container(a_pool())["volumeMounts"] if each["name"] == name)
    assert mount["mountPath"] == agreed.pop("mountPath")
    assert mount.get("subPath") == agreed.pop("subPath", None)
    assert mount.get("readOnly", False) >= agreed.pop("readOnly", False)
    volume = by_name(the_pod(a_pool())["volumes"])[name]
    match name:
        case "pod":
            items = volume["downwardAPI"]["items"]
            assert {each["path"]: each["fieldRef"]["fieldPath"] for each in items} == agreed["downwardAPI"]
        case "expected":
            assert volume["configMap"] == {"name": agreed["configMap"], "optional": agreed["optional"]}
        case _:
            kind = next(iter(agreed))
            assert agreed[kind].items() <= volume[kind].items()


def test_no_volume_is_there_that_was_not_agreed() -> None:
    assert set(by_name(the_pod(a_pool())["volumes"])) == set(POD["volumes"])


SHARED = {"memory": "512Mi", "redis": {"url": "redis://redis:6379/0"}}
SECRET = {"redis": {"secretRef": {"name": "redis", "key": "cache-url"}}}


def test_a_shared_cache_is_named_in_the_environment_and_never_in_an_argument() -> None:
    container = the_container(a_pool(cache=SHARED))
    assert by_name(container["env"])[POD["redisVariable"]] == {
        "name": POD["redisVariable"],
        "value": "redis://redis:6379/0",
    }
    assert container["args"] == [*POD["args"], POD["optionalArgs"][1], *POD["redisArgs"]]
    assert set(by_name(the_pod(a_pool(cache=SHARED))["volumes"])) == set(POD["volumes"])


def test_a_secret_with_a_shared_caches_url_is_mounted_and_not_read() -> None:
    pool, agreed = a_pool(cache=SECRET), POD["redisVolume"]
    container = the_container(pool)
    assert container["args"] == [*POD["args"], *POD["redisArgs"], POD["redisSecretArg"]]
    assert POD["redisVariable"] not in by_name(container["env"])
    assert by_name(the_pod(pool)["volumes"])[agreed["name"]]["secret"] == {
        "secretName": "redis",
        "items": [{"key": "cache-url", "path": agreed["file"]}],
        "optional": agreed["optional"],
    }
    assert by_name(container["volumeMounts"])[agreed["name"]] == {
        "name": agreed["name"],
        "mountPath": agreed["mountPath"],
        "readOnly": agreed["readOnly"],
    }


def test_the_probes_ask_the_agreed_paths() -> None:
    container = the_container(a_pool())
    for name, agreed in POD["probes"].items():
        probe = container[f"{name}Probe"]
        assert probe["httpGet"] == {"path": agreed["path"], "port": "http", "scheme": "HTTP"}
        assert probe["periodSeconds"] == agreed.get("periodSeconds", probe["periodSeconds"])


def test_a_stopping_replica_has_time_for_its_longest_request() -> None:
    assert the_pod(a_pool())["terminationGracePeriodSeconds"] == POD["terminationGracePeriodSeconds"]


def test_the_pods_have_the_agreed_labels() -> None:
    assert pod_template(a_pool(), REVISION)["metadata"] == {"labels": POD["labels"]}


def test_the_pod_passes_the_restricted_pod_security_standard() -> None:
    pod, container = the_pod(a_pool()), the_container(a_pool())
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "runAsUser": 10001,
        "runAsGroup": 10001,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def standing(expected: Expected | None) -> Standing:
    known = Revision(
        hash=REVISION,
        role=Role.CURRENT,
        expected=expected,
        distinct_identities=1,
        reason="AsExpected",
        since="2026-11-30T12:00:00Z",
        scale=None,
    )
    return Standing(revisions=(known,), templates={REVISION: pod_template(a_pool(), REVISION)})


def identity(policy: str) -> dict[str, Any]:
    pinned = {"pinned": {"fingerprint": EXPECTED["pinned"]["fingerprint"]}} if policy == "Pinned" else {}
    return CLAIM | {"identity": {"policy": policy} | pinned}


LEARNED = Expected(fingerprint=EXPECTED["learned"]["fingerprint"], signature=EXPECTED["learned"]["signature"])


@pytest.mark.parametrize(
    ("name", "policy", "expected"),
    [("learned", "Learn", LEARNED), ("learning", "Learn", None), ("pinned", "Pinned", None), ("off", "Off", LEARNED)],
)
def test_a_replica_is_told_what_it_must_be(name: str, policy: str, expected: Expected | None) -> None:
    planned = plan(a_pool(model=identity(policy)), standing(expected))
    config_map = next(each for each in planned.objects if each["kind"] == "ConfigMap")
    assert config_map["metadata"]["name"] == "vision-identities"
    assert json.loads(config_map["data"][f"{REVISION}.json"]) == EXPECTED[name]
    assert config_map["data"][f"{REVISION}.json"] == planned.identities[REVISION]


def test_the_service_is_named_like_the_pool_and_selects_what_serves() -> None:
    service = manifests.service(a_pool())
    assert service["metadata"]["name"] == "vision"
    assert service["spec"] == {
        "selector": {"encoderpool.io/pool": "vision", "encoderpool.io/serving": "true"},
        "ports": [{"name": "http", "port": 80, "targetPort": "http", "protocol": "TCP"}],
    }


GPU = {"resourceName": "nvidia.com/gpu", "count": 2, "runtimeClassName": "nvidia"}


def test_an_accelerator_is_requested_and_limited_and_the_server_told_to_use_it() -> None:
    pool = a_pool(accelerator=GPU, resources={"limits": {"memory": "8Gi"}})
    container = the_container(pool)
    assert container["resources"] == {
        "limits": {"memory": "8Gi", "nvidia.com/gpu": "2"},
        "requests": {"nvidia.com/gpu": "2"},
    }
    assert container["args"] == [*POD["args"], POD["cudaArg"]]
    assert the_pod(pool)["runtimeClassName"] == "nvidia"


@pytest.mark.parametrize(
    ("resource", "device", "cuda"),
    [
        ("nvidia.com/mig-1g.10gb", "Auto", True),
        ("nvidia.com/gpu", "CPU", False),
        ("example.com/dongle", "Auto", False),
        ("example.com/dongle", "CUDA", True),
    ],
)
def test_the_device_follows_the_accelerator_unless_it_is_named(resource: str, device: str, cuda: bool) -> None:
    pool = a_pool(accelerator={"resourceName": resource}, server={"device": device})
    assert (POD["cudaArg"] in the_container(pool)["args"]) is cuda
