"""The container: an entry of the cache as bytes for a store outside, and back.

Place: between `cache` and a store outside. Pure. What comes back is as hostile as what a caller sends: a store may be
restored from elsewhere, written to by others, or no such store at all.
Must never: believe a length before it is compared, run what it reads, or be read as another layout: one that
changes gets another MAGIC, which is part of the keys as well.

    MAGIC (4)  head's length (4)  rows' length (8)  checksum (16)  head (JSON)  rows (raw, row major, little endian)
"""

from __future__ import annotations

import math
import struct
from typing import Annotated

import pydantic

from encoder_server.cache import Entry
from encoder_server.check import ITEM_SIZES
from encoder_server.engine.messages import Promise

MAGIC = b"EPC2"
MOST_OVERHEAD = 1536
"""Bytes of a container beside its rows, at most."""
_FRAME = struct.Struct("<4sIQ16s")
_MOST_HEAD = MOST_OVERHEAD - _FRAME.size
_Count = Annotated[int, pydantic.Field(ge=0, lt=2**31)]


class CorruptError(Exception):
    """The bytes are no entry of this layout; the message says why, in our own words."""


class _Head(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    modality: str = pydantic.Field(max_length=32)
    tokens: _Count
    grid: tuple[_Count, ...] = pydantic.Field(max_length=16)
    shape: tuple[_Count, _Count]
    dtype: str = pydantic.Field(max_length=16)
    producer: str = pydantic.Field(max_length=256)


def pack(entry: Entry) -> bytes:
    """Return `entry` as bytes; raises ValueError where what is said beside the rows is longer than any reader takes."""
    if len(entry.shape) != 2:
        raise ValueError("rows have two dimensions")
    head = _Head(
        modality=entry.promise.modality,
        tokens=entry.promise.tokens,
        grid=tuple(entry.promise.grid),
        shape=(entry.shape[0], entry.shape[1]),
        dtype=entry.dtype,
        producer=entry.producer,
    )
    encoded = head.model_dump_json().encode()
    if len(encoded) > _MOST_HEAD:
        raise ValueError("what is said beside the rows is too long")
    return b"".join((_FRAME.pack(MAGIC, len(encoded), len(entry.data), entry.checksum), encoded, entry.data))


def unpack(key: str, data: bytes) -> Entry:
    """Return the entry that `data`, found under `key`, holds; raises CorruptError.

    Its checksum is carried over and not compared: whether the entry is intact, under this very key, is for the
    reader to ask it.
    """
    if len(data) < _FRAME.size:
        raise CorruptError("shorter than a frame")
    magic, head_length, data_length, checksum = _FRAME.unpack_from(data)
    if magic != MAGIC:
        raise CorruptError("no entry of this layout")
    start = _FRAME.size + head_length
    if head_length > _MOST_HEAD or start + data_length != len(data):
        raise CorruptError("its lengths are not the value's")
    try:
        head = _Head.model_validate_json(data[_FRAME.size : start])
    except pydantic.ValidationError:
        raise CorruptError("its head is not valid") from None
    if head.dtype not in ITEM_SIZES or math.prod(head.shape) * ITEM_SIZES[head.dtype] != data_length:
        raise CorruptError("its rows do not fill its shape")
    promise = Promise(index=0, modality=head.modality, tokens=head.tokens, grid=head.grid)
    return Entry(
        key=key,
        promise=promise,
        shape=head.shape,
        dtype=head.dtype,
        data=data[start:],
        producer=head.producer,
        checksum=checksum,
    )
