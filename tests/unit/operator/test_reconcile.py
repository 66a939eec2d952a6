"""Reconcile: whole stories of one pool."""

from __future__ import annotations

import copy
import json
import shlex

import pytest

from encoder_operator import vocabulary
from encoder_operator.cluster import ChildKind, JsonObject
from encoder_operator.errors import ForbiddenError, ForeignObjectError, InvalidSpecError
from encoder_operator.reconcile import reconcile
from tests.support.memory_world import MemoryWorld, a_ready_pool
from tests.support.replicas import FINGERPRINT, OTHER_FINGERPRINT


def one_mismatches(world: MemoryWorld) -> None:
    world.server(0).fault = True
    world.count(0, good=80, bad=40, media=8)
    world.count(1, good=120, bad=0, media=0)
    world.count(2, good=120, bad=0, media=0)


async def test_a_new_pool_learns_admits_and_serves() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    status = world.pool["status"]
    assert status["fingerprint"] == FINGERPRINT
    assert [each["role"] for each in status["revisions"]] == ["Current"]
    assert (status["replicas"], status["servingReplicas"], status["heldReplicas"]) == (3, 3, 0)
    assert status["selector"] == "encoderpool.io/pool=vision"
    digests = {
        pod["metadata"]["annotations"][vocabulary.ANNOTATION_EXPECTED_DIGEST] for pod in world.pod_objects.values()
    }
    assert len(digests) == 1


async def test_an_unchanged_world_is_written_to_no_more() -> None:
    world = await a_ready_pool()
    written = world.writes_so_far()
    await world.passes(5, seconds=3.0)
    assert world.writes_so_far() == written


async def test_a_replica_that_mismatches_is_cordoned_repaired_and_released() -> None:
    world = await a_ready_pool()
    one_mismatches(world)
    await world.passes(2)
    assert (world.label(0), world.record(0)["reason"], world.record(0)["times"]) == ("false", "TokenMismatch", 1)
    assert world.condition()["reason"] == "TokenMismatch"
    assert sorted(world.pod_objects)[0] in world.condition()["message"]
    assert world.record(0)["sizes"] == [{"modality": "image", "width": 640, "height": 480}]
    world.server(0).fault = False
    await world.passes(6)
    assert (world.label(0), world.record(0)["state"], world.record(0)["times"]) == ("true", "Released", 1)
    assert world.condition()["reason"] == "AsExpected"
    assert world.server(0).obeyed == ["restart-1-1", "probe-1-1"]


async def test_while_the_cause_stays_each_attempt_waits_longer() -> None:
    world = await a_ready_pool(quarantine={"baseSeconds": 5, "maxSeconds": 15, "maxRestarts": 100})
    one_mismatches(world)
    await world.passes(60)
    assert world.label(0) == "false"
    assert world.server(0).obeyed[:6] == [
        *("restart-1-1", "probe-1-1"),
        *("restart-1-2", "probe-1-2"),
        *("restart-1-3", "probe-1-3"),
    ]
    world.server(0).fault = False
    await world.passes(25)
    assert (world.label(0), world.record(0)["times"]) == ("true", 1)


async def test_a_second_cordon_counts_once_more() -> None:
    world = await a_ready_pool()
    one_mismatches(world)
    await world.passes(2)
    world.server(0).fault = False
    await world.passes(8)
    world.now += 60
    one_mismatches(world)
    await world.passes(2)
    assert (world.record(0)["times"], world.record(0)["state"]) == (2, "Cordoned")


async def test_a_size_that_fails_on_all_costs_no_replica_however_its_requests_are_spread() -> None:
    world = await a_ready_pool()
    for index in range(3):
        world.server(index).fault = True
    for hit in range(3):
        for index in range(3):
            bad = 40 if index == hit else 0
            world.count(index, good=120 - bad, bad=bad, media=bad)
        await world.passes(8, seconds=0.5)
        assert world.condition()["reason"] == "RevisionFault"
        world.now += 60
        world.counters.clear()
    assert [world.label(index) for index in range(3)] == ["true", "true", "true"]
    assert [event["reason"] for event in world.events.values()].count("RevisionFault") == 3


async def test_when_all_mismatch_nobody_is_touched() -> None:
    world = await a_ready_pool()
    for index in range(3):
        world.count(index, good=80, bad=40, media=8)
    await world.passes(5, seconds=0.0)
    assert world.condition()["reason"] == "RevisionFault"
    assert {world.label(index) for index in range(3)} == {"true"}
    assert all(server.obeyed == [] for server in world.servers.values())


