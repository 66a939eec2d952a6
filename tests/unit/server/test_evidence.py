"""What failed checks leave behind: counted once, remembered within bounds."""

import pytest

from encoder_server.check import Batch, Passed, Result, Violation
from encoder_server.encoding import Outcome
from encoder_server.evidence import Evidence
from encoder_server.faults import Bearings
from encoder_server.media import Medium
from encoder_server.metrics import Metrics
from encoder_server.size import Size

BEARINGS = Bearings(request_id="r", model_revision="m", processor_revision="p")


def medium(digest: str, width: int = 10) -> Medium:
    size = Size(modality="image", width=width, height=10)
    return Medium(
        index=0, modality="image", contents=(b"",), digest=digest, size=size, cost=size.cost, expected_tokens=None
    )


def violation(produced: int | None = 3, result: Result = Result.COUNT) -> Violation:
    return Violation(
        index=0, modality="image", grid=(1, 2, 2), promised=4, produced=produced, result=result, message="off"
    )


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


@pytest.fixture
def evidence(metrics: Metrics) -> Evidence:
    return Evidence(metrics, lambda: "2026-11-30T12:00:00.000000Z")


def take(evidence: Evidence, medium: Medium, violation: Violation, *, fresh: bool = True) -> None:
    batch = Batch(asked={0: "image"}, promises=(), outputs=(), blobs=(), failures=())
    outcome = Outcome(medium=medium, key=None, batch=batch, fresh=fresh)
    evidence.take(outcome, Passed(rows=()), [violation], BEARINGS)


def sample(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_one_medium_that_is_sent_again_counts_once(metrics: Metrics, evidence: Evidence) -> None:
    for digest in ("a", "b", "a", "a"):
        take(evidence, medium(digest), violation())
    assert sample(metrics, "encoder_mismatched_media_total") == 2
    labels = {"modality": "image", "source": "fresh", "result": "count"}
    assert sample(metrics, "encoder_token_checks_total", **labels) == 4


def test_gaps_are_absolute_and_by_direction(metrics: Metrics, evidence: Evidence) -> None:
    take(evidence, medium("a"), violation(produced=1))
    take(evidence, medium("a"), violation(produced=9))
    take(evidence, medium("a"), violation(produced=None, result=Result.LAYOUT))
    assert sample(metrics, "encoder_token_mismatch_tokens_sum", direction="missing") == 3
    assert sample(metrics, "encoder_token_mismatch_tokens_sum", direction="surplus") == 5


def test_recent_violations_are_distinct_newest_first_and_at_most_eight(evidence: Evidence) -> None:
    for width in (*range(1, 11), 5):
        take(evidence, medium("a", width), violation())
    assert [entry["width"] for entry in evidence.recent] == [5, 10, 9, 8, 7, 6, 4, 3]


def test_who_shares_a_failed_item_adds_no_evidence(metrics: Metrics, evidence: Evidence) -> None:
    take(evidence, medium("a"), violation(), fresh=False)
    assert (sample(metrics, "encoder_mismatched_media_total"), evidence.recent) == (0, [])
    labels = {"modality": "image", "result": "count"}
    assert sample(metrics, "encoder_token_checks_total", source="fresh", **labels) == 0
    assert sample(metrics, "encoder_token_checks_total", source="cached", **labels) == 1
