"""Packets: how the parts of one message cross a socket between two processes.

Place: below `messages`, which says what the parts mean. What is small travels in the packet itself; what is larger in a
memfd that the packet carries, so that neither packet size nor a pod's 64 MiB of /dev/shm bounds a picture.

Must never: look into a part, or believe what a packet says of lengths beyond its own.
"""

from __future__ import annotations

import array
import contextlib
import errno
import mmap
import os
import socket
from collections.abc import Sequence

INLINE_BYTES = 96 * 1024
"""What travels in the packet itself: half of what a socket holds unless told otherwise (net.core.wmem_default)."""
_WORD = 8
_MOST_PARTS = 512  # The system gathers no more than 1024 (IOV_MAX).

Part = bytes | memoryview


def put(sock: socket.socket, parts: Sequence[Part]) -> None:
    """Send `parts`, at least one, as one packet; raises OSError as the socket does."""
    sizes = [memoryview(part).nbytes for part in parts]
    lengths = array.array("Q", [len(parts), *sizes]).tobytes()
    if sum(sizes) + len(lengths) <= INLINE_BYTES and len(parts) <= _MOST_PARTS:
        try:
            sock.sendmsg([lengths, *parts])
            return
        except OSError as refused:
            if refused.errno != errno.EMSGSIZE:  # A system may let sockets hold less.
                raise
    memory = os.memfd_create("encoderpool-message", os.MFD_CLOEXEC)
    try:
        with open(memory, "wb", closefd=False) as file:
            for part in (lengths, *parts):
                file.write(part)
        socket.send_fds(sock, [b"memory"], [memory])
    finally:
        os.close(memory)


def take(sock: socket.socket) -> list[memoryview]:
    """Receive one packet's parts, views of memory of its own; none at end of file. Raises OSError as the socket does,
    and ValueError for what `put` did not send."""
    packet, descriptors, flags, _ = socket.recv_fds(sock, INLINE_BYTES, 1)
    try:
        if not packet:
            return []
        if flags & (socket.MSG_TRUNC | socket.MSG_CTRUNC):
            raise ValueError("a packet was cut short")
        view = memoryview(packet)
        if descriptors:
            view = memoryview(mmap.mmap(descriptors[0], 0, access=mmap.ACCESS_READ))
        return _split(view)
    finally:
        for descriptor in descriptors:
            with contextlib.suppress(OSError):
                os.close(descriptor)


def _split(view: memoryview) -> list[memoryview]:
    count = int.from_bytes(view[:_WORD], "little")
    start = (1 + count) * _WORD
    if count < 1 or start > view.nbytes:
        raise ValueError(f"{count} parts are said to be in a packet of {view.nbytes} bytes")
    parts = []
    for length in array.array("Q", view[_WORD:start].tobytes()):
        parts.append(view[start : start + length])
        start += length
    if start != view.nbytes:
        raise ValueError(f"the parts of a packet of {view.nbytes} bytes end at {start}")
    return parts