async def test_a_held_replica_is_reported_and_its_label_untouched() -> None:
    world = await a_ready_pool()
    world.server(0).boot()
    world.server(0).probe_passes = False
    world.live()
    await world.passes(3)
    assert (world.label(0), world.record(0)) == ("true", {})
    assert world.condition()["reason"] == "ProbeFailed"
    assert "item 2 (image 112x112) promised 16, produced 64" in world.condition()["message"]
    assert world.pool is not None
    assert (world.pool["status"]["heldReplicas"], world.pool["status"]["servingReplicas"]) == (1, 2)


async def test_a_persons_cordon_is_left_alone() -> None:
    world = await a_ready_pool()
    world.pod(0)["metadata"]["labels"][vocabulary.LABEL_SERVING] = "false"
    world.live()
    await world.passes(20, seconds=10.0)
    assert (world.label(0), world.record(0)) == ("false", {})
    assert world.condition()["status"] == "False"


async def test_a_label_set_back_by_hand_releases() -> None:
    world = await a_ready_pool()
    one_mismatches(world)
    await world.passes(2)
    world.pod(0)["metadata"]["labels"][vocabulary.LABEL_SERVING] = "true"
    world.server(0).fault = False
    world.counters.clear()
    await world.passes(2)
    assert (world.label(0), world.record(0)["state"]) == ("true", "Released")


async def test_a_new_revision_serves_before_the_old_one_goes() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    before = {pod["metadata"]["name"] for pod in world.pod_objects.values()}
    world.pool["spec"]["image"] = "encoder-server:2"
    world.pool["metadata"]["generation"] = 2
    await world.passes(1)
    assert before < set(world.pod_objects), "the old replicas serve on beside the new ones"
    assert [each["role"] for each in world.pool["status"]["revisions"]] == ["Current", "Target"]
    assert world.condition("Progressing")["status"] == "True"
    await world.passes(6)
    assert before.isdisjoint(world.pod_objects)
    assert len(world.pod_objects) == 3
    assert world.condition()["reason"] == "AsExpected"
    assert world.condition()["observedGeneration"] == 2


async def test_back_to_the_old_revision_in_the_midst_of_a_rollout() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    before = set(world.pod_objects)
    world.pool["spec"]["image"] = "encoder-server:2"
    await world.passes(1)
    world.pool["spec"]["image"] = "encoder-server:1"
    await world.passes(3)
    assert set(world.pod_objects) == before
    assert [each["role"] for each in world.pool["status"]["revisions"]] == ["Current"]


async def test_a_lost_status_is_adopted_from_the_children_and_nothing_is_relearned() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    del world.pool["status"]
    for server in world.servers.values():
        server.fingerprint = OTHER_FINGERPRINT
    await world.passes(2)
    assert world.pool["status"]["fingerprint"] == FINGERPRINT
    assert world.condition()["reason"] == "ReferenceSuspect"


async def test_a_pool_made_anew_adopts_nothing_of_the_one_before_it() -> None:
    """Its checkpoint may be another by now, and what was learned of the old one would hold every replica."""
    world = await a_ready_pool()
    assert world.pool is not None
    del world.pool["status"]
    world.pool["metadata"]["uid"] = "another"
    for server in world.servers.values():
        server.fingerprint = OTHER_FINGERPRINT
    with pytest.raises(ForeignObjectError):
        await world.passes(1)
    assert world.condition()["reason"] == "InvalidSpec"
    config_map = copy.deepcopy(world.objects[ChildKind.CONFIG_MAP, "vision-identities"])
    read = world.get_config_map

    async def read_just_before_it_goes(namespace: str, name: str) -> JsonObject | None:
        world.get_config_map = read  # type: ignore[method-assign]
        world.objects.clear()
        return config_map

    world.get_config_map = read_just_before_it_goes  # type: ignore[method-assign]
    await world.passes(6)
    assert world.pool["status"]["fingerprint"] == OTHER_FINGERPRINT
    assert world.condition()["reason"] == "AsExpected"


async def test_a_suspect_reference_says_what_a_person_may_type_and_that_helps() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    for index in (0, 1):
        world.server(index).boot()
        world.server(index).fingerprint = OTHER_FINGERPRINT
    world.live()
    await world.passes(3)
    for kind in ("Ready", "IdentityConsistent"):
        told = world.condition(kind)
        assert told["reason"] == "ReferenceSuspect"
        command = told["message"].partition("if what they measured is right: ")[2].partition("; if not, ")[0]
        assert command.startswith("kubectl -n models patch encoderpool vision --type=merge -p ")
    typed = json.loads(shlex.split(command)[-1])
    world.pool["spec"]["model"]["identity"] |= typed["spec"]["model"]["identity"]
    await world.passes(4)
    assert world.pool["status"]["fingerprint"] == OTHER_FINGERPRINT
    assert (world.pool["status"]["servingReplicas"], world.pool["status"]["heldReplicas"]) == (2, 1)
    assert world.condition()["reason"] == "FingerprintDrift"


