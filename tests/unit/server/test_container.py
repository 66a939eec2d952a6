"""An entry as bytes: what was packed comes back, and nothing else is taken for an entry."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder_server.cache import Entry, seal
from encoder_server.check import Rows
from encoder_server.container import MAGIC, MOST_OVERHEAD, CorruptError, pack, unpack
from encoder_server.engine.messages import Promise


def entry(tokens: int = 2, width: int = 3, dtype: str = "float16") -> Entry:
    promise = Promise(index=0, modality="image", tokens=tokens, grid=(1, 2, 4))
    data = bytes(range(tokens * width * 2))
    rows = Rows(promise=promise, shape=(tokens, width), dtype=dtype, data=memoryview(data))
    return seal("key", rows, "pod/boot")


PACKED = pack(entry())


def is_taken(key: str, data: bytes) -> bool:
    try:
        return unpack(key, data).intact
    except CorruptError:
        return False


def test_what_was_packed_comes_back_and_is_intact_under_its_own_key_alone() -> None:
    assert unpack("key", PACKED) == entry()
    assert is_taken("key", PACKED)
    assert not is_taken("another", PACKED)
    assert len(PACKED) - len(entry().data) <= MOST_OVERHEAD


@given(st.integers(0, 8 * len(PACKED) - 1))
def test_no_bit_may_flip(bit: int) -> None:
    flipped = bytearray(PACKED)
    flipped[bit // 8] ^= 1 << bit % 8
    assert not is_taken("key", bytes(flipped))


@given(st.integers(0, len(PACKED) - 1), st.binary(min_size=1, max_size=8))
def test_nothing_may_be_missing_or_follow(length: int, more: bytes) -> None:
    assert not is_taken("key", PACKED[:length])
    assert not is_taken("key", PACKED + more)


@given(st.binary(max_size=200), st.binary(max_size=40))
def test_whatever_else_was_there_is_no_entry(body: bytes, rest: bytes) -> None:
    assert not is_taken("key", body)
    assert not is_taken("key", MAGIC + body)
    assert not is_taken("key", PACKED[:48] + body + rest)


@pytest.mark.parametrize(
    "changes",
    [
        {"shape": (3, 2)},
        {"shape": (1, 3)},
        {"dtype": "float32"},
        {"dtype": "int8"},
        {"producer": "pod/another"},
        {"data": bytes(12)},
    ],
)
def test_what_was_changed_before_it_was_packed_is_not_taken(changes: dict[str, object]) -> None:
    assert not is_taken("key", pack(replace(entry(), **changes)))  # type: ignore[arg-type]


@pytest.mark.parametrize("length", [2**63, 2**40, 0])
def test_a_length_is_compared_and_never_believed(length: int) -> None:
    assert not is_taken("key", PACKED[:8] + length.to_bytes(8, "little") + PACKED[16:])


@pytest.mark.parametrize(
    "head",
    [
        b'{"modality":"image","tokens":2,"grid":[],"shape":[2,3],"dtype":"float16","producer":"p","more":1}',
        b'{"modality":"image","tokens":-1,"grid":[],"shape":[2,3],"dtype":"float16","producer":"p"}',
        b'{"modality":"image","tokens":2,"grid":[],"shape":[-2,-3],"dtype":"float16","producer":"p"}',
        b'{"modality":"image","tokens":"2","grid":[],"shape":[2,3],"dtype":"float16","producer":"p"}',
        b'{"modality":"image","tokens":2,"grid":[],"shape":[2,3,1],"dtype":"float16","producer":"p"}',
        b"[" * 1000,
        b"\xff\xfe",
    ],
)
def test_a_head_that_says_more_or_other_is_refused(head: bytes) -> None:
    frame = PACKED[:4] + len(head).to_bytes(4, "little") + PACKED[8:48]
    with pytest.raises(CorruptError):
        unpack("key", frame + head + entry().data)


def test_an_entry_that_no_reader_would_take_is_not_packed() -> None:
    with pytest.raises(ValueError, match="long"):
        pack(replace(entry(), producer="p" * 2000))
    with pytest.raises(ValueError, match="two"):
        pack(replace(entry(), shape=(2, 3, 1)))
