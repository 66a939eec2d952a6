"""The trail: what is remembered of one request while it is served: its stages with their times, counts, how it ended.

Place: made by `access` before a request is looked at, written by the stages, read when the answer is written: for the
one line of the log, and for spans where traces are asked for. Must never: hold a payload, or grow with a request.
"""

from __future__ import annotations

import time
from types import TracebackType
from typing import NamedTuple, Self

from encoder_server.errors import EncoderServerError
from encoder_server.metrics import Metrics

# The clock of the event loop, which says when an engine took an item.
_clock = time.monotonic


class Stage(NamedTuple):
    """One stretch of a request, in seconds since it began."""

    name: str
    start: float
    end: float


class Timing:
    """One stage under way. A class, because each request has several and a generator costs twice as much."""

    __slots__ = ("_name", "_start", "_trail")

    def __init__(self, trail: Trail, name: str) -> None:
        self._trail: Trail | None = trail
        self._name = name
        self._start = 0.0

    def __enter__(self) -> Self:
        self._start = _clock()
        return self

    def drop(self) -> None:
        """Tell nobody of it: the stage is begun again."""
        self._trail = None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._trail is not None:
            self._trail.passed(self._name, self._start, _clock())


class Trail:
    """One request's. `code` is how it ended, for the log and, where it `is_counted`, for `encoder_requests_total`;
    `at_fault` says that the server was at fault, whatever status the answer had; `began_ns` is in nanoseconds since
    1970."""

    def __init__(self, request_id: str, metrics: Metrics) -> None:
        self.request_id = request_id
        self.code = "ok"
        self.at_fault = False
        self.is_counted = False
        self.items = 0
        self.cached = 0
        self.tokens = 0
        self.began_ns = time.time_ns()
        self._began = _clock()
        self._metrics = metrics
        self._stages: dict[str, tuple[float, float]] = {}
        self._taken_at: float | None = None

    def stage(self, name: str) -> Timing:
        """Time a stage (a context manager), for the metrics too; one that failed is timed as well."""
        return Timing(self, name)

    def passed(self, name: str, start: float, end: float) -> None:
        """Hear that a stage ended; times are of the clock. Called by timings alone."""
        self._stages[name] = (start, end)
        self._metrics.stages.observe(name, end - start)

    @property
    def elapsed(self) -> float:
        """Seconds since the request began."""
        return _clock() - self._began

    def found(self, *, items: int, cached: int) -> None:
        """Hear how many items there are, and how many of them were recalled."""
        self.items, self.cached = items, cached

    def promised(self, *, tokens: int, taken_at: float | None) -> None:
        """Hear how many tokens were promised, and when an engine took what is computed (by the event loop's clock)."""
        self.tokens = tokens
        self._taken_at = None if taken_at is None else taken_at - self._began

    def failed(self, error: EncoderServerError) -> None:
        """Hear why the request failed."""
        self.code, self.at_fault = error.code, error.status >= 500

    def cut_off(self) -> None:
        """Hear that the caller left before all of its answer was written; an error that was to be told stays."""
        if self.code == "ok":
            self.code = "cancelled"

    @property
    def stages(self) -> tuple[Stage, ...]:
        """Every stage in the order of their starts; of promise and encode also what they were spent on: the wait for
        an engine (`queue`), and the engine's own work."""
        began = self._began
        found = {name: Stage(name, start - began, end - began) for name, (start, end) in self._stages.items()}
        promise, last = found.get("promise"), found.get("encode") or found.get("promise")
        if promise is not None and last is not None and self._taken_at is not None:
            # Where another request had the item computed, the engine may have begun before this one waited.
            taken = min(max(self._taken_at, promise.start), last.end)
            found["queue"] = Stage(name="queue", start=promise.start, end=taken)
            found["engine"] = Stage(name="engine", start=taken, end=last.end)
        return tuple(sorted(found.values(), key=lambda stage: (stage.start, -stage.end)))
