"""Traffic: what a replica's counters say of it, alone and next to its peers.

Place: judge's rules and attribution ask it. Must never: say whose fault a mismatch is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoder_operator import vocabulary
from encoder_operator.observation import Counts, ItemReport, Replica
from encoder_operator.spec import IntegritySpec
from encoder_operator.verdict import Result
from encoder_operator.wording import count_words, size_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Mismatch:
    """More failed checks than allowed: `onset` is the first sample that shows one."""

    reason: str
    message: str
    bad: int
    distinct_media: int
    onset: float


def checks(counts: Counts) -> int:
    """All judged checks of the window."""
    return counts.good + bad_checks(counts)


def bad_checks(counts: Counts) -> int:
    """The failed checks of the window."""
    return sum(counts.bad.values())


def has_evidence(counts: Counts | None, limits: IntegritySpec) -> bool:
    """Whether there are enough checks to say anything."""
    return counts is not None and checks(counts) >= limits.min_checks


def mismatch(replica: Replica, limits: IntegritySpec) -> Mismatch | None:
    """The replica's mismatch, where it has enough checks and more of them failed than allowed."""
    counts = replica.counts
    if counts is None or not has_evidence(counts, limits):
        return None
    bad = bad_checks(counts)
    if not _too_many(bad, checks(counts), limits):
        return None
    layout = 2 * counts.bad.get("layout", 0) > bad
    return Mismatch(
        reason=vocabulary.LAYOUT_ERROR if layout else vocabulary.TOKEN_MISMATCH,
        message=f"{bad} of {checks(counts)} checks failed in {counts.seconds:.0f} s{_example(replica)}",
        bad=bad,
        distinct_media=counts.distinct_media,
        onset=next((point.at for point in counts.points if point.bad > 0), 0.0),
    )


def vouches(replica: Replica, onset: float, limits: IntegritySpec) -> bool:
    """Whether a peer shows that what fails elsewhere passes here: enough checks since the other's first failure,
    and no more failed than allowed. Older checks vouch for nothing: they met other media."""
    counts = replica.counts
    if counts is None or not has_evidence(counts, limits) or mismatch(replica, limits) is not None:
        return False
    good, bad = counts.good, bad_checks(counts)
    before = [point for point in counts.points if point.at <= onset]
    if before:
        good, bad = good - before[-1].good, bad - before[-1].bad
    return good + bad >= limits.min_checks and not _too_many(bad, good + bad, limits)


def traffic_result(replicas: Sequence[Replica], limits: IntegritySpec) -> Result:
    """What the counters say of these replicas together: bad where one mismatches, good where one may be judged."""
    judged = [each for each in replicas if has_evidence(each.counts, limits)]
    if any(mismatch(each, limits) for each in judged):
        return Result.BAD
    return Result.GOOD if judged else Result.UNKNOWN


def _too_many(bad: int, total: int, limits: IntegritySpec) -> bool:
    return bad * 1000 > limits.max_mismatch_per_mille * total


def _example(replica: Replica) -> str:
    violations: tuple[ItemReport, ...] = replica.identity.recent_violations if replica.identity else ()
    if not violations:
        return ""
    return f" ({size_words(violations[0].size)}: {count_words(violations[0])})"
