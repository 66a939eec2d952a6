"""Flights: one computation at a time for each key, whoever waits for it.

Place: between `recall`, which boards what the cache did not have, and the batcher. A job belongs to all who
wait for it: one who leaves takes nothing from the others, and it is dropped when the last has left.
Must never: let a failure be joined by those who come later, or compute one key twice at a time.
"""

from __future__ import annotations

from collections.abc import Sequence

from encoder_server.batcher import Batcher
from encoder_server.job import Job
from encoder_server.media import Medium

Key = tuple[str, int | None]
"""A cache key with the caller's own count: the engine compares it, so that only equal ones can share."""
Boarded = tuple[str | None, Job]
"""A job that is new, with the cache key of its medium."""


class Flights:
    """The jobs under way."""

    def __init__(self, batcher: Batcher) -> None:
        self._batcher = batcher
        self._jobs: dict[Key, Job] = {}

    def board(self, media: Sequence[tuple[str | None, Medium]], deadline: float) -> tuple[list[Job], list[Boarded]]:
        """Return a job for each medium, in order, and those of them that nobody has under way.

        The caller, who waits until `deadline`, must see to it that each of those gets its result. A medium with no
        key is computed for itself.
        """
        jobs: list[Job] = []
        new: list[Boarded] = []
        for key, medium in media:
            at = None if key is None else (key, medium.expected_tokens)
            job = None if at is None else self._jobs.get(at)
            if job is None or job.failed:
                job = Job(medium, deadline)
                new.append((key, job))
                if at is not None:
                    self._jobs[at] = job
            job.waiting += 1
            job.deadline = max(job.deadline, deadline)
            jobs.append(job)
        return jobs, new

    def encode(self, jobs: Sequence[Job], caller: str = "") -> None:
        """Have engines compute `jobs`, as one request of `caller`."""
        self._batcher.submit(jobs, caller)

    def leave(self, key: str | None, job: Job) -> None:
        """Hear that one who waited has what it wanted, or does not want it any more."""
        job.leave()
        at = None if key is None else (key, job.medium.expected_tokens)
        if job.waiting == 0 and at is not None and self._jobs.get(at) is job:
            del self._jobs[at]
