"""The engine's loop: one socket, one encoder, one batch at a time.

Place: between the front's `engines` (the other end of the socket) and `pipeline`.

Must never: decide anything about a request, outlive the front, or answer a batch twice.
"""

from __future__ import annotations

import contextlib
import logging
import math
import socket
import time
from collections.abc import Callable, Sequence

import torch

from encoder_server.encoders import RefusedError, progress
from encoder_server.engine import budget
from encoder_server.engine.asides import Cancel, Progress
from encoder_server.engine.encode import Embedding
from encoder_server.engine.inbox import Inbox
from encoder_server.engine.messages import (
    ConnectionLostError,
    Encode,
    Encoded,
    Failure,
    Hello,
    Measured,
    Output,
    Probe,
    Probed,
    Promised,
    Refused,
    Stop,
    send,
)
from encoder_server.engine.pipeline import Pipeline
from encoder_server.engine.preprocess import Medium

REFUSED = 3
_TELL_SECONDS = 0.5
_log = logging.getLogger(__name__)


def run(sock: socket.socket, load: Callable[[], Pipeline], *, threads: int) -> int:
    """Serve the front at the other end of `sock` (blocking, SOCK_SEQPACKET) until it stops or is gone.

    Returns the exit status: 0 after Stop or end of file, 3 after Refused (`load` raised RefusedError).
    """
    torch.set_num_threads(threads)
    try:
        with progress.listening(Telling(sock)):
            pipeline = load()
            measured = pipeline.measure()
            batch_budget = _budget(pipeline, measured)
    except RefusedError as refusal:
        _log.error("refused: %s", refusal)
        # A key of a file may hold half a character (a lone surrogate), which cannot travel.
        detail = str(refusal).encode(errors="replace").decode()
        return _say(sock, Refused(detail=detail), REFUSED)
    inbox = Inbox(sock)
    try:
        send(sock, Hello(measured=measured, together=pipeline.together, batch_budget=batch_budget))
        while _serve(sock, pipeline, inbox):
            pass
    except ConnectionLostError:
        _log.info("the front is gone")
    return 0


class Telling:
    """Tells the front how the start goes: each stage at once, and what is done of it now and then."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._stage: str | None = None
        self._told = -math.inf

    def __call__(self, told: Progress) -> None:
        """Tell it, or not where it was told of this stage just now."""
        now = time.monotonic()
        if told.stage == self._stage and now - self._told < _TELL_SECONDS:
            return
        self._stage, self._told = told.stage, now
        with contextlib.suppress(ConnectionLostError):  # It is noticed by who reads.
            send(self._sock, told)


def _budget(pipeline: Pipeline, measured: Measured) -> int:
    """Measure the batch budget, where pictures can be tried; elsewhere it is as the encoder says."""
    most = pipeline.batch_budget if pipeline.together else 0
    if not most or "image" not in measured.declared:
        return most
    progress.tell("measuring")
    return budget.measure(pipeline, most, budget.gauge(measured.advisory["device"]))


def _say(sock: socket.socket, refused: Refused, status: int) -> int:
    try:
        send(sock, refused)
    except ConnectionLostError:
        _log.info("the front is gone")
    return status


def _serve(sock: socket.socket, pipeline: Pipeline, inbox: Inbox) -> bool:
    received = inbox.next()
    message = received.message
    match message:
        case Encode():
            _encode(sock, pipeline, message, received.blobs, inbox)
        case Probe():
            items, signature = pipeline.probe(message.sizes)
            send(sock, Probed(batch=message.batch, items=items, signature=signature))
        case Cancel():
            pass  # It crossed with the batch's answer.
        case Stop():
            return False
        case _:
            _log.error("a message that only an engine sends: %s", message.kind)
    return True


def _encode(
    sock: socket.socket, pipeline: Pipeline, message: Encode, blobs: Sequence[memoryview], inbox: Inbox
) -> None:
    media = [
        Medium(
            index=item.index,
            modality=item.modality,
            data=b"" if item.frames else blobs[item.blob],
            frames=tuple(blobs[item.blob : item.blob + item.frames]),
            fps=item.fps,
            expected_tokens=item.expected_tokens,
        )
        for item in message.items
    ]
    prepared = pipeline.prepare(media)
    send(sock, Promised(batch=message.batch, promises=prepared.promises, failures=prepared.failures))
    embeddings, failures = pipeline.encode(prepared, wanted=lambda index: index not in inbox.cancelled(message.batch))
    send(sock, _encoded(message.batch, embeddings, failures), [item.raw() for item in embeddings])


def _encoded(batch: int, embeddings: Sequence[Embedding], failures: Sequence[Failure]) -> Encoded:
    outputs = tuple(
        Output(
            index=embedding.index,
            modality=embedding.modality,
            shape=tuple(embedding.rows.shape),
            dtype=embedding.dtype,
            finite=embedding.finite,
            blob=blob,
        )
        for blob, embedding in enumerate(embeddings)
    )
    return Encoded(batch=batch, outputs=outputs, failures=tuple(failures))
