"""Budget: how many replicas may be cordoned for what their traffic shows, and which one is next.

Place: cordon asks it for new cordons alone. Must never: be asked about a release, a probe or a restart, or count
what was never admitted or what a person cordoned against maxCordoned.

    one new cordon for each evaluation, the worst first, while
      cordoned for traffic < maxCordoned                          else BudgetExceeded
      cordoned within the last maxSeconds < 2 * maxCordoned       else BudgetExceeded
      minServing others serve                                     else MinServing
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoder_operator import vocabulary
from encoder_operator.actions import is_cordoned_here
from encoder_operator.observation import Observation, Replica
from encoder_operator.spec import EncoderPool
from encoder_operator.traffic import bad_checks, checks

_TURNOVER = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocked:
    """Why a replica at fault is not cordoned (or not evicted): a reason and what was counted."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """The one replica that may be cordoned now, if any, and what blocks the others for longer than a pause."""

    granted: Replica | None
    blocked: Blocked | None


def allow(pool: EncoderPool, observation: Observation, at_fault: Sequence[Replica]) -> Allowance:
    """Which of these replicas may be cordoned now."""
    if not at_fault:
        return Allowance(granted=None, blocked=None)
    worst_first = sorted(at_fault, key=badness)
    blocked = _spent(pool, observation, worst_first[0])
    if blocked is not None:
        return Allowance(granted=None, blocked=blocked)
    least = pool.spec.quarantine.min_serving
    affordable = [each for each in worst_first if _others_serving(observation, each) >= least]
    if not affordable:
        others = _others_serving(observation, worst_first[0])
        message = f"{worst_first[0].name} is at fault, but would leave {others} serving, fewer than minServing {least}"
        return Allowance(granted=None, blocked=Blocked(reason=vocabulary.MIN_SERVING, message=message))
    if _begun_within(observation, pool.spec.integrity.evaluation_seconds):
        return Allowance(granted=None, blocked=None)
    return Allowance(granted=affordable[0], blocked=None)


def cordoned_for_traffic(observation: Observation) -> int:
    """How many replicas the operator itself has cordoned."""
    return sum(is_cordoned_here(each) and not each.serving for each in observation.replicas)


def most_cordoned(pool: EncoderPool) -> int:
    """How many may be, of the replicas that this pool asks for."""
    return pool.spec.quarantine.max_cordoned.of(pool.spec.replicas)


def serves(replica: Replica) -> bool:
    """Whether the Service sends it requests: its label says so and it is Ready."""
    return replica.serving and replica.ready


def badness(replica: Replica) -> tuple[float, int, str]:
    """Sorts replicas at fault, the worst first."""
    counts = replica.counts
    if counts is None:
        return 0.0, 0, replica.name
    bad = bad_checks(counts)
    return -bad / max(1, checks(counts)), -bad, replica.name


def _spent(pool: EncoderPool, observation: Observation, worst: Replica) -> Blocked | None:
    most, window = most_cordoned(pool), pool.spec.quarantine.max_seconds
    now, lately = cordoned_for_traffic(observation), _begun_within(observation, window)
    if now >= most:
        told = f"{now} of at most {most} replicas are cordoned (maxCordoned)"
    elif lately >= _TURNOVER * most:
        told = f"{lately} replicas were cordoned within {window} s, {_TURNOVER} times maxCordoned"
    else:
        return None
    return Blocked(reason=vocabulary.BUDGET_EXCEEDED, message=f"{worst.name} is at fault and serves on: {told}")


def _begun_within(observation: Observation, seconds: float) -> int:
    """How many of the operator's cordons began within the last seconds, lifted ones included. One that began long
    after now was written while the clock was wrong."""
    records = [each.cordon for each in observation.replicas if each.cordon is not None]
    own = [each for each in records if each.by == vocabulary.FIELD_MANAGER]
    return sum(abs(observation.at - each.since) < seconds for each in own)


def _others_serving(observation: Observation, replica: Replica) -> int:
    return sum(serves(each) for each in observation.replicas if each.name != replica.name)
