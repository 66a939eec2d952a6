"""Media by https URL: which hosts are believed, and how whoever runs a server has it believe others."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

from tests.http.test_fetch import PNG, Store, naming, redirect, storing
from tests.http.test_process import running
from tests.http.under_test import Checkpoint, Client
from tests.support.certificates import Authority, Certificate

HERE = "IP:127.0.0.1"
UNTRUSTED = "items[0].url: its host's certificate is not trusted here"


async def refusal(server: Client, url: str) -> str:
    answer = await server.encode(naming(url))
    assert (answer.status, answer.code) == (400, "bad_media")
    return answer.message


async def test_an_authority_in_ssl_cert_file_is_trusted_and_nothing_else_that_a_host_may_show(
    tmp_path: Path, checkpoint: Checkpoint
) -> None:
    trusted, other = Authority(tmp_path / "trusted"), Authority(tmp_path / "other")
    async with AsyncExitStack() as stack:

        async def shows(certificate: Certificate) -> Store:
            away = redirect("http://127.0.0.1:1/", "http://10.0.0.1/", "https://10.0.0.1/")
            return await stack.enter_async_context(storing(certificate.served, a=PNG, away=away))

        right = await shows(trusted.certificate("DNS:localhost", HERE))
        wrong = [
            await shows(other.certificate(HERE)),
            await shows(trusted.certificate(HERE, days=-1)),
            await shows(trusted.certificate("DNS:localhost", "IP:127.0.0.2")),
        ]
        hosts = ",".join([*(store.address for store in (right, *wrong)), "127.0.0.1:1"])
        environment = {"SSL_CERT_FILE": str(trusted.file)}
        server = await stack.enter_async_context(
            running(tmp_path, checkpoint, f"--fetch-hosts={hosts}", environment=environment)
        )
        assert (await server.encode(naming(right.url("a")))).status == 200
        assert [await refusal(server, store.url("a")) for store in wrong] == [UNTRUSTED] * 3
        assert [store.asked for store in wrong] == [[]] * 3
        # A host that is believed is not for that believed to lead elsewhere.
        redirected = [await refusal(server, right.url("away")) for _ in range(3)]
        assert redirected[0] == "items[0].url, redirected: from https to http"
        assert all("10.0.0.1" not in message for message in redirected)


async def test_an_authority_that_nobody_named_is_not_trusted(tmp_path: Path, checkpoint: Checkpoint) -> None:
    certificate = Authority(tmp_path / "unknown").certificate(HERE)
    async with (
        storing(certificate.served, a=PNG) as store,
        running(tmp_path, checkpoint, f"--fetch-hosts={store.address}") as server,
    ):
        assert await refusal(server, store.url("a")) == UNTRUSTED
        assert store.asked == []
