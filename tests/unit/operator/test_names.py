from __future__ import annotations

import re
from typing import Any

import pytest

from encoder_operator import names
from tests.support.pool_objects import CLAIM, a_pool

REVISION = "5d41402abc"
LONG = "a" * 63
FINGERPRINT = "9f2c1a7be0d4436a8b1f0c2d3e4f5a6b7c8d9e0f1a2b3c4d5e6f708192a3b4c5"


def revision(**fields: Any) -> str:
    return names.revision_hash(a_pool(**fields).spec)


def test_a_revision_hash_is_the_same_in_every_release() -> None:
    # A change here rolls every pool of every user.
    assert revision() == "d767585167"


@pytest.mark.parametrize(
    "fields",
    [
        {"image": "encoder-server:2"},
        {"imagePullPolicy": "Always"},
        {"imagePullSecrets": [{"name": "registry"}]},
        {"model": {"source": {"local": {"path": "/weights"}}}},
        {"model": CLAIM | {"encoder": "qwen2_5_vl"}},
        {"model": CLAIM | {"processor": {"local": {"path": "/p"}}}},
        {"modalities": [{"type": "image", "maxItems": 1}]},
        {"resources": {"limits": {"cpu": 1}}},
        {"server": {"maxInFlight": 1}},
        {"server": {"deadlineSeconds": 1}},
        {"server": {"device": "CUDA"}},
        {"server": {"urlFetch": "Public"}},
        {"server": {"urlFetch": "Listed", "urlFetchHosts": ["media.storage.svc"]}},
        {"integrity": {"probePeriodSeconds": 60}},
        {"accelerator": {"resourceName": "nvidia.com/gpu"}},
    ],
    ids=str,
)
def test_what_makes_a_replica_another_makes_another_revision(fields: dict[str, Any]) -> None:
    assert revision(**fields) != revision()


@pytest.mark.parametrize(
    "fields",
    [
        {"replicas": 5},
        {"integrity": {"minChecks": 1, "probePeriodSeconds": 300}},
        {"quarantine": {"baseSeconds": 1}},
        {"disruption": {"maxUnavailable": 2}},
        {"rollout": {"strategy": "Surge"}},
        {"model": CLAIM | {"identity": {"policy": "Off"}}},
        {"model": CLAIM | {"identity": {"policy": "Pinned", "pinned": {"fingerprint": FINGERPRINT}}}},
        {"resources": {"limits": {}}},
    ],
    ids=str,
)
def test_what_leaves_replicas_as_they_are_leaves_the_revision(fields: dict[str, Any]) -> None:
    assert revision(**fields) == revision()


def test_a_revision_does_not_depend_on_the_pools_name_or_on_the_order_of_keys() -> None:
    turned = {"limits": {"memory": "1Gi", "cpu": 1}, "requests": {"cpu": 1}}
    straight = {"requests": {"cpu": 1}, "limits": {"cpu": 1, "memory": "1Gi"}}
    assert revision(name="other", resources=turned) == revision(resources=straight)


@pytest.mark.parametrize("pool", ["v", "vision", "a" * 35, "a" * 36, LONG])
def test_every_name_fits_where_kubernetes_puts_it(pool: str) -> None:
    assert len(names.deployment_name(pool, REVISION)) <= 46
    for name in (
        names.deployment_name(pool, REVISION),
        names.service_name(pool),
        names.service_account_name(pool),
        names.identities_name(pool),
    ):
        assert len(name) <= 63
        assert re.fullmatch(r"[a-z]([-a-z0-9]*[a-z0-9])?", name)


def test_a_short_name_is_kept_readable() -> None:
    assert names.deployment_name("vision", REVISION) == "vision-5d41402abc"
    assert names.service_account_name("vision") == "vision-encoder"


def test_long_names_with_one_beginning_stay_apart() -> None:
    assert names.deployment_name(LONG, REVISION) != names.deployment_name(LONG[:-1] + "b", REVISION)
    assert names.identities_name(LONG) != names.identities_name(LONG[:-1] + "b")
