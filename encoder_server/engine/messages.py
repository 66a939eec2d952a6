"""What front and engine say to each other, and how it travels.

Place: between `engines` (the front's side) and `engine.process`. Each message is a packet of a JSON head and raw
blobs on a SOCK_SEQPACKET socket; `packets` carries it.

Must never: import torch or aiohttp, use pickle, or hold a decision.
To the engine: Encode, Cancel, Probe, Stop. From it: Progress, then Hello or Refused; Promised, Encoded, Probed.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeVar

import pydantic
from pydantic.dataclasses import dataclass as validated

from encoder_server.engine import packets
from encoder_server.engine.asides import Cancel, Progress
from encoder_server.size import Size as Size


@validated(frozen=True, kw_only=True)
class Promise:
    """What the processor's own output says that the encoder will produce for one item: rows and grid.

    `size` is what the medium was once decoded, where its header does not tell.
    """

    index: int
    modality: str
    tokens: int
    grid: tuple[int, ...]
    size: Size | None = None


@validated(frozen=True, kw_only=True)
class Output:
    """One item's embedding as the model's geometry split it. `blob` is its place among the blobs."""

    index: int
    modality: str
    shape: tuple[int, ...]
    dtype: str
    finite: bool
    blob: int


@validated(frozen=True, kw_only=True)
class Failure:
    """One item that the engine could not encode.

    `code` is an error code of `encoder_server.errors`: bad_media (the caller's), layout (processor and model
    disagree), promise_mismatch (the caller expected another count), out_of_memory or internal. `detail` is
    our own text: never a library's; `frame` is which of a list's it is about. `size` is as a Promise has it.
    """

    index: int
    modality: str
    code: Literal["bad_media", "layout", "promise_mismatch", "out_of_memory", "internal"]
    detail: str
    promised: int | None = None
    grid: tuple[int, ...] | None = None
    size: Size | None = None
    frame: int | None = None


@validated(frozen=True, kw_only=True)
class Item:
    """One medium to encode: `blob` holds its undecoded bytes, or the first of `frames` pictures in a row that are a
    video, shown at `fps`. `expected_tokens` is the caller's own count."""

    index: int
    modality: str
    blob: int
    frames: int = 0
    fps: float | None = None
    expected_tokens: int | None = None


@validated(frozen=True, kw_only=True)
class ProbeItem(Size):
    """One synthetic medium, by its size, on its way through the pipeline; `produced` is null if the layout failed."""

    index: int
    grid: tuple[int, ...] | None
    promised: int | None
    produced: int | None
    result: Literal["ok", "count", "width", "dtype", "nonfinite", "layout"]


@validated(frozen=True, kw_only=True)
class Declared:
    """For a modality: row width, dtype name, whether its promise is independent of its model or its own word, and how
    many seconds one sound or video may last, where the encoder takes no longer ones (None: it states no limit)."""

    width: int
    dtype: str
    check: Literal["promise", "self"]
    max_seconds: Annotated[float, pydantic.Field(gt=0, allow_inf_nan=False)] | None = None


@validated(frozen=True, kw_only=True)
class Measured:
    """An engine's identity as measured after loading: exact parts, signature and advisory parts.

    `weights`, `processor`, `config` (the tower's): hex digests; `signature`: base64 of 16 little-endian float32.
    """

    weights: str
    processor: str
    config: str
    classes: dict[str, str]
    declared: dict[str, Declared]
    probe: tuple[ProbeItem, ...]
    signature: str | None
    advisory: dict[str, str]


@validated(frozen=True, kw_only=True)
class Encode:
    """Front to engine: encode these items as one batch; `blobs` carry the media."""

    kind: Literal["encode"] = "encode"
    batch: int
    items: tuple[Item, ...]


@validated(frozen=True, kw_only=True)
class Probe:
    """Front to engine: run the golden probe and, beside it, synthetic media of these sizes."""

    kind: Literal["probe"] = "probe"
    batch: int
    sizes: tuple[Size, ...]


@validated(frozen=True, kw_only=True)
class Stop:
    """Front to engine: leave now; nothing is in flight."""

    kind: Literal["stop"] = "stop"


@validated(frozen=True, kw_only=True)
class Hello:
    """Engine to front: loaded, warmed up and probed; this is what was measured. `together`: whether items of several
    callers may share a batch. `batch_budget`: pixels up to which that was measured to pay off; 0: never."""

    kind: Literal["hello"] = "hello"
    measured: Measured
    together: bool = False
    batch_budget: int = 0


@validated(frozen=True, kw_only=True)
class Refused:
    """Engine to front: this checkpoint cannot be served. `detail` names the file or key, in our own words."""

    kind: Literal["refused"] = "refused"
    detail: str


@validated(frozen=True, kw_only=True)
class Promised:
    """Engine to front, before the model runs: the promises, and the items that got none."""

    kind: Literal["promised"] = "promised"
    batch: int
    promises: tuple[Promise, ...]
    failures: tuple[Failure, ...]


@validated(frozen=True, kw_only=True)
class Encoded:
    """Engine to front: the embeddings (raw, row major, little endian, one blob each) and the failed items."""

    kind: Literal["encoded"] = "encoded"
    batch: int
    outputs: tuple[Output, ...]
    failures: tuple[Failure, ...]


@validated(frozen=True, kw_only=True)
class Probed:
    """Engine to front: how each synthetic medium fared, the golden ones first, and what those now sign."""

    kind: Literal["probed"] = "probed"
    batch: int
    items: tuple[ProbeItem, ...]
    signature: str | None = None


Message = Encode | Cancel | Probe | Stop | Progress | Hello | Refused | Promised | Encoded | Probed
_ANY: pydantic.TypeAdapter[Message] = pydantic.TypeAdapter(Annotated[Message, pydantic.Field(discriminator="kind")])


T = TypeVar("T", Promise, Output, Failure)


def numbered(told: T, index: int) -> T:
    """Give what was told of an item as told of item `index`. Not by `replace`, which validates all of it once more."""
    if told.index == index:
        return told
    same = object.__new__(type(told))
    vars(same).update(vars(told), index=index)
    return same


class ConnectionLostError(Exception):
    """The other side is gone: its end of the socket is closed."""


@dataclass(frozen=True, slots=True)
class Received:
    """A message with its blobs; the blobs are views into the message's own memory."""

    message: Message
    blobs: tuple[memoryview, ...]


def send(sock: socket.socket, message: Message, blobs: Sequence[bytes | memoryview] = ()) -> None:
    """Send `message` and `blobs` as one packet; raises ConnectionLostError when the other side is gone."""
    try:
        packets.put(sock, [_ANY.dump_json(message), *blobs])
    except (BrokenPipeError, ConnectionResetError) as lost:
        raise ConnectionLostError from lost


def receive(sock: socket.socket) -> Received:
    """Receive one message; raises ConnectionLostError at end of file, BlockingIOError as the socket does, and
    ValueError for what is no message."""
    try:
        parts = packets.take(sock)
    except ConnectionResetError as lost:
        raise ConnectionLostError from lost
    if not parts:
        raise ConnectionLostError
    return Received(_ANY.validate_json(bytes(parts[0])), tuple(parts[1:]))
