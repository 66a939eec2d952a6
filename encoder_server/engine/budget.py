"""The budget: up to which cost it pays off, for this model on this machine, that several callers' items share a batch.

Place: measured by `process` once the encoder is warm, for the front to pack by; no part of the identity, for it may
differ from start to start.

The rule: pictures of a size are run alone, two, four, eight of them together and so on, round after round; of each
count the fastest run counts, and to it is added an estimate of what a batch costs around the model. A batch is doubled
as long as that makes an item cheaper by a twentieth, up to the batch that takes `LONGEST` (who comes alone waits at
most so long for mates); and as long as it makes no item dearer, up to `UNNOTICED`: large batches have other advantages
(fewer turns of the front, fewer messages), and nobody feels such a wait. A batch of which one item takes longer than
that is thus shared only where much is gained. Of the two sizes that are tried, the larger budget. Where so many large
pictures take longer than `LONGEST`, or than one after the other, it is halved; where they take more than `MOST_BYTES`
of memory, small ones alone share.

Must never: work for longer than `SECONDS` (or take `MOST_SECONDS`, on a busy machine) and one run, let a busy machine
decide (times are of the processor where it is the device), or be asked for while a batch is under way.
"""

from __future__ import annotations

import logging
import math
import resource
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch

from encoder_server.engine.encode import Embedding
from encoder_server.engine.messages import Failure, Size
from encoder_server.engine.pipeline import Prepared
from encoder_server.engine.preprocess import Medium
from encoder_server.engine.probe import synthetic

SECONDS = 1.2
MOST_SECONDS = 4.0
LONGEST = 0.25
UNNOTICED = 0.1
MOST_BYTES = 2**30
_SMALL, _LARGE = 64, 256
_MOST_TOGETHER = 64
_MOST_LARGE = 16
_ROUNDS = 3
_AROUND = 0.0005  # An estimate: packing, two messages each way and the turns of the front, none of which is run here.
_CHEAPER = 0.95
_NOISE = 1.05
_SLACK = 1.1
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
    trial = _Trial(stages, read)
    small, large = (trial.paying(side, most) for side in (_SMALL, _LARGE))
    budget = large if large >= small else trial.halved(small)
    _log.info("sharing a batch pays off up to %d pixels", budget)
    return budget


class _Trial:
    """Runs of synthetic pictures, as long as there is time and memory."""

    def __init__(self, stages: Stages, read: Gauge) -> None:
        self._stages = stages
        self._read = read
        self._pictures = {side: synthetic(Size(modality="image", width=side, height=side)) for side in (_SMALL, _LARGE)}
        self._work, self._end = read.work() + SECONDS, read.clock() + MOST_SECONDS
        self._ceiling = read.peak() + MOST_BYTES

    def paying(self, side: int, most: int) -> int:
        """Return the cost, a power of two, of the largest batch of such pictures that pays off."""
        best, cheapest = 1, math.inf
        for count, seconds in sorted(self._fastest(side, most // side**2).items()):
            each = (seconds + _AROUND) / count
            longest = LONGEST if each <= _CHEAPER * cheapest else UNNOTICED
            if count > 1 and (seconds > longest or each > _NOISE * cheapest):
                break
            best, cheapest = count, min(each, cheapest)
        return best * side**2 if best > 1 else 0

    def halved(self, budget: int) -> int:
        """Return the budget, or that half or quarter of it up to which larger pictures do not lose by it either."""
        pair = 2 * _LARGE**2
        if budget < pair:
            return budget
        alone = min((self._run(_LARGE, 1) or math.inf) for _ in range(3))
        while budget >= pair:
            count = min(budget // _LARGE**2, _MOST_LARGE)
            took = min((self._run(_LARGE, count) or math.inf) for _ in range(2))
            if took <= min(_SLACK * count * alone, LONGEST):
                break
            budget = count * _LARGE**2 // 2
        return budget

    def _fastest(self, side: int, most: int) -> dict[int, float]:
        """Return the seconds that so many together take, by their count: as many as may pay, and could be run."""
        self._run(side, 1)  # What is done once for a size is no part of it.
        fastest: dict[int, float] = {}
        for _ in range(_ROUNDS):
            count = 1
            while count <= min(most, _MOST_TOGETHER):
                seconds = self._run(side, count)
                if seconds is None:
                    break
                fastest[count] = min(seconds, fastest.get(count, math.inf))
                half = fastest.get(count // 2, math.inf)
                if fastest[count] > min(LONGEST, max(UNNOTICED, 2 * _CHEAPER * half)):
                    break
                count *= 2
        return fastest

    def _run(self, side: int, count: int) -> float | None:
        """Return the seconds that a batch of so many takes; None where it fails, or time or memory is over."""
        read, data = self._read, self._pictures[side]
        if read.work() >= self._work or read.clock() >= self._end:
            return None
        began = read.work()
        prepared = self._stages.prepare([Medium(index=at, modality="image", data=data) for at in range(count)])
        embeddings, _ = self._stages.encode(prepared)
        seconds = read.work() - began
        return seconds if len(embeddings) == count and read.peak() <= self._ceiling else None


def _most_resident() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
