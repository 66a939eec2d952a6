"""The batcher: what waits for an engine, and which of it goes next.

Place: between the pipeline (and ordered probes), which submit, and `engines`, which take. There is no time
window: an engine that is free takes what has come until then, or its share of it where others are free too.
Must never: lose a job without a word, let one caller's items keep another's waiting without end, or run a batch again
that killed an engine but item by item.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from encoder_server.batch import Batch, ItemBatch, ProbeBatch
from encoder_server.engine import messages
from encoder_server.errors import EncoderServerError, EngineLostError
from encoder_server.job import Job
from encoder_server.metrics import Metrics
from encoder_server.packing import Line, pack
from encoder_server.takers import Takers

_LOG = logging.getLogger(__name__)
_MOST_LOSSES = 2
# Below this a picture costs what its file, its decoding and its place in the batch cost, and processors enlarge it.
_LEAST_COST = 64 * 64
# What one caller has in a turn where batches are not shared: sixteen pictures of 512x512.
_TURN = 4 * 2**20


def cost(job: Job) -> int:
    """Return what a job costs: pixels, as its header says, or what counts as so many."""
    return max(_LEAST_COST, job.medium.cost)


class _Request:
    """Jobs that came together, and what each costs: asked for every batch, told once."""

    __slots__ = ("costs", "jobs")

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = list(jobs)
        self.costs = tuple(map(cost, jobs))


@dataclass(slots=True)
class _Line:
    """What one caller has waiting, request by request, and what it owes (see `packing`). Gone when nothing waits."""

    requests: list[_Request] = field(default_factory=list)
    owed: int = 0


_NOTHING = _Request(())


class Batcher:
    """The queue before all engines. `budget` (pixels) is what a batch may cost; None: as an engine measured."""

    def __init__(self, budget: int | None, metrics: Metrics) -> None:
        self._asked = budget
        self._budget: int | None = None
        self._measured = 0
        self._metrics = metrics
        self._first: deque[Batch] = deque()
        self._lines: dict[str, _Line] = {}
        self._takers = Takers()
        self._back = -math.inf
        self._absence: EncoderServerError | None = None

    def suit(self, hello: messages.Hello) -> None:
        """Fit the batches to the encoder that an engine has loaded, and to what it measured.

        Where items of several requests must not, or need not, share a batch, each request has its own. Of what several
        engines measured the most counts: what disturbs a measurement makes it less.
        """
        self._measured = max(self._measured, hello.batch_budget)
        budget = self._asked or self._measured
        self._budget = budget if hello.together and budget else None

    @property
    def budget(self) -> int:
        """Pixels that several requests may share in one batch; 0: none."""
        return self._budget or 0

    @property
    def queued(self) -> int:
        """How many requests and probes wait for an engine."""
        requests = (request for line in self._lines.values() for request in line.requests)
        return sum(batch.wanted for batch in self._first) + sum(
            any(job.wanted for job in each.jobs) for each in requests
        )

    @property
    def idle(self) -> int:
        """How many engines wait for something to do."""
        return self._takers.waiting

    def submit(self, jobs: Sequence[Job], caller: str = "") -> None:
        """Queue one request's jobs; they fail at once where no engine is expected in time."""
        if jobs:
            self._lines.setdefault(caller, _Line()).requests.append(_Request(jobs))
            self._takers.tell()
        self._turn_away()

    def probe(self, sizes: Sequence[messages.Size]) -> ProbeBatch:
        """Queue a probe before everything else."""
        batch = ProbeBatch(sizes)
        self._first.appendleft(batch)
        self._takers.call()
        self._turn_away()
        return batch

    async def take(self, lost: asyncio.Future[None]) -> Batch:
        """Return the next batch; raises ConnectionLostError when the engine behind `lost` goes first."""
        with self._takers.one():
            while True:
                await self._takers.gather(self._is_enough)
                batch = None if lost.done() else self._next()
                if batch is not None:
                    return batch
                await self._takers.wait(lost)

    def _is_enough(self) -> bool:
        """Return whether every engine that is free has a full batch."""
        return bool(self._first) or self._waiting_cost() >= self._takers.free * (self._budget or 1)

    def _waiting_cost(self) -> int:
        return sum(sum(each.costs) for line in self._lines.values() for each in line.requests)

    def _next(self) -> Batch | None:
        while self._first:
            batch = self._first.popleft()
            if batch.wanted:
                return batch
        jobs, requests = self._pack()
        if not jobs:
            return None
        if self._lines:
            self._takers.call()  # One call came for all of them: another engine may be free.
        self._metrics.batch_cost.observe(sum(map(cost, jobs)))
        self._metrics.batch_items.observe(len(jobs))
        return ItemBatch(jobs, shared=requests > 1)

    def _pack(self) -> tuple[list[Job], int]:
        """Take the next batch's jobs out of the lines; return them, and of how many requests they are."""
        self._forget_unwanted()
        callers = list(self._lines)
        lines = [self._lines[caller] for caller in callers]
        views = [Line(requests=tuple(each.costs for each in line.requests), owed=line.owed) for line in lines]
        # Engines that are free share what waits: one that took it all would leave the others idle.
        share = -(-self._waiting_cost() // max(1, self._takers.free))
        packed = pack(views, self._budget or _TURN, together=self._budget is not None, share=share)
        batch: list[Job] = []
        for at, request, count in packed.turns:
            jobs = lines[at].requests[request].jobs
            batch += jobs[:count]
            lines[at].requests[request] = _NOTHING
            if jobs[count:]:  # What is left of a request that had a turn goes behind its caller's others.
                lines[at].requests.append(_Request(jobs[count:]))
        for line, owed in zip(lines, packed.owed, strict=True):
            line.owed = owed
            line.requests = [each for each in line.requests if each is not _NOTHING]
        self._lines = {callers[at]: lines[at] for at in packed.order if lines[at].requests}
        return batch, len(packed.turns)

    def _forget_unwanted(self) -> None:
        for caller, line in list(self._lines.items()):
            for at, request in enumerate(line.requests):
                wanted = [job for job in request.jobs if job.wanted]
                if len(wanted) < len(request.jobs):
                    line.requests[at] = _Request(wanted) if wanted else _NOTHING
            line.requests = [each for each in line.requests if each is not _NOTHING]
            if not line.requests:
                del self._lines[caller]

    def finish(self, batch: Batch, received: messages.Received) -> None:
        """Hand an engine's answer over, or have the jobs run alone where it cannot be told whose it is."""
        if not batch.finish(received):
            _LOG.error("batch_has_stray_rows")
            self._run_alone(batch)

    def lose(self, batch: Batch) -> None:
        """Hear that an engine was lost with `batch`: each of its jobs is tried alone, once."""
        for holder in _holders(batch):
            holder.losses += 1
            if holder.losses >= _MOST_LOSSES:
                holder.fail(EngineLostError("the engine was lost with this request, and so was the next one"))
        self._run_alone(batch)

    def give_up(self, batch: Batch) -> None:
        """Hear that an engine was stuck in `batch`: an item that was alone in it is the culprit."""
        if isinstance(batch, ItemBatch) and len(batch.jobs) > 1:
            self.lose(batch)
        else:
            batch.fail(EngineLostError("the engine was stuck and is started again"))

    def _run_alone(self, batch: Batch) -> None:
        if isinstance(batch, ItemBatch):
            again: list[Batch] = [ItemBatch([job], shared=False) for job in batch.jobs]
        else:
            again = [batch]
        self._first.extendleft(reversed([each for each in again if each.wanted]))
        for _ in again:
            self._takers.call()

    def expect(self, back: float, error: EncoderServerError) -> None:
        """Hear that no engine serves before `back` (inf: none is expected any more): until `open` is called, who
        cannot wait so long fails with `error`, and so does who comes."""
        self._back, self._absence = back, error
        self._turn_away()

    def close(self, error: EncoderServerError) -> None:
        """Fail all that waits, and all that comes."""
        self.expect(math.inf, error)

    def open(self) -> None:
        """Hear that an engine serves."""
        self._absence = None

    def _turn_away(self) -> None:
        if self._absence is not None:
            waiting = [holder for batch in self._first for holder in _holders(batch)]
            queued = [job for line in self._lines.values() for each in line.requests for job in each.jobs]
            for holder in (*waiting, *queued):
                if holder.deadline <= self._back:
                    holder.fail(self._absence)
            self._forget_unwanted()


def _holders(batch: Batch) -> Sequence[Job | ProbeBatch]:
    """Return what is failed one by one."""
    return batch.jobs if isinstance(batch, ItemBatch) else (batch,)
