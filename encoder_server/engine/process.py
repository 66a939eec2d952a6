"""The engine's loop: one socket, one encoder, one batch at a time.

Place: between the front's `engines` (the other end of the socket) and `pipeline`.

Must never: decide anything about a request, outlive the front, or answer a batch twice.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Callable, Sequence

import torch

from encoder_server.encoders import RefusedError
from encoder_server.engine.encode import Embedding
from encoder_server.engine.messages import (
    ConnectionLostError,
    Encode,
    Encoded,
    Failure,
    Hello,
    Output,
    Probe,
    Probed,
    Promised,
    Received,
    Refused,
    Stop,
    receive,
    send,
)
from encoder_server.engine.pipeline import Pipeline
from encoder_server.engine.preprocess import Medium

REFUSED = 3
_log = logging.getLogger(__name__)


def run(sock: socket.socket, load: Callable[[], Pipeline], *, threads: int) -> int:
    """Serve the front at the other end of `sock` (blocking, SOCK_SEQPACKET) until it stops or is gone.

    Returns the exit status: 0 after Stop or end of file, 3 after Refused (`load` raised RefusedError).
    """
    torch.set_num_threads(threads)
    try:
        pipeline = load()
        measured = pipeline.measure()
    except RefusedError as refusal:
        _log.error("refused: %s", refusal)
        # A key of a file may hold half a character (a lone surrogate), which cannot travel.
        detail = str(refusal).encode(errors="replace").decode()
        return _say(sock, Refused(detail=detail), REFUSED)
    try:
        send(sock, Hello(measured=measured, together=pipeline.together, batch_budget=pipeline.batch_budget))
        while _serve(sock, pipeline, receive(sock)):
            pass
    except ConnectionLostError:
        _log.info("the front is gone")
    return 0


def _say(sock: socket.socket, refused: Refused, status: int) -> int:
    try:
        send(sock, refused)
    except ConnectionLostError:
        _log.info("the front is gone")
    return status


def _serve(sock: socket.socket, pipeline: Pipeline, received: Received) -> bool:
    message = received.message
    match message:
        case Encode():
            _encode(sock, pipeline, message, received.blobs)
        case Probe():
            items, signature = pipeline.probe(message.sizes)
            send(sock, Probed(batch=message.batch, items=items, signature=signature))
        case Stop():
            return False
        case _:
            _log.error("a message that only an engine sends: %s", message.kind)
    return True


def _encode(sock: socket.socket, pipeline: Pipeline, message: Encode, blobs: Sequence[memoryview]) -> None:
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
    embeddings, failures = pipeline.encode(prepared)
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
