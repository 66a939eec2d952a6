from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from encoder_operator import manifests, names
from encoder_operator.plan import Plan, plan
from encoder_operator.spec import EncoderPool
from encoder_operator.standing import Expected, Revision, Role, Standing
from tests.support.pool_objects import CLAIM, UID, a_pool

NOTHING = Standing(revisions=(), templates={})
OLD, NEW = Expected(fingerprint="a" * 64, signature=None), "b" * 64


def stands(
    pool: EncoderPool, *, expected: Expected | None = None, changes: Mapping[str, Any] | None = None
) -> Standing:
    """This pool's revision, and no other, stands; its template is what was planned, with these changes."""
    planned = plan(pool, NOTHING)
    template = deployments(planned)[planned.target]["spec"]["template"]
    revision = Revision(
        hash=planned.target,
        role=Role.CURRENT,
        expected=expected,
        distinct_identities=1,
        reason="AsExpected",
        since="2026-11-30T12:00:00Z",
        scale=None,
    )
    return Standing(revisions=(revision,), templates={planned.target: template | dict(changes or {})})


def deployments(planned: Plan) -> dict[str, dict[str, Any]]:
    found = [each for each in planned.objects if each["kind"] == "Deployment"]
    return {each["metadata"]["labels"]["encoderpool.io/revision"]: each for each in found}


def pinned(fingerprint: str) -> Mapping[str, Any]:
    return CLAIM | {"identity": {"policy": "Pinned", "pinned": {"fingerprint": fingerprint}}}


def test_a_new_pool_gets_one_deployment_and_what_it_needs_first() -> None:
    planned = plan(a_pool(replicas=3), NOTHING)
    assert [each["kind"] for each in planned.objects] == [
        "ServiceAccount",
        "ConfigMap",
        "Service",
        "PodDisruptionBudget",
        "Deployment",
    ]
    assert planned.revisions == (planned.target,) == (names.revision_hash(a_pool().spec),)
    assert deployments(planned)[planned.target]["spec"]["replicas"] == 3


def test_while_a_new_revision_comes_up_the_old_one_keeps_all_its_replicas() -> None:
    before, after = a_pool(replicas=3), a_pool(replicas=3, image="encoder-server:2")
    planned = plan(after, stands(before))
    assert planned.revisions == (names.revision_hash(before.spec), planned.target)
    assert [each["spec"]["replicas"] for each in deployments(planned).values()] == [3, 3]


def test_a_revision_that_no_longer_stands_is_not_planned() -> None:
    after = a_pool(image="encoder-server:2")
    assert list(deployments(plan(after, stands(after)))) == [names.revision_hash(after.spec)]


def test_replicas_go_to_every_live_revision() -> None:
    planned = plan(a_pool(replicas=0, image="encoder-server:2"), stands(a_pool(replicas=3)))
    assert [each["spec"]["replicas"] for each in deployments(planned).values()] == [0, 0]


def test_a_live_revisions_template_is_frozen_whatever_this_release_would_write() -> None:
    pool = a_pool()
    frozen = {"spec": {"containers": [{"name": "encoder", "args": ["as", "it", "was"]}]}}
    planned = plan(pool, stands(pool, changes=frozen))
    made = deployments(planned)[planned.target]
    assert made["spec"]["template"]["spec"] == frozen["spec"]
    assert manifests.applied_template(made) == made["spec"]["template"]


def test_a_template_survives_the_annotation_that_keeps_it() -> None:
    made = deployments(plan(a_pool(), NOTHING)).popitem()[1]
    assert manifests.applied_template(made) == made["spec"]["template"]


def test_a_broken_annotation_is_no_template() -> None:
    for text in ("", "{", "[]", "{}"):
        broken = {"metadata": {"annotations": {"encoderpool.io/applied-template": text}}}
        assert manifests.applied_template(broken) is None
    assert manifests.applied_template({"metadata": {}}) is None


def test_an_earlier_revision_without_its_template_is_left_out() -> None:
    lost = Standing(revisions=stands(a_pool()).revisions, templates={})
    planned = plan(a_pool(image="encoder-server:2"), lost)
    assert planned.revisions == (planned.target,)


def test_the_target_without_its_template_is_written_anew() -> None:
    lost = Standing(revisions=stands(a_pool()).revisions, templates={})
    assert deployments(plan(a_pool(), lost)) == deployments(plan(a_pool(), NOTHING))


def test_each_live_revision_has_its_own_expected_identity() -> None:
    before, after = a_pool(), a_pool(image="encoder-server:2")
    planned = plan(after, stands(before, expected=OLD))
    told = {revision: json.loads(text)["fingerprint"] for revision, text in planned.identities.items()}
    assert told == {names.revision_hash(before.spec): OLD.fingerprint, planned.target: None}


def test_a_pin_that_moves_with_the_image_does_not_hold_the_replicas_that_serve() -> None:
    before = a_pool(model=pinned(OLD.fingerprint))
    after = a_pool(model=pinned(NEW), image="encoder-server:2")
    planned = plan(after, stands(before, expected=OLD))
    told = {revision: json.loads(text)["fingerprint"] for revision, text in planned.identities.items()}
    assert told == {names.revision_hash(before.spec): OLD.fingerprint, planned.target: NEW}


def test_a_pin_wins_over_what_was_learned_of_the_same_revision() -> None:
    pool = a_pool(model=pinned(NEW))
    planned = plan(pool, stands(pool, expected=OLD))
    assert json.loads(planned.identities[planned.target])["fingerprint"] == NEW


def test_the_deployment_does_not_select_on_serving_so_that_a_cordon_keeps_the_pod() -> None:
    planned = plan(a_pool(), NOTHING)
    assert deployments(planned)[planned.target]["spec"]["selector"]["matchLabels"] == {
        "encoderpool.io/pool": "vision",
        "encoderpool.io/revision": planned.target,
    }


def test_every_object_belongs_to_the_pool() -> None:
    for each in plan(a_pool(), NOTHING).objects:
        (owner,) = each["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (UID, True, False)


def test_pull_secrets_are_named_on_the_pod_and_never_read() -> None:
    planned = plan(a_pool(imagePullSecrets=[{"name": "registry"}]), NOTHING)
    pod = deployments(planned)[planned.target]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert "Secret" not in {each["kind"] for each in planned.objects}


def test_a_cordoned_replica_does_not_block_a_drain() -> None:
    planned = plan(a_pool(disruption={"maxUnavailable": "25%"}), NOTHING)
    budget = next(each for each in planned.objects if each["kind"] == "PodDisruptionBudget")
    assert (budget["apiVersion"], budget["metadata"]["name"]) == ("policy/v1", "vision")
    assert budget["spec"] == {
        "selector": {"matchLabels": {"encoderpool.io/pool": "vision"}},
        "maxUnavailable": "25%",
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
    }
