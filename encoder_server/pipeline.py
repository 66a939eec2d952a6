"""The pipeline: a request's way, told once. admit → media → engine (promise, then rows) → check → deliver.

Place: called by `routes`; every step is a module of its own. Must never: know of HTTP, deliver what the check
did not pass, or leave a request without a definite end by its deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from encoder_server import faults, media, wire
from encoder_server.admission import Admission, Permit
from encoder_server.batch import Work
from encoder_server.check import Batch, Passed, check_batch
from encoder_server.deliver import Answer, deliver
from encoder_server.engine import messages
from encoder_server.engines import Engines
from encoder_server.errors import InternalError, PromiseTimeoutError
from encoder_server.evidence import Evidence
from encoder_server.faults import Bearings
from encoder_server.media import Medium
from encoder_server.metrics import Metrics
from encoder_server.replica import Replica
from encoder_server.settings import Limits


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request before its body was read; `most_bytes` bounds the body that `read` returns."""

    request_id: str
    accept: str | None
    most_bytes: int
    read: Callable[[], Awaitable[bytes]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pipeline:
    """The stages of one server."""

    limits: Limits
    revision: str
    admission: Admission
    engines: Engines
    replica: Replica
    evidence: Evidence
    metrics: Metrics

    async def encode(self, call: Call) -> Answer:
        """Answer one request; raises an EncoderServerError. Cancelling it gives everything back."""
        with (
            self.admission.admit(call.most_bytes, self.limits.deadline_seconds) as permit,
            self.metrics.stage("total"),
        ):
            form = wire.negotiate(call.accept)
            try:
                async with asyncio.timeout_at(permit.deadline):
                    measured = self._measured()
                    items = await self._take(call, permit, measured)
                    checked = await self._encode(items)
                    passed = self._check(call, items, checked, measured)
                    with self.metrics.stage("deliver"):
                        return await deliver(form, passed, self._origin(call))
            except TimeoutError:
                seconds = f"{self.limits.deadline_seconds:g} s"
                raise PromiseTimeoutError(f"the request was not encoded by its deadline ({seconds})") from None

    async def _take(self, call: Call, permit: Permit, measured: messages.Measured) -> Sequence[Medium]:
        body = await call.read()
        permit.resize(len(body))
        with self.metrics.stage("media"):
            return await asyncio.to_thread(media.take, body, tuple(measured.declared), self.limits)

    async def _encode(self, items: Sequence[Medium]) -> Batch:
        """Have the engine promise and encode; a caller who leaves takes the batch out of the queue."""
        batch = self.engines.submit(_work(items))
        try:
            with self.metrics.stage("promise"):
                promised = await batch.promised
            with self.metrics.stage("encode"):
                received = await batch.finished
        finally:
            batch.abandon()
        if not isinstance(received.message, messages.Encoded):
            raise InternalError("the engine answered another question")
        failures = {failure.index: failure for failure in (*received.message.failures, *promised.failures)}
        return Batch(
            asked={item.index: item.modality for item in items},
            promises=promised.promises,
            outputs=received.message.outputs,
            blobs=received.blobs,
            failures=tuple(failures.values()),
        )

    def _check(self, call: Call, items: Sequence[Medium], batch: Batch, measured: messages.Measured) -> Passed:
        """Check, take the result in evidence whoever is at fault, and fail the request where anything failed."""
        passed, violations = check_batch(batch, measured.declared)
        bearings = Bearings(
            request_id=call.request_id,
            model_revision=measured.weights,
            processor_revision=measured.processor,
        )
        self.evidence.fresh(passed, violations, {item.index: item for item in items}, bearings)
        error = faults.blame(batch.failures, violations, bearings)
        if error is not None:
            raise error
        return passed

    def _measured(self) -> messages.Measured:
        if self.replica.measured is None:
            raise InternalError("admitted before anything was measured")
        return self.replica.measured

    def _origin(self, call: Call) -> wire.Origin:
        return wire.Origin(
            request_id=call.request_id, fingerprint=self.replica.fingerprint or "", revision=self.revision
        )


def _work(items: Sequence[Medium]) -> Work:
    return Work(
        items=tuple(
            messages.Item(index=item.index, modality=item.modality, blob=blob, expected_tokens=item.expected_tokens)
            for blob, item in enumerate(items)
        ),
        blobs=tuple(item.content for item in items),
    )
