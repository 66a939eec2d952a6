from __future__ import annotations

import copy
from typing import Any, cast

import pytest

from encoder_operator.apply import Changes, apply
from encoder_operator.cluster import ChildKind, Cluster
from encoder_operator.errors import ForeignObjectError
from encoder_operator.plan import Plan, plan
from encoder_operator.standing import Standing
from tests.support.memory_cluster import MemoryChildren
from tests.support.pool_objects import a_pool

NOTHING = Standing(revisions=(), templates={})


async def applied(children: MemoryChildren, planned: Plan) -> Changes:
    deployments = await children.list_children(ChildKind.DEPLOYMENT, planned.namespace, planned.pool)
    return await apply(cast(Cluster, children), planned, deployments)


def the_plan(**fields: Any) -> Plan:
    return plan(a_pool(**fields), NOTHING)


async def test_a_new_pool_is_written_in_the_order_of_the_plan() -> None:
    children = MemoryChildren()
    changes = await applied(children, the_plan())
    assert changes.applied == (
        "ServiceAccount/vision-encoder",
        "ConfigMap/vision-identities",
        "Service/vision",
        "PodDisruptionBudget/vision",
        f"Deployment/vision-{the_plan().target}",
    )
    assert changes.pruned == ()


async def test_a_second_apply_writes_nothing() -> None:
    children = MemoryChildren()
    await applied(children, the_plan())
    children.writes.clear()
    assert await applied(children, the_plan()) == Changes(applied=(), pruned=())
    assert children.writes == []


async def test_only_what_changed_is_written() -> None:
    children = MemoryChildren()
    await applied(children, the_plan())
    changes = await applied(children, the_plan(replicas=5))
    assert changes.applied == (f"Deployment/vision-{the_plan().target}",)


async def test_what_somebody_changed_is_put_back() -> None:
    children = MemoryChildren()
    await applied(children, the_plan())
    children.objects[ChildKind.SERVICE, "vision"]["spec"]["selector"] = {"somebody": "else"}
    assert (await applied(children, the_plan())).applied == ("Service/vision",)


async def test_an_old_revision_is_pruned_after_the_new_one_was_applied() -> None:
    children = MemoryChildren()
    old, new = the_plan(), the_plan(image="encoder-server:2")
    await applied(children, old)
    children.writes.clear()
    changes = await applied(children, new)
    assert changes.pruned == (f"Deployment/vision-{old.target}",)
    assert children.writes[-1] == f"delete Deployment/vision-{old.target}"
    assert f"{old.target}.json" not in children.objects[ChildKind.CONFIG_MAP, "vision-identities"]["data"]


async def test_an_object_that_is_already_going_is_not_deleted_again() -> None:
    children = MemoryChildren()
    old = the_plan()
    await applied(children, old)
    going = children.objects[ChildKind.DEPLOYMENT, f"vision-{old.target}"]
    going["metadata"]["deletionTimestamp"] = "2026-11-30T12:00:00Z"
    assert (await applied(children, the_plan(image="encoder-server:2"))).pruned == ()


async def test_a_users_service_of_the_pools_name_is_left_alone_and_named() -> None:
    children = MemoryChildren()
    children.put({"kind": "Service", "metadata": {"name": "vision", "namespace": "models"}, "spec": {}})
    with pytest.raises(ForeignObjectError, match="Service models/vision exists and does not belong") as error:
        await applied(children, the_plan())
    assert children.writes == []
    assert error.value.reason == "InvalidSpec"


async def test_a_child_of_another_pool_with_our_labels_is_not_pruned() -> None:
    children = MemoryChildren()
    await applied(children, the_plan())
    stray = copy.deepcopy(children.objects[ChildKind.CONFIG_MAP, "vision-identities"])
    stray["metadata"] |= {"name": "stray", "ownerReferences": [{"uid": "another", "controller": True}]}
    children.put(stray)
    assert (await applied(children, the_plan())).pruned == ()


async def test_a_child_whose_labels_were_taken_off_is_ours_still() -> None:
    children = MemoryChildren()
    await applied(children, the_plan())
    children.objects[ChildKind.SERVICE, "vision"]["metadata"]["labels"] = {}
    assert (await applied(children, the_plan())).applied == ("Service/vision",)
