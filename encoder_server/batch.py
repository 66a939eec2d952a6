"""Batches on their way: what an engine is asked, for which jobs.

Place: `batcher` packs jobs into batches, which the engine that takes them fills. Must never: leave a job without a
result or an error.
"""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from encoder_server.engine import messages
from encoder_server.errors import EncoderServerError, InternalError
from encoder_server.job import Done, Job, Told, fail

T = TypeVar("T", messages.Promise, messages.Output, messages.Failure)


class ItemBatch:
    """Jobs that one engine does together; `shared` says that they are of several callers."""

    probed: messages.Probed | None = None

    def __init__(self, jobs: Sequence[Job], *, shared: bool) -> None:
        self.jobs = tuple(jobs)
        self.shared = shared
        now = asyncio.get_running_loop().time()
        for job in self.jobs:
            job.taken_at = job.taken_at or now

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for any of it."""
        return any(job.wanted for job in self.jobs)

    @property
    def abandoned(self) -> tuple[int, ...]:
        """The items (by their index in the message) for which nobody waits any more."""
        return tuple(place for place, job in enumerate(self.jobs) if not job.wanted)

    def watch(self, left: Callable[[], None] | None) -> None:
        """Have `left` called whenever an item is abandoned; None: no more."""
        for job in self.jobs:
            job.left = left

    @property
    def blobs(self) -> Sequence[bytes | memoryview]:
        """The media, in the order of the message's items; frames of a list each by itself."""
        return [content for job in self.jobs for content in job.medium.contents]

    def message(self, number: int) -> messages.Encode:
        """Return the message that asks an engine for this batch; an item's index is its place in it."""
        items, blob = [], 0
        for place, job in enumerate(self.jobs):
            medium = job.medium
            items.append(
                messages.Item(
                    index=place,
                    modality=medium.modality,
                    blob=blob,
                    frames=len(medium.contents) if medium.listed else 0,
                    fps=medium.fps,
                    expected_tokens=medium.expected_tokens,
                )
            )
            blob += len(medium.contents)
        return messages.Encode(batch=number, items=tuple(items))

    def publish(self, promised: messages.Promised) -> None:
        """Give each job its promise."""
        promises, failures = _by_place(promised.promises), _by_place(promised.failures)
        for place, job in enumerate(self.jobs):
            job.publish(Told(promises=tuple(promises[place]), failures=tuple(failures[place])))

    def finish(self, received: messages.Received) -> bool:
        """Give each job its result. False where none can be trusted: rows came that belong to no item, and
        which of several items brought them only a run of each alone can tell."""
        encoded = received.message
        if not isinstance(encoded, messages.Encoded):
            self.fail(InternalError("the engine answered another question"))
            return True
        strays = tuple(output for output in encoded.outputs if not 0 <= output.index < len(self.jobs))
        if strays and len(self.jobs) > 1:
            return False
        outputs, failures = _by_place(encoded.outputs), _by_place(encoded.failures)
        for place, job in enumerate(self.jobs):
            job.finish(
                Done(
                    outputs=tuple(outputs[place]),
                    failures=tuple(failures[place]),
                    strays=strays,
                    blobs=received.blobs,
                )
            )
        return True

    def fail(self, error: EncoderServerError) -> None:
        """Wake every waiter with `error`."""
        for job in self.jobs:
            job.fail(error)


def _by_place(told: Sequence[T]) -> Mapping[int, Sequence[T]]:
    """Sort what an engine said by the item that it is about; there is nothing of an item that it did not name."""
    found: defaultdict[int, list[T]] = defaultdict(list)
    for each in told:
        found[each.index].append(each)
    return found


class ProbeBatch:
    """The golden probe, and synthetic media of `sizes`; `finished` has the Probed. It waits as long as it must.

    `probed` is what an engine answered, whether anybody still waits for it or not.
    """

    shared = False
    deadline = math.inf

    def __init__(self, sizes: Sequence[messages.Size]) -> None:
        self._sizes = tuple(sizes)
        self.losses = 0
        self.probed: messages.Probed | None = None
        self.finished: asyncio.Future[messages.Received] = asyncio.get_running_loop().create_future()

    @property
    def wanted(self) -> bool:
        """Whether anybody still waits for the result."""
        return not self.finished.done()

    abandoned: tuple[int, ...] = ()

    def watch(self, left: Callable[[], None] | None) -> None:
        """Take no notice: who orders a probe wants it whole."""

    @property
    def blobs(self) -> Sequence[bytes]:
        """Nothing: an engine makes the probe's media itself."""
        return ()

    def message(self, number: int) -> messages.Probe:
        """Return the message that asks an engine for this probe."""
        return messages.Probe(batch=number, sizes=self._sizes)

    def publish(self, promised: messages.Promised) -> None:
        """Take no notice: nobody waits for a probe's promises."""

    def finish(self, received: messages.Received) -> bool:
        """Hand the result over; always True."""
        self.probed = received.message if isinstance(received.message, messages.Probed) else None
        if not self.finished.done():
            self.finished.set_result(received)
        return True

    def fail(self, error: EncoderServerError) -> None:
        """Wake the waiter with `error`."""
        fail(self.finished, error)

    def abandon(self) -> None:
        """Say that nobody waits any more; an engine that has not taken the probe skips it."""
        self.finished.cancel()


Batch = ItemBatch | ProbeBatch
