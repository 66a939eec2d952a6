"""The budget: up to which cost it pays off, for this model on this machine, that several callers' items share a batch.

Place: measured by `process` once the encoder is warm, for the front to pack by; no part of the identity, for it may
differ from start to start.

Pictures of two sizes are run alone, two, four, eight of them together and so on, round after round: each round both
sizes, so that a busy machine, which has time for few, has tried them all. Then what is in doubt is run again. What
follows from the runs is for `paying` to say.

Must never: work for longer than `SECONDS` (or take `MOST_SECONDS`, on a busy machine) and one run, let a busy machine
decide (times are of the processor where it is the device), or be asked for while a batch is under way.
"""

from __future__ import annotations

import logging
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from encoder_server.engine import paying
from encoder_server.engine.encode import Embedding
from encoder_server.engine.messages import Failure, Size
from encoder_server.engine.paying import Tried
from encoder_server.engine.pipeline import Prepared
from encoder_server.engine.preprocess import Medium
from encoder_server.engine.probe import synthetic

SECONDS = 1.2
MOST_SECONDS = 4.0
MOST_BYTES = 2**30
_SMALL, _LARGE = 64, 256
_MOST_TOGETHER = 64
_DOUBTS = 8
_log = logging.getLogger(__name__)


class Stages(Protocol):
    """What is measured: an engine's pipeline."""

    def prepare(self, media: list[Medium]) -> Prepared:
        """Decode, preprocess and promise."""

    def encode(self, prepared: Prepared) -> tuple[list[Embedding], list[Failure]]:
        """Run the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gauge:
    """What is read beside the runs: seconds of work, seconds gone by, and the most bytes held so far."""

    work: Callable[[], float]
    clock: Callable[[], float]
    peak: Callable[[], int]


def gauge(device: str) -> Gauge:
    """Give the gauge of an engine on `device`. An accelerator's work is waited for, and so is time gone by."""
    if torch.device(device).type == "cuda":
        return Gauge(work=time.monotonic, clock=time.monotonic, peak=torch.cuda.max_memory_allocated)
    return Gauge(work=time.process_time, clock=time.monotonic, peak=_most_resident)


def measure(stages: Stages, most: int, read: Gauge) -> int:
    """Return the budget in pixels, at most `most`; 0 where nothing is gained by sharing, or nothing can be run."""
    trial = _Trial(stages, most, read)
    trial.run_rounds()
    trial.settle_doubts()
    budget = paying.budget(trial.tried(_SMALL), trial.tried(_LARGE))
    _log.info("sharing a batch pays off up to %d pixels", budget)
    return budget


class _Trial:
    """Runs of synthetic pictures, as long as there is time and memory."""

    def __init__(self, stages: Stages, most: int, read: Gauge) -> None:
        self._stages = stages
        self._read = read
        self._pictures = {side: synthetic(Size(modality="image", width=side, height=side)) for side in (_SMALL, _LARGE)}
        self._most = {side: min(most // side**2, _MOST_TOGETHER) for side in self._pictures}
        self._runs: dict[int, dict[int, list[float]]] = {side: {} for side in self._pictures}
        self._work, self._end = read.work() + SECONDS, read.clock() + MOST_SECONDS
        self._ceiling = read.peak() + MOST_BYTES

    def tried(self, side: int) -> Tried:
        """Return what is known of pictures of this side."""
        return Tried(side=side, runs=self._runs[side], most=self._most[side])

    def run_rounds(self) -> None:
        """Run every count of both sizes as often as is enough, as long as so many may pay."""
        for side in self._pictures:
            if self._most[side]:
                self._run(side, 1)  # What is done once for a size is in no faster run.
        for _ in range(paying.ENOUGH):
            for side in self._pictures:
                count = 1
                while count <= self._most[side]:
                    if self._run(side, count) and self.tried(side).takes_too_long(count):
                        break
                    count *= 2

    def settle_doubts(self) -> None:
        """Run again what seemed dearer, beside what it seemed dearer than."""
        for _ in range(_DOUBTS):
            for side in self._pictures:
                doubt = paying.paying(self.tried(side)).doubt
                if doubt is not None:
                    self._run(side, doubt // 2)
                    self._run(side, doubt)

    def _run(self, side: int, count: int) -> bool:
        """Time a batch of so many, and return True; False where it fails, or time or memory is over."""
        read, data = self._read, self._pictures[side]
        if read.work() >= self._work or read.clock() >= self._end or read.peak() > self._ceiling:
            return False
        began = read.work()
        prepared = self._stages.prepare([Medium(index=at, modality="image", data=data) for at in range(count)])
        embeddings, _ = self._stages.encode(prepared)
        seconds = read.work() - began
        if len(embeddings) < count or read.peak() > self._ceiling:
            self._most[side] = count // 2
            return False
        self._runs[side].setdefault(count, []).append(seconds)
        return True


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
