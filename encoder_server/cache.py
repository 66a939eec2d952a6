"""The cache: embeddings that passed the check, kept in memory within a bound of bytes.

Place: asked by `recall` before anything is encoded; filled by it after the check, and with what the pool's other
replicas encoded. Pure.
Must never: take a client's name for content as a key, shorten a digest, hold a view into an engine's memory (one row
would pin a whole batch), or hand out what does not match its checksum without saying so.
"""

from __future__ import annotations

import functools
import json
from collections import OrderedDict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import blake3
import xxhash

from encoder_server.check import Rows
from encoder_server.engine.messages import Promise, numbered

MOST_BANS = 256
_OVERHEAD = 1024  # bytes of an entry beside its rows


class Origin(NamedTuple):
    """All that rows depend on beside their medium."""

    fingerprint: str
    revision: str
    dtype: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One item's rows as they were checked, kept under `key`. The promise's index means nothing; `producer` is pod uid
    and boot id."""

    key: str
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

    def rows(self, index: int) -> Rows:
        """Return the rows as those of a request's item."""
        return Rows(numbered(self.promise, index), self.shape, self.dtype, memoryview(self.data))

    @property
    def intact(self) -> bool:
        """Whether it is what was sealed, and sealed under this key: another item's rows are whole, too."""
        return self.checksum == _checksum(self.key, self.promise, self.shape, self.dtype, self.producer, self.data)


@functools.lru_cache(16384)
def key(modality: str, digest: str, options: tuple[tuple[str, str], ...], origin: Origin) -> str:
    """Return the key of a medium whose content has this `digest`, encoded with `options` by `origin`."""
    before, after = _around(modality, tuple(sorted(options)), origin)
    return blake3.blake3(before + digest.encode() + after).hexdigest()


# But for the digest the same for all of a server's life.
@functools.lru_cache(256)
def _around(modality: str, options: tuple[tuple[str, str], ...], origin: Origin) -> tuple[bytes, bytes]:
    """Return what stands before and behind the digest, which is hexadecimal, in the text that is hashed."""
    parts = [options, origin.fingerprint, origin.revision, origin.dtype]
    return f'[{json.dumps(modality)}, "'.encode(), f'", {json.dumps(parts)[1:]}'.encode()


def seal(key: str, rows: Rows, producer: str) -> Entry:
    """Copy `rows`, which must have passed the check, to be kept under `key`."""
    data = bytes(rows.data)
    return Entry(
        key=key,
        promise=rows.promise,
        shape=rows.shape,
        dtype=rows.dtype,
        data=data,
        producer=producer,
        checksum=_checksum(key, rows.promise, rows.shape, rows.dtype, producer, data),
    )


def _checksum(key: str, promise: Promise, shape: tuple[int, ...], dtype: str, producer: str, data: bytes) -> bytes:
    # Against accidents: who can write where entries are kept can write a checksum, whatever its kind.
    about = repr((key, promise.modality, promise.tokens, tuple(promise.grid), tuple(shape), dtype, producer))
    return xxhash.xxh3_128_digest(about.encode(errors="backslashreplace") + xxhash.xxh3_128_digest(data))


class Bans:
    """Producers whose entries are nobody's hit any more, whenever they were made; the last MOST_BANS named."""

    def __init__(self) -> None:
        self._producers: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, producer: str) -> bool:
        return producer in self._producers

    def add(self, producers: Iterable[str]) -> frozenset[str]:
        """Ban `producers`; return those that were not banned before."""
        new = frozenset(producers) - self._producers.keys()
        for producer in sorted(new):
            self._producers[producer] = None
        while len(self._producers) > MOST_BANS:
            self._producers.popitem(last=False)
        return new


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

    def flush(self, producers: Collection[str]) -> int:
        """Drop all entries that `producers` made; return how many."""
        found = [key for key, entry in self._entries.items() if entry.producer in producers]
        for key in found:
            self.drop(key)
        return len(found)
