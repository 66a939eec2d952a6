"""A replica whose encoder truncates large pictures is found by its own counters, cordoned, and let back when good."""

from __future__ import annotations

import datetime
import http.client
import pathlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.support import kube, pictures, prometheus
from tests.support.pools import (
    EVALUATION_SECONDS,
    TRUNCATING_IMAGE,
    Ground,
    cordon_record,
    identity,
    pool,
    reason_is,
    service_address,
    serving_label,
)
from tests.support.router import Attempt, Call, Router, ask
from tests.support.truth import Truth
from tests.support.waiting import until

POOL = "drifting"
# The tests' encoder truncates what has more rows than this (tests/e2e/truncating_encoder).
LARGEST_WHOLE = 120
SMALL = pictures.album(2, 25, smallest=40, largest=200)
LARGE = pictures.album(3, 25, smallest=360, largest=520)


@dataclass(slots=True)
class Story:
    """What the tests of this module hand on to each other."""

    router: Router
    victim: kube.Object = field(default_factory=dict)
    started: float = 0.0


@pytest.fixture(scope="module")
def story(ground: Ground, truth: Truth) -> Iterator[Story]:
    """Three good replicas under traffic of small and large pictures; every accepted embedding is the true one."""
    (ground.folder / "faults").mkdir(mode=0o755)
    kube.apply(pool(POOL, ground.namespace, image=TRUNCATING_IMAGE, encoder="truncating"))
    until("the pool to be Ready", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=240)
    address, port = service_address(POOL, ground.namespace)
    with Router(address=address, port=port, pictures=SMALL + LARGE, threads=4, pause=0.1, bound=50_000) as router:
        yield Story(router=router)
    assert truth.check(router.accepted()) > 1000


def test_a_truncating_replica_fails_the_large_pictures_alone_and_is_cordoned(ground: Ground, story: Story) -> None:
    story.victim = victim = kube.pods(POOL, ground.namespace)[0]
    address = victim["status"]["podIP"]
    until("enough traffic to compare with", lambda: len(story.router.accepted()) > 150, seconds=120)
    with KeptOpen(address) as kept:
        story.started = time.time()
        fault(ground, victim).touch()
        until("the replica to be cordoned", lambda: cordoned(ground, victim), seconds=90)
        until("its endpoint to be gone", lambda: address not in kube.endpoints(POOL, ground.namespace), seconds=5)
        refusal = until("the open connection to be refused and closed", lambda: kept.refusal, seconds=15)

    assert refusal.status == 503
    assert refusal.code in ("cordoned", "draining")
    assert kept.closed, "after its 503 the server closed the connection"
    assert reason_is(POOL, ground.namespace, "TokenMismatch", victim["metadata"]["name"])
    refused = [(call, one) for call, one in story.router.attempts(story.started) if one.status == 502]
    assert refused, "somebody met the truncating replica"
    assert all(names_only_large_pictures(call, one) for call, one in refused)
    assert not story.router.failed(), "a router's second try found a good replica, every time"


def test_the_mismatches_are_counted_in_prometheus(ground: Ground, story: Story) -> None:
    name = story.victim["metadata"]["name"]
    mine = f'encoder_token_checks_total{{pod="{name}",source="fresh",result="count"}}'
    others = "|".join(
        pod["metadata"]["name"] for pod in kube.pods(POOL, ground.namespace) if pod["metadata"]["name"] != name
    )
    peers = f'encoder_token_checks_total{{pod=~"{others}",source="fresh",result="count"}}'
    assert prometheus.value(f"max_over_time({mine}[5m])") >= 3
    assert prometheus.value(f"max_over_time({peers}[5m])") == 0


def test_the_cordon_came_within_three_evaluations_of_enough_evidence(ground: Ground, story: Story) -> None:
    since = moment(cordon_record(current(ground, story.victim))["since"])
    enough = first_window_with_enough(ground, story)
    # One of them is for a peer's probe of the sizes that failed.
    assert since - enough <= 3 * EVALUATION_SECONDS, f"enough evidence stood {since - enough:.1f} s before the cordon"


def test_while_the_cause_stays_the_failed_sizes_fail_the_probe_and_it_stays_cordoned(
    ground: Ground, story: Story
) -> None:
    sizes = {(each["width"], each["height"]) for each in cordon_record(current(ground, story.victim))["sizes"]}
    assert sizes <= {(each.width, each.height) for each in LARGE}

    def failed_probe() -> bool:
        said = identity(current(ground, story.victim))
        probe = said["probe"] or {}
        failed = {(item["width"], item["height"]) for item in probe.get("items", []) if item["result"] == "count"}
        return probe.get("orderId") is not None and probe["result"] == "failed" and failed <= sizes

    until("a probe of the failed sizes to fail", lambda: ask_identity(failed_probe), seconds=120)
    until("a second attempt", lambda: cordon_record(current(ground, story.victim))["attempt"] >= 2, seconds=60)
    assert cordoned(ground, current(ground, story.victim))
    pod = current(ground, story.victim)
    assert pod["metadata"]["uid"] == story.victim["metadata"]["uid"], "restarted in place: the same pod"
    assert pod["status"]["containerStatuses"][0]["restartCount"] >= 1
    assert pod["status"]["podIP"] not in kube.endpoints(POOL, ground.namespace)


