"""The cache's entries and its bound."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder_server.cache import MOST_BANS, Bans, Entry, Memory, Origin, key, seal
from encoder_server.check import Rows
from encoder_server.engine.messages import Promise

ORIGIN = Origin(fingerprint="f", revision="r", dtype="float32")


def entry(size: int = 8, name: str = "k", producer: str = "pod/boot") -> Entry:
    promise = Promise(index=3, modality="image", tokens=1, grid=(1, 2, 2))
    rows = Rows(promise=promise, shape=(1, size // 4), dtype="float32", data=memoryview(bytes(size)))
    return seal(name, rows, producer)


def test_a_key_is_a_full_digest_of_everything_that_rows_depend_on() -> None:
    keys = {
        key("image", "d", (), ORIGIN),
        key("audio", "d", (), ORIGIN),
        key("image", "e", (), ORIGIN),
        key("image", "d", (("detail", "low"),), ORIGIN),
        key("image", "d", (), ORIGIN._replace(fingerprint="g")),
        key("image", "d", (), ORIGIN._replace(revision="s")),
        key("image", "d", (), ORIGIN._replace(dtype="float16")),
    }
    assert len(keys) == 7
    assert {len(each) for each in keys} == {64}
    assert key("image", "d", (("a", "1"), ("b", "2")), ORIGIN) == key("image", "d", (("b", "2"), ("a", "1")), ORIGIN)


def test_an_entry_holds_a_copy_and_knows_when_it_was_changed() -> None:
    memory = bytearray(8)
    promise = Promise(index=3, modality="image", tokens=1, grid=(1, 2, 2))
    sealed = seal("k", Rows(promise=promise, shape=(1, 2), dtype="float32", data=memoryview(memory)), "pod/boot")
    memory[0] = 1
    assert sealed.intact
    for changed in (
        replace(sealed, data=b"\x01" + sealed.data[1:]),
        replace(sealed, shape=(2, 1)),
        replace(sealed, dtype="int32"),
        replace(sealed, producer="pod/other"),
        replace(sealed, key="of another medium"),
        replace(sealed, promise=replace(promise, tokens=2)),
    ):
        assert not changed.intact


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 3000)), max_size=40))
def test_the_bound_holds_and_bytes_are_what_is_held(puts: list[tuple[str, int]]) -> None:
    memory = Memory(8000)
    for name, size in puts:
        memory.put(name, entry(size))
        held = [found.size for each in "abcdef" if (found := memory.get(each)) is not None]
        assert memory.bytes == sum(held) <= 8000


def test_the_least_recently_used_leaves_first_and_is_counted() -> None:
    memory = Memory(3 * entry().size)
    for name in "abc":
        assert memory.put(name, entry()) == 0
    assert memory.get("a") is not None
    assert memory.put("d", entry()) == 1
    assert [name for name in "abcd" if memory.get(name)] == ["a", "c", "d"]


@pytest.mark.parametrize("most", [0, 100])
def test_what_is_larger_than_the_cache_is_not_taken_and_drives_nothing_out(most: int) -> None:
    memory = Memory(entry().size + most)
    memory.put("a", entry())
    assert memory.put("b", entry(5000)) == 0
    assert memory.get("a") is not None
    assert memory.get("b") is None


def test_another_identity_finds_nothing() -> None:
    memory = Memory(10_000)
    memory.belong("f", "r")
    memory.put("a", entry())
    memory.belong("f", "r")
    assert memory.get("a") is not None
    memory.belong("g", "r")
    assert (memory.get("a"), memory.bytes) == (None, 0)


def test_what_a_producer_made_is_flushed_and_the_rest_stays() -> None:
    memory = Memory(10_000)
    for name, producer in (("a", "bad"), ("b", "good"), ("c", "bad")):
        memory.put(name, entry(name=name, producer=producer))
    assert memory.flush({"bad"}) == 2
    assert [name for name in "abc" if memory.get(name)] == ["b"]
    assert memory.bytes == entry().size


def test_bans_are_told_once_and_bounded() -> None:
    bans = Bans()
    assert bans.add(["a", "b"]) == {"a", "b"}
    assert bans.add(["b", "c"]) == {"c"}
    bans.add(map(str, range(MOST_BANS)))
    assert "a" not in bans
    assert "0" in bans
