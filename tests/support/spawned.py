"""A real engine process at the other end of a socket pair, spoken to as the front does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from encoder_server.engine import messages
from encoder_server.engine.asides import Progress

ROOT = Path(__file__).parents[2]
# Importing torch alone takes ten seconds of a processor, and a busy machine gives a fraction of one.
LOADING_SECONDS = 300.0
ANSWER_SECONDS = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What an engine said of one batch, and the embeddings by item index."""

    promised: messages.Promised
    encoded: messages.Encoded
    rows: Mapping[int, NDArray[Any]]


class Engine:
    """An engine that is loading; `greeting` waits until it is ready."""

    def __init__(
        self, *arguments: str, python_path: Sequence[Path] = (), environment: Mapping[str, str] | None = None
    ) -> None:
        self.sock, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        path = os.pathsep.join(str(part) for part in (*python_path, ROOT))
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "encoder_server.engine", "--fd", str(theirs.fileno()), *arguments],
                pass_fds=(theirs.fileno(),),
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": path, **(environment or {})},
            )
        self._greeting: messages.Message | None = None

    def greeting(self) -> messages.Message:
        """Hello or Refused."""
        if self._greeting is None:
            self.sock.settimeout(LOADING_SECONDS)
            self._greeting = greeting(self.sock)
            self.sock.settimeout(ANSWER_SECONDS)
        return self._greeting

    def measured(self) -> messages.Measured:
        """What it measured; the engine must have come up."""
        hello = self.greeting()
        assert isinstance(hello, messages.Hello), hello
        return hello.measured

    def encode(self, pictures: Sequence[bytes], expected: Mapping[int, int] | None = None) -> Answer:
        """Have a batch of pictures encoded; `expected` gives a caller's own count by index."""
        self.greeting()
        items = tuple(
            messages.Item(index=at, modality="image", blob=at, expected_tokens=(expected or {}).get(at))
            for at in range(len(pictures))
        )
        messages.send(self.sock, messages.Encode(batch=7, items=items), pictures)
        return answer(self.sock)

    def encode_video(self, content: bytes) -> Answer:
        """Have one video file encoded."""
        self.greeting()
        items = (messages.Item(index=0, modality="video", blob=0),)
        messages.send(self.sock, messages.Encode(batch=7, items=items), [content])
        return answer(self.sock)

    def peak(self) -> int:
        """The most memory that its process has held at a time, in bytes."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmHWM:")[2].split()[0])

    def probe(self, *sizes: messages.Size) -> messages.Probed:
        """Have the golden probe run, and these sizes."""
        self.greeting()
        messages.send(self.sock, messages.Probe(batch=8, sizes=sizes))
        probed = messages.receive(self.sock).message
        assert isinstance(probed, messages.Probed)
        return probed

    def close(self) -> int:
        """Close the front's end, as a front that dies does, and return how the engine left."""
        self.sock.close()
        return self.process.wait(ANSWER_SECONDS)


def greeting(sock: socket.socket) -> messages.Message:
    """Receive the first message that does not only say how the start goes."""
    while isinstance(message := messages.receive(sock).message, Progress):
        pass
    return message


def answer(sock: socket.socket) -> Answer:
    """Receive the two messages that answer a batch."""
    promised = messages.receive(sock).message
    assert isinstance(promised, messages.Promised)
    received = messages.receive(sock)
    encoded = received.message
    assert isinstance(encoded, messages.Encoded)
    rows = {
        output.index: numpy.frombuffer(received.blobs[output.blob], output.dtype).reshape(output.shape)
        for output in encoded.outputs
    }
    return Answer(promised=promised, encoded=encoded, rows=rows)