def test_the_cause_removed_it_is_released_and_serves(ground: Ground, story: Story) -> None:
    fault(ground, story.victim).unlink()
    until("the release", lambda: serving_label(current(ground, story.victim)) == "true", seconds=180)
    until("its endpoint", lambda: endpoint_is_back(ground, story.victim), seconds=30)
    until("the pool to be as expected", lambda: reason_is(POOL, ground.namespace, "AsExpected"), seconds=30)
    record = cordon_record(current(ground, story.victim))
    assert (record["state"], record["times"]) == ("Released", 1)
    assert not story.router.failed(), f"no call failed all its tries: {story.router.failed()[:1]}"


def test_when_all_mismatch_the_revision_is_at_fault_and_nobody_is_cordoned(ground: Ground, story: Story) -> None:
    pods = kube.pods(POOL, ground.namespace)
    restarts = {pod["metadata"]["name"]: pod["status"]["containerStatuses"][0]["restartCount"] for pod in pods}
    started = time.time()
    for pod in pods:
        fault(ground, pod).touch()

    until("RevisionFault", lambda: reason_is(POOL, ground.namespace, "RevisionFault"), seconds=90)
    now = kube.pods(POOL, ground.namespace)
    assert {serving_label(pod) for pod in now} == {"true"}
    assert {p["metadata"]["name"]: p["status"]["containerStatuses"][0]["restartCount"] for p in now} == restarts
    for call, one in story.router.attempts(started):
        assert one.status != 502 or names_only_large_pictures(call, one)
    for pod in pods:
        fault(ground, pod).unlink()


@dataclass(slots=True)
class KeptOpen:
    """One connection straight to a replica, used over and over until it is refused."""

    address: str
    refusal: Attempt | None = None
    closed: bool = False
    _left: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None

    def __enter__(self) -> KeptOpen:
        """Start asking."""
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop asking."""
        self._left.set()
        if self._thread:
            self._thread.join(timeout=30)

    def _ask(self) -> None:
        connection = http.client.HTTPConnection(self.address, 8000, timeout=30)
        connection.connect()
        kept = connection.sock
        while not self._left.wait(0.05):
            attempt, _ = ask(connection, SMALL[:1])
            if attempt.status != 200:
                self.closed = connection.sock is None and kept is not None
                self.refusal = attempt
                return


def fault(ground: Ground, pod: kube.Object) -> pathlib.Path:
    """The file that makes this replica's encoder truncate."""
    return ground.folder / "faults" / str(pod["metadata"]["name"])


def current(ground: Ground, pod: kube.Object) -> kube.Object:
    """The pod as it is now."""
    found = kube.get("pod", pod["metadata"]["name"], ground.namespace)
    assert found, f"pod {pod['metadata']['name']} is gone"
    return found


def cordoned(ground: Ground, pod: kube.Object) -> bool:
    """Label and record both say so."""
    now = current(ground, pod)
    return serving_label(now) == "false" and cordon_record(now).get("state") == "Cordoned"


def endpoint_is_back(ground: Ground, pod: kube.Object) -> bool:
    """The Service sends it traffic again."""
    return current(ground, pod)["status"]["podIP"] in kube.endpoints(POOL, ground.namespace)


def ask_identity(question: Callable[[], bool]) -> bool:
    """A restarting container answers nothing for a while: that is not yet an answer."""
    try:
        return question()
    except OSError:
        return False


def names_only_large_pictures(call: Call, one: Attempt) -> bool:
    """The 502 is the mismatch, and each item that it names is a picture beyond the size."""
    large = {index for index, each in enumerate(call.pictures) if each in LARGE}
    return one.code == "token_mismatch" and bool(one.items) and set(one.items) <= large


def moment(text: str) -> float:
    """Unix seconds of a timestamp in the record."""
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def first_window_with_enough(ground: Ground, story: Story) -> float:
    """When Prometheus first held four samples, enough checks and enough failed media of the victim, and enough
    checks of some peer since the victim's first failure."""
    name = story.victim["metadata"]["name"]
    bad = samples(name, "count", story.started)
    onset = next(at for at, value in bad if value > bad[0][1])
    media = prometheus.samples(f'encoder_mismatched_media_total{{pod="{name}"}}[5m]')
    enough_media = next(at for at, value in media if value >= 3)
    peers = [pod["metadata"]["name"] for pod in kube.pods(POOL, ground.namespace) if pod["metadata"]["name"] != name]
    vouched = []
    for peer in peers:
        good = samples(peer, "ok", story.started)
        before = max((value for at, value in good if at <= onset), default=good[0][1])
        vouched += [at for at, value in good if at > onset and value - before >= 20][:1]
    return max(enough_media, min(vouched))


def samples(pod: str, result: str, since: float) -> list[tuple[float, float]]:
    """The fresh checks of a pod with this result, as scraped since a time."""
    series = f'encoder_token_checks_total{{pod="{pod}",source="fresh",modality="image",result="{result}"}}[5m]'
    return [(at, value) for at, value in prometheus.samples(series) if at >= since - 2]
