"""Packets between front and engine: small ones and large ones come as they were sent, corrupt ones as errors."""

from __future__ import annotations

import array
import os
import socket
from collections.abc import Iterator

import pytest

from encoder_server.engine import packets

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        theirs.settimeout(5)
        yield ours, theirs


@pytest.mark.parametrize("sizes", [[2], [2, 0], [5, 7, 1], [10, packets.INLINE_BYTES], [3] * 600, [2, 3 * 2**20, 0, 9]])
def test_parts_arrive_as_they_were_sent_however_large_or_many(pair: Pair, sizes: list[int]) -> None:
    parts = [os.urandom(size) for size in sizes]
    packets.put(pair[0], parts)
    assert [bytes(part) for part in packets.take(pair[1])] == parts


@pytest.mark.parametrize("size", [packets.INLINE_BYTES - 16, packets.INLINE_BYTES - 15])
def test_at_the_bound_of_what_a_packet_holds_nothing_is_lost(pair: Pair, size: int) -> None:
    packets.put(pair[0], [bytes(size)])
    assert [part.nbytes for part in packets.take(pair[1])] == [size]


def test_what_a_small_socket_cannot_hold_travels_all_the_same(pair: Pair) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    packets.put(pair[0], [bytes(50_000)])
    assert [part.nbytes for part in packets.take(pair[1])] == [50_000]


def test_no_descriptor_stays_open(pair: Pair) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for size in (10, 2 * packets.INLINE_BYTES):
        packets.put(pair[0], [bytes(size)])
        packets.take(pair[1])
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_end_of_the_socket_has_no_parts(pair: Pair) -> None:
    pair[0].close()
    assert packets.take(pair[1]) == []


@pytest.mark.parametrize(
    "packet",
    [
        b"x",
        array.array("Q", [0]).tobytes(),
        array.array("Q", [2**60]).tobytes(),
        array.array("Q", [1, 9]).tobytes() + b"short",
        array.array("Q", [1, 2]).tobytes() + b"too long",
        array.array("Q", [2, 2**63, 2**63]).tobytes(),
        bytes(packets.INLINE_BYTES + 1),
    ],
)
def test_what_was_not_packed_so_is_refused(pair: Pair, packet: bytes) -> None:
    pair[0].send(packet)
    with pytest.raises(ValueError, match="packet"):
        packets.take(pair[1])
