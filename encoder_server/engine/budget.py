"""The budget: up to which cost it pays off, for this model on this machine, that several callers' items share a batch.

Place: measured by `process` once the encoder is warm, for the front to pack by; no part of the identity, for it may
differ from start to start.

The rule: pictures of a size are run alone and some of them together, in turns; from the medians come what a call costs
whatever is in it, and what each item adds. Sharing pays off while the former is a tenth of a batch or more: beyond
that, a batch twice as large gains less than a twentieth. The budget is the cost of that batch, or of the one that is
expected to take `LONGEST` (who comes alone waits at most so long for mates), whichever is less; of the two sizes that
are tried, the larger budget. Where so many large pictures take longer than `LONGEST`, or than one after the other, it
is halved; where they take more than `MOST_BYTES` of memory, small ones alone share.

Must never: work for longer than `SECONDS` (or take `MOST_SECONDS`, on a busy machine) and one run, let a busy machine
decide (times are of the processor where it is the device), or be asked for while a batch is under way.
"""

from __future__ import annotations

import logging
import math
import resource
import statistics
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
MOST_BYTES = 2**30
_SMALL, _LARGE = 64, 256
_MOST_TOGETHER = 16
_LEAST_OVERHEAD = 0.1
_SLACK = 1.1
_log = logging.getLogger(__name__)


class Stages(Protocol):
    """What is measured: an engine's pipeline."""

    def prepare(self, media: list[Medium]) -> Prepared:
        """Decode, preprocess and promise."""

    def encode(self, prepared: Prepared) -> tuple[list[Embedding], list[Failure]]:
        """Run the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Size:
    """Pictures that are tried: their side, how many together, how often, and which part of what one takes alone a
    call must cost, or it is taken for noise."""

    side: int
    together: int
    rounds: int
    least: float


_SIZES = (
    _Size(side=_SMALL, together=8, rounds=7, least=0.05),
    _Size(side=_LARGE, together=4, rounds=3, least=0.2),
)


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
    budget = trial.halved(max(trial.paying(size, most) for size in _SIZES))
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

    def paying(self, size: _Size, most: int) -> int:
        """Return the cost, a power of two, of the largest batch of such pictures that pays off."""
        alone, together = self._medians(size)
        call = (size.together * alone - together) / (size.together - 1)
        item = max((together - alone) / (size.together - 1), 1e-9)
        if call <= size.least * alone:
            return 0
        cost = size.side**2
        items = min(call / item * (1 / _LEAST_OVERHEAD - 1), (LONGEST - call) / item, most / cost)
        return 0 if items < 2 else 2 ** int(math.log2(items * cost))

    def halved(self, budget: int) -> int:
        """Return the budget, or that half or quarter of it up to which larger pictures do not lose by it either."""
        pair = 2 * _LARGE**2
        if budget < pair:
            return budget
        alone = min((self._run(_LARGE, 1) or math.inf) for _ in range(3))
        while budget >= pair:
            count = min(budget // _LARGE**2, _MOST_TOGETHER)
            took = min((self._run(_LARGE, count) or math.inf) for _ in range(2))
            if took <= min(_SLACK * count * alone, LONGEST):
                break
            budget = count * _LARGE**2 // 2
        return budget

    def _medians(self, size: _Size) -> tuple[float, float]:
        """Return the seconds of one alone and of several together, run in turns; zeros where they could not be."""
        self._run(size.side, 1)  # What is done once for a size is no part of it.
        alone: list[float] = []
        together: list[float] = []
        for _ in range(size.rounds):
            ones = [self._run(size.side, 1) for _ in range(size.together)]
            several = self._run(size.side, size.together)
            if several is None or None in ones:
                break
            alone += [each for each in ones if each is not None]
            together.append(several)
        return (statistics.median(alone), statistics.median(together)) if together else (0.0, 0.0)

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
