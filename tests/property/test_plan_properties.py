from __future__ import annotations

import copy
from typing import Any, cast

from hypothesis import given
from hypothesis import strategies as st

from encoder_operator.apply import Changes, apply
from encoder_operator.cluster import ChildKind, Cluster
from encoder_operator.plan import Plan, plan
from encoder_operator.spec import parse
from encoder_operator.standing import Expected, Revision, Role, Standing
from tests.support.memory_cluster import MemoryChildren
from tests.support.pool_objects import UID, pool_object

POOL_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", fullmatch=True)
SOURCES = st.sampled_from(
    [
        {"persistentVolumeClaim": {"claimName": "weights"}},
        {"persistentVolumeClaim": {"claimName": "weights", "subPath": "qwen"}},
        {"local": {"path": "/models/qwen"}},
    ]
)
IDENTITIES = st.sampled_from(
    [{"policy": "Learn"}, {"policy": "Off"}, {"policy": "Pinned", "pinned": {"fingerprint": "a" * 64}}]
)
SPECS = st.fixed_dictionaries(
    {
        "image": st.sampled_from(["encoder-server:1", "encoder-server:2"]),
        "model": st.fixed_dictionaries({"source": SOURCES, "identity": IDENTITIES}, optional={"processor": SOURCES}),
        "replicas": st.integers(0, 1000),
    },
    optional={
        "imagePullSecrets": st.just([{"name": "registry"}]),
        "resources": st.just({"limits": {"cpu": "0.5", "nvidia.com/gpu": 1}}),
    },
)


@st.composite
def objects(draw: st.DrawFn) -> dict[str, Any]:
    return pool_object(draw(POOL_NAMES), **draw(SPECS))


@st.composite
def standings(draw: st.DrawFn, name: str) -> Standing:
    """What may stand: up to three revisions that this pool had, some without their templates."""
    revisions, templates = [], {}
    for said in draw(st.lists(SPECS, max_size=3)):
        earlier = plan(parse(pool_object(name, **said)), Standing(revisions=(), templates={}))
        revisions.append(
            Revision(
                hash=earlier.target,
                role=draw(st.sampled_from(Role)),
                expected=draw(st.sampled_from([None, Expected(fingerprint="b" * 64, signature=None)])),
                distinct_identities=draw(st.integers(0, 3)),
                reason="AsExpected",
                since="2026-11-30T12:00:00Z",
                scale=None,
            )
        )
        if draw(st.booleans()):
            templates[earlier.target] = earlier.objects[-1]["spec"]["template"]
    return Standing(revisions=tuple(revisions), templates=templates)


@st.composite
def situations(draw: st.DrawFn) -> tuple[dict[str, Any], Standing]:
    pool = draw(objects())
    return pool, draw(standings(pool["metadata"]["name"]))


def turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: turned(below) for key, below in reversed(value.items())}
    return [turned(each) for each in value] if isinstance(value, list) else value


@given(situations())
def test_a_plan_depends_on_its_arguments_alone_and_changes_none(situation: tuple[dict[str, Any], Standing]) -> None:
    pool, standing = situation
    before = copy.deepcopy(standing)
    assert plan(parse(pool), standing) == plan(parse(turned(pool)), standing)
    assert standing == before


@given(situations())
def test_no_two_objects_have_one_identity(situation: tuple[dict[str, Any], Standing]) -> None:
    pool, standing = situation
    planned = plan(parse(pool), standing).objects
    assert len({(each["kind"], each["metadata"]["name"]) for each in planned}) == len(planned)


@given(situations())
def test_every_object_has_an_owner_and_labels(situation: tuple[dict[str, Any], Standing]) -> None:
    pool, standing = situation
    for each in plan(parse(pool), standing).objects:
        metadata = each["metadata"]
        assert [owner["uid"] for owner in metadata["ownerReferences"]] == [UID]
        assert metadata["labels"]["app.kubernetes.io/managed-by"] == "encoderpool-operator"
        assert metadata["labels"]["encoderpool.io/pool"] == pool["metadata"]["name"]
        assert metadata["namespace"] == "models"


@given(situations())
def test_a_live_template_is_never_changed(situation: tuple[dict[str, Any], Standing]) -> None:
    pool, standing = situation
    for each in plan(parse(pool), standing).objects:
        revision = each["metadata"]["labels"].get("encoderpool.io/revision")
        if revision in standing.templates:
            assert each["spec"]["template"] == standing.templates[revision]


@given(situations(), situations())
async def test_from_any_plan_to_any_other_one_apply_is_enough(
    first: tuple[dict[str, Any], Standing], second: tuple[dict[str, Any], Standing]
) -> None:
    pool, standing = second
    children = MemoryChildren()
    earlier = first[0] | {"metadata": pool["metadata"]}
    await _apply(children, plan(parse(earlier), Standing(revisions=(), templates={})))
    wanted = plan(parse(pool), standing)
    await _apply(children, wanted)
    assert set(children.objects) == {_identity(each) for each in wanted.objects}
    assert await _apply(children, wanted) == Changes(applied=(), pruned=())


def _identity(manifest: dict[str, Any]) -> tuple[Any, str]:
    return ChildKind(manifest["kind"]), manifest["metadata"]["name"]


async def _apply(children: MemoryChildren, planned: Plan) -> Changes:
    deployments = await children.list_children(ChildKind.DEPLOYMENT, planned.namespace, planned.pool)
    return await apply(cast(Cluster, children), planned, deployments)
