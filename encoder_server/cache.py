"""The cache: embeddings that passed the check, kept in memory within a bound of bytes.

Place: asked by `recall` before anything is encoded, filled by it after the check. Pure.
Must never: take a client's name for content as a key, shorten a digest, hold a view into an engine's memory
(one row would pin a whole batch), or hand out what does not match its checksum without saying so.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass

import blake3

from encoder_server.check import Rows
from encoder_server.engine.messages import Promise

_OVERHEAD = 1024  # bytes of an entry beside its rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """All that rows depend on beside their medium."""

    fingerprint: str
    revision: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item's rows as they were checked. The promise's index means nothing; `producer` is pod uid and boot id."""

    promise: Promise
    shape: tuple[int, ...]
    dtype: str
    data: bytes
    producer: str
    checksum: bytes

    @property
    def size(self) -> int:
        """Bytes that it holds."""
        return len(self.data) + _OVERHEAD

    @property
    def intact(self) -> bool:
        """Whether it is what was sealed."""
        return self.checksum == _checksum(self.promise, self.shape, self.dtype, self.producer, self.data)


def key(modality: str, digest: str, options: dict[str, str], origin: Origin) -> str:
    """Return the key of a medium whose content has this `digest`, encoded with `options` by `origin`."""
    parts = [modality, digest, sorted(options.items()), origin.fingerprint, origin.revision, origin.dtype]
    return blake3.blake3(json.dumps(parts).encode()).hexdigest()


def seal(rows: Rows, producer: str) -> Entry:
    """Copy `rows`, which must have passed the check."""
    data = bytes(rows.data)
    return Entry(
        promise=rows.promise,
        shape=rows.shape,
        dtype=rows.dtype,
        data=data,
        producer=producer,
        checksum=_checksum(rows.promise, rows.shape, rows.dtype, producer, data),
    )


def _checksum(promise: Promise, shape: tuple[int, ...], dtype: str, producer: str, data: bytes) -> bytes:
    about = [promise.modality, promise.tokens, promise.grid, shape, dtype, producer]
    return blake3.blake3(json.dumps(about).encode()).update(data).digest()


class Memory:
    """Entries by key, the least recently used leave first; `most` bytes, 0 holds nothing."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._origin: tuple[str, str] | None = None
        self.bytes = 0

    def belong(self, fingerprint: str, revision: str) -> None:
        """Hold entries of this identity alone: those of another are dropped."""
        if self._origin != (fingerprint, revision):
            self._origin = (fingerprint, revision)
            self._entries.clear()
            self.bytes = 0

    def get(self, key: str) -> Entry | None:
        """Return the entry, which is now the most recently used."""
        entry = self._entries.get(key)
        if entry is not None:
            self._entries.move_to_end(key)
        return entry

    def put(self, key: str, entry: Entry) -> int:
        """Take an entry in, in place of one of the same key; return how many others made room for it.

        One that is larger than the whole cache is not taken, and drives nothing out.
        """
        if entry.size > self._most:
            return 0
        self.drop(key)
        self._entries[key] = entry
        self.bytes += entry.size
        evicted = 0
        while self.bytes > self._most:
            _, oldest = self._entries.popitem(last=False)
            self.bytes -= oldest.size
            evicted += 1
        return evicted

    def drop(self, key: str) -> None:
        """Take an entry out, where it is there."""
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry.size
