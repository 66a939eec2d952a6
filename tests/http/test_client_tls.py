"""The client over TLS: the authority that it is given is the one that it believes, and its deadline holds there too."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from encoder_server import client
from encoder_server.client import AsyncClient, Client, Retries
from tests.support.certificates import Authority, Certificate

READY = {"state": "READY", "reason": "AsExpected", "message": "the probe passed"}
Ready = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["sync", "async"])
def ready(request: pytest.FixtureRequest) -> Ready:
    """Ask a server how it stands."""

    async def ask(url: str, authority: Authority | None, **options: Any) -> Any:
        verify = True if authority is None else ssl.create_default_context(cafile=authority.file)
        options = {"verify": verify, "retries": Retries(attempts=2, base_seconds=0.01), **options}

        def wait() -> Any:
            with Client(url, **options) as caller:
                return caller.ready()

        if request.param == "sync":
            return await asyncio.to_thread(wait)
        async with AsyncClient(url, **options) as caller:
            return await caller.ready()

    return ask


async def test_the_authority_that_a_client_is_given_is_the_one_that_it_believes(tmp_path: Path, ready: Ready) -> None:
    trusted, other = Authority(tmp_path / "trusted"), Authority(tmp_path / "other")
    right = trusted.certificate("IP:127.0.0.1")

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response(READY)

    async def asked(shown: Certificate, authority: Authority | None) -> Any:
        runner = web.ServerRunner(web.Server(answer), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=shown.served).start()
            return await ready(f"https://127.0.0.1:{runner.addresses[0][1]}", authority)
        finally:
            await runner.cleanup()

    assert (await asked(right, trusted)).state == "READY"
    for shown, authority in [
        (right, other),
        (right, None),
        (trusted.certificate("IP:127.0.0.1", days=-1), trusted),
        (trusted.certificate("DNS:localhost"), trusted),
    ]:
        with pytest.raises(client.ConnectionFailedError, match="no answer came") as failed:
            await asked(shown, authority)
        assert failed.value.tries == 2


async def test_who_sends_a_byte_now_and_then_through_tls_does_not_hold_a_caller_either(
    tmp_path: Path, ready: Ready
) -> None:
    authority = Authority(tmp_path / "authority")

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            writer.write(b"HTTP/1.1 200 OK\r\nX: ")
            while not reader.at_eof():
                writer.write(b"a")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.transport.abort()

    shown = authority.certificate("IP:127.0.0.1").served
    async with await asyncio.start_server(drip, "127.0.0.1", 0, ssl=shown) as server:
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with asyncio.timeout(10):
            with pytest.raises(client.DeadlineError):
                await ready(url, authority, deadline_seconds=0.5)
