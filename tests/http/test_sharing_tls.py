"""A Redis behind TLS: an authority that the URL names, a user of its own, and what happens where either is wrong."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import pytest

from encoder_server.redis_connection import RedisConnection
from tests.http.redis_server import RedisServer, free_port, redis_running
from tests.http.sharing_pool import SharingPool, count, rows, usable
from tests.http.test_flush import order, producer, until_result
from tests.http.under_test import Server, until
from tests.support.certificates import Authority

SECURITY = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Locked:
    """A Redis with a port for TLS alone, and one beside it by which the test looks in."""

    inside: RedisServer
    authority: Authority
    port: int

    def url(self, authority: str, password: str = "hunter2", host: str = "127.0.0.1") -> str:
        return f"rediss://pool:{password}@{host}:{self.port}/0{authority}"


@pytest.fixture
async def locked(tmp_path: Path) -> AsyncIterator[Locked]:
    """With a user that has what the documents say, and no more."""
    (user,) = re.findall("^ *ACL SETUSER (.*)$", SECURITY, re.MULTILINE)
    user = user.replace("PASSWORD", "hunter2").replace("NAMESPACE/POOL", "local")
    authority = Authority(tmp_path / "authority")
    shown, port = authority.certificate("IP:127.0.0.1"), free_port()
    files = f"--tls-cert-file {shown.file} --tls-key-file {shown.key} --tls-ca-cert-file {authority.file}"
    options = (f"--tls-port {port} --tls-auth-clients no {files}", f"--user {user}")
    async with redis_running(tmp_path / "locked", *options) as inside:
        yield Locked(inside, authority, port)


async def refused(server: Server, reason: str) -> None:
    async def told() -> bool:
        return await count(server, "errors_total", operation="connect", reason=reason) > 0

    await until(told)


@pytest.mark.parametrize("way", ["ssl_ca_data", "ssl_ca_certs", "SSL_CERT_FILE"])
async def test_replicas_share_through_tls_with_the_authority_that_their_url_or_environment_has(
    pool: SharingPool, locked: Locked, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "SSL_CERT_FILE":
        monkeypatch.setenv(way, str(locked.authority.file))
    named = quote(locked.authority.file.read_text()) if way == "ssl_ca_data" else str(locked.authority.file)
    pool.point_to(locked.url("" if way == "SSL_CERT_FILE" else f"?{way}={named}"))
    one = await pool.start()
    first = await rows(one)
    await locked.inside.until_entries(1)
    other = await pool.start()
    assert await rows(other) == first
    assert other.batches == []
    assert await count(other, "hits_total") == 1
    await order(other, await producer(one))
    await until_result(other, "done")
    assert await locked.inside.entries() == []
    assert await locked.inside.client.acl_log() == []  # Nothing was refused to the user.


async def test_a_redis_that_is_not_trusted_or_does_not_trust_is_not_used_and_answers_go_on(
    pool: SharingPool, locked: Locked, tmp_path: Path
) -> None:
    trusted = f"?ssl_ca_certs={locked.authority.file}"
    other = f"?ssl_ca_certs={Authority(tmp_path / 'other').file}"
    wrong = {
        locked.url(""): "connection",
        locked.url(other): "connection",
        locked.url(trusted, host="localhost"): "connection",
        locked.url("?ssl_ca_data=none"): "connection",
        locked.url("?ssl_ca_certs=/nowhere"): "connection",
        locked.url(trusted, password="guessed"): "refused",
    }
    for url, reason in wrong.items():
        pool.point_to(url)
        server = await pool.start(connected=False)
        await refused(server, reason)
        assert (await rows(server))["tokens"] == 4, url
        await usable(server, 0)
    assert await locked.inside.entries() == []
    # Who mends the URL mends the file; nobody need start the server anew.
    pool.point_to(locked.url(trusted))
    await usable(server)


async def test_nothing_of_a_connection_through_tls_is_left_when_the_server_leaves_a_redis_that_stands_still(
    tmp_path: Path, locked: Locked
) -> None:
    """A farewell by TLS would wait half a minute for its answer."""
    before = sockets()
    async with AsyncExitStack() as stack:
        pool = SharingPool(tmp_path, stack)
        pool.point_to(locked.url(f"?ssl_ca_certs={locked.authority.file}"))
        await pool.start()
        locked.inside.signal(signal.SIGSTOP)
    await asyncio.sleep(0)
    left = sockets() - before
    locked.inside.signal(signal.SIGCONT)
    assert left == set()


async def test_nothing_of_a_connection_through_tls_is_left_when_a_redis_stands_still_before_it_lets_anybody_in(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path / "authority")
    asked: asyncio.Future[asyncio.Transport] = asyncio.get_running_loop().create_future()

    async def stand_still(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(1)
        assert isinstance(writer.transport, asyncio.Transport)
        writer.transport.pause_reading()
        asked.set_result(writer.transport)

    shown = authority.certificate("IP:127.0.0.1")
    async with await asyncio.start_server(stand_still, "127.0.0.1", 0, ssl=shown.served) as listener:
        before, port = sockets(), listener.sockets[0].getsockname()[1]
        url = f"rediss://pool:hunter2@127.0.0.1:{port}/0?ssl_ca_certs={authority.file}"
        opening = asyncio.create_task(RedisConnection.open(url, asyncio.Lock(), 30))
        end_of_the_server = await asked
        opening.cancel()
        await asyncio.wait({opening})
        await asyncio.sleep(0)
        left = sockets() - before
        end_of_the_server.abort()
    assert len(left) == 1  # The server's own.


def sockets() -> set[str]:
    found = {os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()}
    return {each for each in found if each.startswith("socket:")}
