"""The engines: spawned, greeted, given batches one at a time, watched, and started again.

Place: between the batcher and the engine processes; all that the front knows of the device.
Must never: block the event loop, let an engine with another identity serve, or lose a batch without a word.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Sequence

from encoder_server import recovery
from encoder_server.batch import Batch
from encoder_server.batcher import Batcher
from encoder_server.conversation import LostError, converse, greet
from encoder_server.engine import messages
from encoder_server.engine.asides import Progress
from encoder_server.errors import EngineLostError
from encoder_server.lifecycle import Fault
from encoder_server.link import Link
from encoder_server.recovery import Labour
from encoder_server.settings import EngineSettings
from encoder_server.slots import Owner, Slot, farthest

_LOG = logging.getLogger(__name__)
_LOG_SECONDS = 5.0


class Engines:
    """A fixed number of engines behind one batcher.

    `command` starts an engine program; `seconds` is what a request may take.
    """

    def __init__(
        self, command: Sequence[str], settings: EngineSettings, seconds: float, owner: Owner, batcher: Batcher
    ) -> None:
        self._command = command
        self._settings = settings
        self._seconds = seconds
        self._owner = owner
        self._batcher = batcher
        self._slots = [Slot(number) for number in range(settings.count)]
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._start_seconds: float | None = None
        self._fault: Fault | None = None
        self._absent_since: float | None = None
        self._labour = Labour()

    @property
    def ready(self) -> int:
        """How many engines serve."""
        return sum(slot.ready for slot in self._slots)

    @property
    def total(self) -> int:
        """How many engines there should be."""
        return len(self._slots)

    @property
    def stuck(self) -> bool:
        """Whether an engine could not even be killed: only a new container helps."""
        return any(slot.unkillable for slot in self._slots)

    @property
    def lost(self) -> str | None:
        """Why the engines are lost for good: none has served for `lost_seconds` and the time of two starts, restarts
        came to nothing; or for so long (and a batch) they began batches, and ended none. None: they are not."""
        patience, now = self._settings.lost_seconds, self._loop.time()
        longest = self._seconds + self._settings.grace_seconds
        if self._labour.is_in_vain(now, patience, longest, idle=self.ready > self._labour.under_way):
            return f"no engine has ended a batch for more than {patience:g} s"
        since = self._absent_since
        if self.ready or since is None or self._fault is None:
            return None
        losses = [slot.losses for slot in self._slots]
        gone = recovery.is_for_good(losses, since, now, patience, self._start_seconds or 0.0)
        return f"no engine has served for more than {patience:g} s: {self._fault.message}" if gone else None

    async def run(self) -> None:
        """Keep every engine running until cancelled; then end them all."""
        try:
            async with asyncio.TaskGroup() as group:
                for slot in self._slots:
                    group.create_task(self._keep(slot))
        finally:
            self._batcher.close(EngineLostError("the server is leaving"))
            await asyncio.gather(*(slot.link.stop() for slot in self._slots if slot.link is not None))

    async def _keep(self, slot: Slot) -> None:
        while True:
            slot.starts_at = started = self._loop.time()
            reason = await self._live(slot)
            self._mark_lost(slot, reason or f"engine {slot.number} hung up")
            if slot.link is not None:
                slot.unkillable = not await slot.link.kill()
                reason = reason or f"engine {slot.number} {slot.link.ending}"
                slot.link = None
                self._mark_lost(slot, reason)
            slot.failed = slot.ready_since < started
            slot.losses = 1 if not slot.failed and self._was_steady(slot) else slot.losses + 1
            slot.delay = recovery.backoff(slot.delay, self._settings.backoff_seconds)
            slot.starts_at = self._loop.time() + slot.delay
            self._send_elsewhere()
            extra = {"engine": slot.number, "reason": reason, "retry_seconds": slot.delay}
            _LOG.error("engine_ended", extra=extra)
            await asyncio.sleep(slot.delay)
            self._owner.engine_restarts()

    def _mark_lost(self, slot: Slot, reason: str) -> None:
        """Tell the owner before anybody else: who hears of a lost engine must not find the replica ready."""
        was_last = slot.ready and self.ready == 1
        slot.progress, slot.ready = None, False
        if was_last and (self._absent_since is None or self._was_steady(slot)):
            self._absent_since = self._loop.time()
        self._fault = Fault(reason="LoadFailed" if self._start_seconds is None else "EngineLost", message=reason)
        self._tell()

    def _tell(self) -> None:
        self._owner.engines_changed(ready=[slot.number for slot in self._slots if slot.ready], fault=self._fault)

    def _was_steady(self, slot: Slot) -> bool:
        return recovery.is_steady(slot.ready_since, self._loop.time(), self._settings.lost_seconds)

    def _send_elsewhere(self) -> None:
        """Have those told at once for whom no engine will be there in time: another replica may be."""
        prospects = [slot.prospect(self._start_seconds or 0.0) for slot in self._slots]
        error = EngineLostError("no engine will be there in time to encode the request")
        self._batcher.expect(recovery.back_at(prospects), error)

    async def _live(self, slot: Slot) -> str:
        """Run one engine process from birth to death; return why it ended, empty where its exit tells."""
        try:
            slot.link = await Link.spawn(self._command, self._settings.arguments)
            await self._greet(slot, slot.link)
            slot.ready, slot.ready_since = True, self._loop.time()
            took = slot.ready_since - slot.starts_at
            self._start_seconds, self._fault = min(took, self._start_seconds or took), None
            self._batcher.open()
            _LOG.info("engine_ready", extra={"engine": slot.number, "batch_budget": self._batcher.budget})
            self._tell()  # First: a replica with an engine that serves must not be seen to go back to STARTING.
            self._hear(slot, None)
            while True:
                batch = await self._batcher.take(slot.link.lost)
                await self._serve(slot, slot.link, batch)
                wrong = None if batch.probed is None else self._owner.examine(slot.number, batch.probed)
                if wrong is not None:  # Another process loads everything anew.
                    raise LostError(f"engine {slot.number} was ended: {wrong}")
                slot.delay, slot.losses = 0.0, 0
                self._absent_since = None
        except messages.ConnectionLostError:
            return ""
        except LostError as lost:
            return lost.reason
        except OSError as failed:
            return f"an engine could not be started or spoken to (errno {failed.errno})"
        except Exception:
            _LOG.exception("engine_supervision_failed")
            return "an internal fault; the log has more"

    async def _greet(self, slot: Slot, link: Link) -> None:
        hello = await greet(link, self._settings.load_seconds, lambda progress: self._hear(slot, progress))
        difference = self._owner.greet(slot.number, hello.measured)
        if difference is not None:
            raise LostError(difference)
        self._batcher.suit(hello)

    def _hear(self, slot: Slot, progress: Progress | None) -> None:
        """Take in how a start goes, or that it is over; a line in the log for each stage, and now and then."""
        before, slot.progress = slot.progress, progress
        now = self._loop.time()
        if progress is not None:
            new = before is None or before.stage != progress.stage
            if new or now - slot.told_at >= _LOG_SECONDS:
                slot.told_at = now
                extra = {"engine": slot.number, "stage": progress.stage, "done": progress.done, "total": progress.total}
                _LOG.info("engine_progress", extra=extra)
        self._owner.engine_progresses(farthest(self._slots))

    async def _serve(self, slot: Slot, link: Link, batch: Batch) -> None:
        """Have one batch done; what an engine that is lost on the way means to it, the batcher knows.

        A batch of several callers gets half of a request's time: were it stuck for all of it, no time would be
        left to find the one who did it.
        """
        self._labour = self._labour.begin(self._loop.time(), self._settings.lost_seconds)
        done = False
        limit = self._seconds / 2 if batch.shared else self._seconds + self._settings.grace_seconds
        try:
            async with asyncio.timeout(limit):
                await converse(link, batch, next(self._numbers), self._batcher)
                done = True
        except TimeoutError:
            reason = f"an engine was stuck in one batch for {limit:g} s and was killed"
            self._mark_lost(slot, reason)
            self._batcher.give_up(batch)
            raise LostError(reason) from None
        except BaseException:
            self._mark_lost(slot, f"engine {slot.number} was lost in the middle of a batch")
            self._batcher.lose(batch)
            raise
        finally:
            self._labour = self._labour.end(self._loop.time(), done=done)
