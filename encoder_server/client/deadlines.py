"""Deadlines: the sync client's connections, on which no read and no write lasts beyond the call that it is for.

Place: below `synchronous`. httpx bounds each read alone, so that who sends a byte now and then holds a caller for as
long as it likes; event loops have their own way to end a call. Must never: know what is read.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

# A thread's calls are one after another, or one within another's `on_promise`.
_ENDS: ContextVar[float] = ContextVar("ends", default=float("inf"))
_PIECE = 2**16
_LEAST = 0.001


@contextmanager
def until(ends: float) -> Iterator[None]:
    """Have what this thread reads and writes meanwhile end at `ends`, in the seconds of `time.monotonic`."""
    token = _ENDS.set(ends)
    try:
        yield
    finally:
        _ENDS.reset(token)


def bounded(http: httpx.Client) -> httpx.Client:
    """Return `http` with such connections, be it through a proxy or not."""
    for transport in (http._transport, *http._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            # httpcore takes it as an argument, which httpx has no way to give.
            transport._pool._network_backend = _Network()
    return http


class _Network(httpcore.SyncBackend):
    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.NetworkStream:
        """Connect to the first address that answers; `timeout` is for all of them, where httpcore gives it to each."""
        ends = time.monotonic() + _left(timeout, httpcore.ConnectTimeout)
        failed: Exception = httpcore.ConnectError("no address")
        for address in _addresses(host, port):
            try:
                left = max(_LEAST, ends - time.monotonic())
                return _Stream(super().connect_tcp(address, port, left, local_address, socket_options))
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failed = error
            if time.monotonic() >= ends:
                break
        raise failed


class _Stream(httpcore.NetworkStream):
    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        for at in range(0, len(buffer), _PIECE):
            self._stream.write(buffer[at : at + _PIECE], _left(timeout, httpcore.WriteTimeout))

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        return _Stream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def close(self) -> None:
        self._stream.close()


def _addresses(host: str, port: int) -> list[str]:
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise httpcore.ConnectError(str(error)) from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def _left(timeout: float | None, late: type[httpcore.TimeoutException]) -> float:
    left = _ENDS.get() - time.monotonic()
    if left <= 0:
        raise late("the call ends")
    return left if timeout is None else min(timeout, left)
