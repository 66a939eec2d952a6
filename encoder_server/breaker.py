"""The breaker: whether a store that failed is asked again, and when.

Place: kept by `redis_reader` and `redis_writer`, one for each. Pure. Must never: read a clock.

    closed ──failures in a row──► open ──after a pause──► a trial ──works──► closed
                                   ▲                        └──fails: twice the pause──┐
                                   └───────────────────────────────────────────────────┘
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True, kw_only=True)
class Breaker:
    """Trips at `most_failures` in a row for `least_pause` seconds, doubled at each failed trial up to `most_pause`."""

    most_failures: int
    least_pause: float
    most_pause: float
    failures: int = 0
    until: float = 0.0

    def failed(self, now: float) -> Breaker:
        """Return it after another failure, at `now`."""
        failures = self.failures + 1
        beyond = failures - self.most_failures
        pause = min(self.most_pause, self.least_pause * 2.0 ** min(beyond, 32)) if beyond >= 0 else 0.0
        return replace(self, failures=failures, until=now + pause)

    def worked(self) -> Breaker:
        """Return it closed."""
        return replace(self, failures=0, until=0.0)

    @property
    def tripped(self) -> bool:
        """Whether nothing has worked since too many failed."""
        return self.failures >= self.most_failures

    def allows(self, now: float) -> bool:
        """Whether one may try at `now`."""
        return now >= self.until
