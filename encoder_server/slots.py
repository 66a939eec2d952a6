"""Slots: the places of the engines, one for each, and who is told of them.

Place: kept by `engines`, which has processes come and go in them. Must never: start or end anything.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from encoder_server.engine import messages
from encoder_server.engine.asides import STAGES, Progress
from encoder_server.lifecycle import Fault
from encoder_server.link import Link
from encoder_server.recovery import Prospect


class Owner(Protocol):
    """Who is told of the engines: the replica."""

    def greet(self, engine: int, measured: messages.Measured) -> str | None:
        """Take an engine in, or say why not."""

    def examine(self, engine: int, probed: messages.Probed) -> str | None:
        """Hear what an engine's probe showed; says why it must not go on."""

    def engines_changed(self, *, ready: Collection[int], fault: Fault | None) -> None:
        """Hear which engines serve, and, where none does, why."""

    def engine_progresses(self, progress: Progress | None) -> None:
        """Hear how the start goes of the engine that has come farthest."""

    def engine_restarts(self) -> None:
        """Count one restart."""


@dataclass(slots=True)
class Slot:
    """One engine's place: it stays while processes come and go.

    `failed` and `losses` tell of the starts since it last encoded; `starts_at` is of the last start, or the next.
    """

    number: int
    ready: bool = False
    failed: bool = False
    losses: int = 0
    unkillable: bool = False
    delay: float = 0.0
    starts_at: float = 0.0
    ready_since: float = 0.0
    link: Link | None = None
    progress: Progress | None = None
    told_at: float = -math.inf

    def prospect(self, start_seconds: float) -> Prospect:
        """Return when an engine may serve here, where a start takes so long."""
        return Prospect(ready=self.ready, failed=self.failed, earliest=self.starts_at + start_seconds)


def farthest(slots: Sequence[Slot]) -> Progress | None:
    """Return how the start goes that has come farthest; None where none is under way."""
    starts = [slot.progress for slot in slots if slot.progress is not None]
    return max(starts, key=lambda each: (STAGES.index(each.stage), each.done), default=None)
