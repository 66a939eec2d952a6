"""The engines: spawned, greeted, given batches one at a time, watched, and started again.

Place: between the batcher and the engine processes; all that the front knows of the device.
Must never: block the event loop, let an engine with another identity serve, or lose a batch without a word.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from encoder_server import recovery
from encoder_server.batch import Batch
from encoder_server.batcher import Batcher
from encoder_server.engine import messages
from encoder_server.engine.asides import Cancel
from encoder_server.errors import EngineLostError
from encoder_server.lifecycle import Fault
from encoder_server.link import Link
from encoder_server.recovery import Prospect
from encoder_server.settings import EngineSettings

_LOG = logging.getLogger(__name__)


class Owner(Protocol):
    """Who is told of the engines: the replica."""

    def greet(self, measured: messages.Measured) -> str | None:
        """Take an engine in, or say why not."""

    def engines_changed(self, *, ready: bool, fault: Fault | None) -> None:
        """Hear whether any engine serves, and, where none does, why."""

    def engine_restarts(self) -> None:
        """Count one restart."""


class _LostError(Exception):
    """An engine is of no more use; the fault says why."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class _Slot:
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
        self._slots = [_Slot(number) for number in range(settings.count)]
        self._numbers = itertools.count(1)
        self._loop = asyncio.get_running_loop()
        self._start_seconds: float | None = None
        self._fault: Fault | None = None
        self._absent_since: float | None = None

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
        """Why the engines are taken for lost for good: they served, restarts came to nothing, and for `lost_seconds`
        (and the time of two starts on top) none has served. None while they are not."""
        since, patience = self._absent_since, self._settings.lost_seconds
        if self.ready or since is None or self._fault is None:
            return None
        losses = [slot.losses for slot in self._slots]
        gone = recovery.is_for_good(losses, since, self._loop.time(), patience, self._start_seconds or 0.0)
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

    async def _keep(self, slot: _Slot) -> None:
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

    def _mark_lost(self, slot: _Slot, reason: str) -> None:
        """Tell the owner before anybody else: who hears of a lost engine must not find the replica ready."""
        was_last, slot.ready = slot.ready and self.ready == 1, False
        if was_last and (self._absent_since is None or self._was_steady(slot)):
            self._absent_since = self._loop.time()
        self._fault = Fault(reason="LoadFailed" if self._start_seconds is None else "EngineLost", message=reason)
        self._owner.engines_changed(ready=self.ready > 0, fault=self._fault)

    def _was_steady(self, slot: _Slot) -> bool:
        return recovery.is_steady(slot.ready_since, self._loop.time(), self._settings.lost_seconds)

    def _send_elsewhere(self) -> None:
        """Have those told at once for whom no engine will be there in time: another replica may be."""
        start = self._start_seconds or 0.0
        prospects = [
            Prospect(ready=slot.ready, failed=slot.failed, earliest=slot.starts_at + start) for slot in self._slots
        ]
        error = EngineLostError("no engine will be there in time to encode the request")
        self._batcher.expect(recovery.back_at(prospects), error)

    async def _live(self, slot: _Slot) -> str:
        """Run one engine process from birth to death; return why it ended, empty where its exit tells."""
        try:
            slot.link = await Link.spawn(self._command, self._settings.arguments)
            await self._greet(slot.link)
            slot.ready, slot.ready_since = True, self._loop.time()
            took = slot.ready_since - slot.starts_at
            self._start_seconds = min(took, self._start_seconds or took)
            self._fault = None
            self._batcher.open()
            _LOG.info("engine_ready", extra={"engine": slot.number})
            self._owner.engines_changed(ready=self.ready > 0, fault=self._fault)
            while True:
                await self._serve(slot, slot.link, await self._batcher.take(slot.link.lost))
                slot.delay, slot.losses = 0.0, 0
                self._absent_since = None
        except messages.ConnectionLostError:
            return ""
        except _LostError as lost:
            return lost.reason
        except OSError as failed:
            return f"an engine could not be started or spoken to (errno {failed.errno})"
        except Exception:
            _LOG.exception("engine_supervision_failed")
            return "an internal fault; the log has more"

    async def _greet(self, link: Link) -> None:
        try:
            async with asyncio.timeout(self._settings.load_seconds):
                received = await link.receive()
        except TimeoutError:
            raise _LostError(f"no engine was ready within {self._settings.load_seconds:g} s") from None
        match received.message:
            case messages.Hello(measured=measured) as hello:
                difference = self._owner.greet(measured)
                if difference is not None:
                    raise _LostError(f"an engine that was started again measured {difference}")
                self._batcher.suit(hello)
            case messages.Refused(detail=detail):
                raise _LostError(detail)
            case other:
                raise _LostError(f"an engine greeted with {other.kind}")

    async def _serve(self, slot: _Slot, link: Link, batch: Batch) -> None:
        """Have one batch done; what an engine that is lost on the way means to it, the batcher knows.

        A batch of several callers gets half of a request's time: were it stuck for all of it, no time would be
        left to find the one who did it.
        """
        limit = self._seconds / 2 if batch.shared else self._seconds + self._settings.grace_seconds
        try:
            async with asyncio.timeout(limit):
                await self._converse(link, batch)
        except TimeoutError:
            reason = f"an engine was stuck in one batch for {limit:g} s and was killed"
            self._mark_lost(slot, reason)
            self._batcher.give_up(batch)
            raise _LostError(reason) from None
        except BaseException:
            self._mark_lost(slot, f"engine {slot.number} was lost in the middle of a batch")
            self._batcher.lose(batch)
            raise

    async def _converse(self, link: Link, batch: Batch) -> None:
        number = next(self._numbers)
        await link.send(batch.message(number), batch.blobs)
        batch.watch(_canceller(link, batch, number))
        try:
            while True:
                received = await link.receive()
                match received.message:
                    case messages.Promised(batch=told) as promised if told == number:
                        batch.publish(promised)
                    case messages.Encoded(batch=told) | messages.Probed(batch=told) if told == number:
                        self._batcher.finish(batch, received)
                        return
                    case other:
                        raise _LostError(f"an engine sent {other.kind} out of turn")
        finally:
            batch.watch(None)


def _canceller(link: Link, batch: Batch, number: int) -> Callable[[], None]:
    """Return what tells the engine which items nobody waits for, once for all that are left in one go."""
    loop = asyncio.get_running_loop()
    told: tuple[int, ...] = ()
    due = False

    def tell() -> None:
        nonlocal told, due
        due = False
        if batch.abandoned != told:
            told = batch.abandoned
            link.hint(Cancel(batch=number, items=told))

    def left() -> None:
        nonlocal due
        if not due:
            due = True
            loop.call_soon(tell)

    left()  # Somebody may have left while the batch was sent.
    return left
