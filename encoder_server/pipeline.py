"""The pipeline: a request's way, told once. admit → body → media → recall → engine (promise, rows) → check → deliver.

Place: called by `routes`; every step is a module of its own. Must never: know of HTTP, deliver what the check
did not pass, or leave a request without a definite end by its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from encoder_server import faults, media, wire
from encoder_server.admission import Admission, Held, Permit
from encoder_server.check import Passed, Violation, check_batch, in_order
from encoder_server.deliver import Answer, at_once, deliver
from encoder_server.encoding import Encoding, Outcome
from encoder_server.engine.messages import Measured
from encoder_server.errors import EncoderServerError, InternalError, PromiseTimeoutError, RequestTimeoutError
from encoder_server.evidence import Evidence
from encoder_server.faults import Bearings
from encoder_server.intake import Intake
from encoder_server.media import Medium
from encoder_server.recall import Recall
from encoder_server.replica import Replica
from encoder_server.settings import Limits
from encoder_server.trail import Trail

_NOT_ENCODED = "the request was not encoded by its deadline"
_NOT_COME = "body: it had not come whole by the deadline"


class Arriving(Protocol):
    """A body on its way in."""

    def here(self) -> bytes | None:
        """Return it, once, where all of it has come and nothing is to be done with it; else None."""

    async def read(self) -> bytes:
        """Return it once it has come."""


class Call(NamedTuple):
    """A request before its body was read; `most_bytes` bounds the body. `caller` is whose turn at the engines it takes.

    `tell` sends the promises, where `accept` asks for them before the rows. `held` is released when the answer is
    written: until then it takes a place, for it may be large, and its caller slow to read. `trail` remembers what was
    done.
    """

    request_id: str
    trail: Trail
    caller: str
    accept: str | None
    content_type: str | None
    most_bytes: int
    body: Arriving
    tell: Callable[[bytes], Awaitable[None]]
    held: Held


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of one server."""

    limits: Limits
    revision: str
    admission: Admission
    intake: Intake
    recall: Recall
    replica: Replica
    evidence: Evidence

    async def encode(self, call: Call) -> Answer:
        """Answer one request; raises an EncoderServerError. Its permit is given back when `call.held` is released."""
        permit = call.held.take(self.admission.admit(call.most_bytes, self.limits.deadline_seconds, call.caller))
        with call.trail.stage("total"):
            form = wire.negotiate(call.accept)
            body = await self._receive(call, permit)
            measured, origin = self._measured(), self._origin(call)
            items = await self._take(call, body, measured, permit)
            del body  # Held on to, media in base64 or of a small part would be there twice.
            known = None if form is wire.Form.MULTIPART else self._known(call, items, measured, origin)
            if known is not None:
                return at_once(form, known, origin)
            async with self._in_time(permit):
                with await self._recall(call, items, measured, origin, permit) as encoding:
                    await self._promise(call, form, encoding, measured, origin)
                    passed = await self._encode(call, encoding, measured)
                with call.trail.stage("deliver"):
                    return await deliver(form, passed, origin)

    @asynccontextmanager
    async def _in_time(
        self, permit: Permit, late: type[EncoderServerError] = PromiseTimeoutError, words: str = _NOT_ENCODED
    ) -> AsyncIterator[None]:
        """Wait no longer than the request's deadline; a timer, so only around what may be waited for."""
        try:
            async with asyncio.timeout_at(permit.deadline):
                yield
        except TimeoutError:
            raise late(f"{words} ({self.limits.deadline_seconds:g} s)") from None

    async def _receive(self, call: Call, permit: Permit) -> media.Body:
        with call.trail.stage("body"):
            data = call.body.here()
            if data is None:
                async with self._in_time(permit, RequestTimeoutError, _NOT_COME):  # Who dribbles is at fault.
                    data = await call.body.read()
        permit.resize(len(data))
        return media.Body(content_type=call.content_type, data=data)

    async def _take(self, call: Call, body: media.Body, measured: Measured, permit: Permit) -> Sequence[Medium]:
        with call.trail.stage("media"):
            items = self.intake.at_once(body, measured.declared)
            if items is not None:
                return items
            async with self._in_time(permit):
                return await self.intake.take(body, measured.declared, permit)

    def _known(self, call: Call, items: Sequence[Medium], measured: Measured, origin: wire.Origin) -> Passed | None:
        """Return the rows of what was encoded before; None where anything is to be waited for, be it a thread."""
        with call.trail.stage("cache") as timing:
            passed = self.recall.known(items, measured, origin.fingerprint, origin.revision)
            if passed is None:
                timing.drop()  # What `_recall` takes is the stage's time.
                return None
        call.trail.found(items=len(items), cached=len(items))
        call.trail.promised(tokens=sum(rows.promise.tokens for rows in passed.rows), taken_at=None)
        return passed

    async def _recall(
        self, call: Call, items: Sequence[Medium], measured: Measured, origin: wire.Origin, permit: Permit
    ) -> Encoding:
        with call.trail.stage("cache"):
            encoding = await self.recall.begin(
                items, measured, origin.fingerprint, origin.revision, permit.deadline, call.caller
            )
        call.trail.found(items=len(items), cached=len(encoding.recalled))
        return encoding

    async def _promise(
        self, call: Call, form: wire.Form, encoding: Encoding, measured: Measured, origin: wire.Origin
    ) -> None:
        """Wait for every promise; an item that gets none fails the request here, before anything is promised."""
        with call.trail.stage("promise"):
            promises, without = await encoding.promised()
        call.trail.promised(tokens=sum(promise.tokens for promise in promises), taken_at=encoding.taken_at)
        if without:
            await self._check(call, without, measured)
            raise InternalError("an item got no promise")
        if form is wire.Form.MULTIPART:
            await call.tell(wire.render_promises(promises, origin))

    async def _encode(self, call: Call, encoding: Encoding, measured: Measured) -> Passed:
        with call.trail.stage("encode"):
            outcomes = await encoding.finished()
        return in_order([*encoding.recalled, await self._check(call, outcomes, measured)])

    async def _check(self, call: Call, outcomes: Sequence[Outcome], measured: Measured) -> Passed:
        """Check, take the result in evidence whoever is at fault, and fail the request where anything failed."""
        bearings = Bearings(
            request_id=call.request_id,
            model_revision=measured.weights,
            processor_revision=measured.processor,
        )
        passed: list[Passed] = []
        violations: list[Violation] = []
        with call.trail.stage("check"):
            for outcome in outcomes:
                good, bad = check_batch(outcome.batch, measured.declared)
                self.evidence.take(outcome, good, bad, bearings)
                passed.append(good)
                violations += bad
        await self.recall.keep(outcomes, passed)
        error = faults.blame([failure for each in outcomes for failure in each.batch.failures], violations, bearings)
        if error is not None:
            raise error
        return in_order(passed)

    def _measured(self) -> Measured:
        if self.replica.measured is None:
            raise InternalError("admitted before anything was measured")
        return self.replica.measured

    def _origin(self, call: Call) -> wire.Origin:
        return wire.Origin(
            request_id=call.request_id, fingerprint=self.replica.fingerprint or "", revision=self.revision
        )