async def test_teachers_that_disagree_teach_nothing() -> None:
    world = MemoryWorld()
    await world.passes(1)
    for index, fingerprint in enumerate(("aa" * 32, "bb" * 32, "cc" * 32)):
        world.server(index).fingerprint = fingerprint
    world.live()
    await world.passes(2)
    assert world.pool is not None
    assert "fingerprint" not in world.pool["status"]
    assert world.condition()["reason"] == "ReferenceSuspect"
    world.server(2).fingerprint = "aa" * 32
    await world.passes(4)
    assert world.pool["status"]["fingerprint"] == "aa" * 32
    assert world.condition()["reason"] == "FingerprintDrift"


@pytest.mark.parametrize("kill_at", [0, *range(1, 8)])
async def test_from_off_to_learn_nobody_stops_serving(kill_at: int) -> None:
    world = MemoryWorld()
    assert world.pool is not None
    identity = world.pool["spec"]["model"]["identity"]
    identity["policy"] = "Off"
    await world.passes(4)
    assert world.pool["status"]["servingReplicas"] == 3
    identity["policy"] = "Learn"
    for _ in range(8):
        await world.passes_with_a_kill(1, kill_at, after_write=True)
        assert world.pool["status"]["servingReplicas"] == 3
        assert all(pod["status"]["conditions"][0]["status"] == "True" for pod in world.pod_objects.values())
    assert world.pool["status"]["fingerprint"] == FINGERPRINT
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "AsExpected")


@pytest.mark.parametrize("kill_at", [0, *range(1, 8)])
async def test_a_wrong_pin_that_is_taken_back_is_not_kept_as_if_learned(kill_at: int) -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    identity = world.pool["spec"]["model"]["identity"]
    identity |= {"policy": "Pinned", "pinned": {"fingerprint": OTHER_FINGERPRINT}}
    await world.passes(3)
    assert world.condition()["reason"] == "RevisionFault"
    assert world.pool["status"]["heldReplicas"] == 3
    identity["policy"] = "Learn"
    del identity["pinned"]
    await world.passes_with_a_kill(6, kill_at, after_write=True)
    assert world.pool["status"]["fingerprint"] == FINGERPRINT
    assert (world.condition()["status"], world.condition()["reason"]) == ("True", "AsExpected")


async def test_a_right_pin_that_is_taken_back_is_kept_though_most_have_drifted() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    identity = world.pool["spec"]["model"]["identity"]
    identity |= {"policy": "Pinned", "pinned": {"fingerprint": FINGERPRINT}}
    for index in (0, 1):
        world.server(index).fingerprint = OTHER_FINGERPRINT
    await world.passes(3)
    identity["policy"] = "Learn"
    del identity["pinned"]
    await world.passes(4)
    assert world.pool["status"]["fingerprint"] == FINGERPRINT
    assert world.condition()["reason"] == "ReferenceSuspect"


async def test_an_invalid_spec_is_told_with_its_field() -> None:
    world = await a_ready_pool()
    assert world.pool is not None
    world.pool["spec"]["replicas"] = "three"
    world.pool["metadata"]["generation"] = 2
    with pytest.raises(InvalidSpecError):
        await reconcile("models", "vision", world.as_world())
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "InvalidSpec")
    assert "spec.replicas" in world.condition()["message"]
    assert world.pool["status"]["observedGeneration"] == 2
    assert len(world.pod_objects) == 3


async def test_what_a_quota_forbids_is_told() -> None:
    world = MemoryWorld()

    async def refuse(manifest: JsonObject) -> JsonObject:
        raise ForbiddenError(403, 'services "vision" is forbidden: exceeded quota')

    world.apply_child = refuse  # type: ignore[method-assign]
    with pytest.raises(ForbiddenError):
        await world.passes(1)
    assert (world.condition()["status"], world.condition()["reason"]) == ("False", "DeadlineExceeded")
    assert "exceeded quota" in world.condition()["message"]


async def test_a_deleted_pool_needs_no_further_look() -> None:
    world = await a_ready_pool()
    world.pool = None
    assert await reconcile("models", "vision", world.as_world()) is None


async def test_pools_children_are_the_plans() -> None:
    world = await a_ready_pool()
    kinds = sorted(kind.value for kind, _ in world.objects)
    assert kinds == ["ConfigMap", "ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"]
    assert (ChildKind.SERVICE, "vision") in world.objects
