"""Start reports: how the start of an engine goes, as /readyz and /v1/identity show it.

Place: kept by `replica`, which hears it from `engines`. Pure. Must never: take a stage for a state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from encoder_server.engine.asides import Progress


class StartReport:
    """How the start goes of the engine that has come farthest; `now` returns the time as it is written."""

    def __init__(self, now: Callable[[], str]) -> None:
        self._now = now
        self._since = now()
        self.progress: Progress | None = None

    def hear(self, progress: Progress | None) -> None:
        """Take in how it goes; None: none is being started."""
        before, self.progress = self.progress, progress
        if progress is not None and (before is None or before.stage != progress.stage):
            self._since = self._now()

    def render(self) -> dict[str, Any] | None:
        """Return stage, fraction and since when; None where none is being started."""
        told = self.progress
        if told is None:
            return None
        fraction = round(told.done / told.total, 3) if told.total else None
        return {"stage": told.stage, "fraction": fraction, "since": self._since}
