"""A spec change brings the new revision up in full; the old one serves until then, and is pruned."""

from __future__ import annotations

from tests.support import kube, pictures
from tests.support.pools import SERVER_IMAGE, Ground, pool, reason_is, service_address
from tests.support.router import Router
from tests.support.truth import Truth
from tests.support.waiting import until

POOL = "rolling"


def test_a_spec_change_brings_the_new_revision_up_in_full_before_the_old_one_goes(ground: Ground, truth: Truth) -> None:
    wanted = pool(POOL, ground.namespace, image=SERVER_IMAGE, encoder="Auto")
    wanted["spec"]["replicas"] = 2
    kube.apply(wanted)
    until("the pool to be Ready", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=240)
    (before,) = revisions(ground)
    address, port = service_address(POOL, ground.namespace)
    album = pictures.album(5, 20, smallest=30, largest=300)
    with Router(address=address, port=port, pictures=album, threads=2, pause=0.1, bound=20_000) as router:
        wanted["spec"]["server"] = {"maxInFlight": 32}
        kube.apply(wanted)
        until("both revisions", lambda: len(revisions(ground)) == 2, seconds=30)
        until("the old one to be pruned", lambda: old_is_gone_or_serves_in_full(ground, before), seconds=180)
        until("the pool to be as expected", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=60)

    (after,) = revisions(ground)
    assert after != before
    found = kube.get("encoderpool", POOL, ground.namespace)
    assert found
    assert found["status"]["revision"] == after
    assert not router.failed(), f"{len(router.failed())} calls failed: {router.failed()[0]}"
    assert truth.check(router.accepted()) > 50


def revisions(ground: Ground) -> set[str]:
    """The revisions that have a Deployment."""
    found = kube.listed("deployments", ground.namespace, f"encoderpool.io/pool={POOL}")
    return {str(each["metadata"]["labels"]["encoderpool.io/revision"]) for each in found}


def old_is_gone_or_serves_in_full(ground: Ground, old: str) -> bool:
    """Whether the old revision is gone; until the new one is Ready in full it must serve in full."""
    ready = {
        str(each["metadata"]["labels"]["encoderpool.io/revision"]): each.get("status", {}).get("readyReplicas", 0)
        for each in kube.listed("deployments", ground.namespace, f"encoderpool.io/pool={POOL}")
    }
    if old in ready:
        new = [count for revision, count in ready.items() if revision != old]
        assert ready[old] == 2 or new == [2], f"Ready replicas by revision: {ready}"
    return old not in ready
