"""Properties of recall: whatever a status and the children say, what stands is sound, and settles at once."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from encoder_operator import history, names
from encoder_operator.cordon import cordon
from encoder_operator.judge import judge
from encoder_operator.plan import plan
from encoder_operator.recall import Children, recall
from encoder_operator.spec import EncoderPool, parse
from encoder_operator.standing import Kept, Role, Standing
from encoder_operator.status import status
from tests.support.pool_objects import a_pool, pool_object
from tests.support.replicas import FINGERPRINT, NOW, observed

POOLS = {names.revision_hash(each.spec): each for each in (a_pool(image=f"encoder-server:{tag}") for tag in range(4))}
HASHES = sorted(POOLS)
SINCE = "2027-01-15T08:00:00Z"


def deployment(revision: str) -> dict[str, Any]:
    found = plan(POOLS[revision], Standing(revisions=(), templates={})).objects
    return next(each for each in found if each["kind"] == "Deployment")


def entries() -> st.SearchStrategy[list[dict[str, Any]]]:
    made = st.builds(
        lambda revision, role, attempts: (
            {
                "hash": revision,
                "role": role.value,
                "fingerprint": FINGERPRINT,
                "reason": "AsExpected",
                "since": SINCE,
            }
            | ({"attempts": attempts, "replacing": "uid-a", "replacedAt": SINCE} if attempts else {})
        ),
        st.sampled_from(HASHES),
        st.sampled_from(Role),
        st.integers(0, 3),
    )
    return st.lists(made, max_size=4, unique_by=lambda each: str(each["hash"]))


KEPT = st.lists(st.sampled_from(HASHES), max_size=3, unique=True).map(
    lambda found: tuple(
        Kept(hash=each, expected=None, template={"spec": {}}, since=f"2027-01-15T0{at}:00:00Z")
        for at, each in enumerate(found)
    )
)
RETRIES = st.sampled_from([None, *HASHES, "nonsense"])


@given(st.sampled_from(range(4)), entries(), st.sets(st.sampled_from(HASHES)), KEPT, RETRIES, RETRIES)
def test_what_stands_is_sound_and_settles_at_once(
    tag: int,
    told: list[dict[str, Any]],
    deployed: set[str],
    kept: tuple[Kept, ...],
    retry: str | None,
    retried: str | None,
) -> None:
    body = pool_object(image=f"encoder-server:{tag}")
    body["metadata"]["annotations"] = {"encoderpool.io/retry": retry} if retry else {}
    body["status"] = {"revisions": told} | ({"retried": retried} if retried else {})
    children = Children(
        deployments=[deployment(each) for each in sorted(deployed)], identities={}, history=history.render(kept)
    )
    found = recall(parse(body), children, NOW)
    assert 1 <= len(found.revisions) <= 2
    assert len([each for each in found.revisions if each.role is not Role.TARGET]) <= 1
    everything = [each.hash for each in (*found.revisions, *found.past.rejected)]
    assert len(everything) == len(set(everything))
    assert not {each.hash for each in found.past.kept} & {each.hash for each in found.past.rejected}
    planned = plan(parse(body), found)
    assert set(planned.revisions) <= {each.hash for each in found.revisions} | {planned.target}
    assert planned.revisions, "something is always there to serve"

    again = body | {"status": written(parse(body), found)}
    # What is not planned is gone by the time at which a status is written.
    left = [deployment(each) for each in sorted(deployed & set(planned.revisions))]
    data = history.render(found.past.kept)
    after = recall(parse(again), Children(deployments=left, identities={}, history=data), NOW + 60)
    assert (after.revisions, after.past) == (found.revisions, found.past)


def written(pool: EncoderPool, standing: Standing) -> dict[str, Any]:
    """The status that tells these decisions."""
    world = observed([])
    judgement = judge(pool, standing, world)
    return status(pool, standing, world, judgement, cordon(pool, standing, world, judgement))
