"""Media that a request names by http(s) URL: from a real server, which only a list of hosts can name here."""

import asyncio
import base64
import gzip
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from encoder_server.admission import Admission
from encoder_server.errors import BadMediaError, LimitExceededError
from encoder_server.fetch import Fetcher
from encoder_server.multipart import Part
from encoder_server.settings import FetchSettings
from encoder_server.wire import EncodeItem
from tests.http.under_test import Answer, Server, Start, items, picture

PNG = base64.b64decode(picture())
OFF = "only data: URLs are read here"
Respond = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Store:
    """A server of pictures at `address`, which keeps what was asked of it."""

    address: str
    asked: list[web.Request] = field(default_factory=list)
    scheme: str = "http"

    def url(self, path: str = "a.png") -> str:
        return f"{self.scheme}://{self.address}/{path}"


@asynccontextmanager
async def storing(tls: ssl.SSLContext | None = None, /, **paths: Respond | bytes) -> AsyncIterator[Store]:
    """A server that answers each path with these bytes, or as this handler does."""
    store = Store("", scheme="https" if tls else "http")

    async def answer(request: web.Request) -> web.StreamResponse:
        store.asked.append(request)
        what = paths.get(request.match_info["path"])
        if what is None:
            return web.Response(status=404)
        return web.Response(body=what) if isinstance(what, bytes) else await what(request)

    app = web.Application()
    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls).start()
        store.address = f"127.0.0.1:{runner.addresses[0][1]}"
        yield store
    finally:
        await runner.cleanup()


def redirect(*locations: str) -> Respond:
    """Redirect to each of these in turn."""
    left = list(locations)

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": left.pop(0)})

    return answer


async def drip(request: web.Request) -> web.StreamResponse:
    """Send a byte now and then, for ever."""
    response = web.StreamResponse()
    await response.prepare(request)
    while True:
        await response.write(b"a")
        await asyncio.sleep(0.02)


def naming(*urls: str) -> dict[str, Any]:
    return {"items": [{"modality": "image", "url": url} for url in urls]}


async def refused(server: Server, *urls: str) -> Answer:
    answer = await server.encode(naming(*urls))
    assert answer.status == 400
    assert server.batches == []
    assert "127.0.0" not in answer.message
    assert answer.blamed == answer.named != []
    return answer


async def test_a_picture_that_is_named_has_the_rows_of_one_that_was_sent(start: Start) -> None:
    async with storing(a=PNG) as store:
        server = await start(f"--fetch-hosts={store.address}")
        both = {"items": naming(store.url("a"))["items"] + items((56, 56))["items"]}
        fetched, sent = (await server.encode(both)).json["items"]
        assert fetched["data"] == sent["data"]
        assert (await server.get("/v1/limits")).json["urls"] == ["data", "http", "https"]
        await server.until_load(inFlight=0, inFlightBytes=0)


async def test_nothing_is_fetched_unless_the_server_is_told_to(start: Start) -> None:
    async with storing(a=PNG) as store:
        server = await start()
        assert OFF in (await refused(server, store.url("a"))).message
        assert store.asked == []
        assert (await server.get("/v1/limits")).json["urls"] == ["data"]


async def test_what_is_asked_for_tells_nothing_of_this_server_or_its_other_callers(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def with_cookie(request: web.Request) -> web.StreamResponse:
        response = web.Response(body=PNG)
        response.set_cookie("seen", "1")
        return response

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    async with storing(a=with_cookie) as store:
        server = await start(f"--fetch-hosts={store.address}")
        for _ in range(2):
            assert (
                await server.encode(naming(store.url("a")), Cookie="mine=1", Authorization="Basic eA==")
            ).status == 200
        names = {"Host", "Connection", "User-Agent", "Accept", "Accept-Encoding"}
        sent = [dict(request.headers) for request in store.asked]
        assert [set(headers) for headers in sent] == [names] * 2
        assert sent[0]["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]", "169.254.169.254", "10.0.0.1"])
async def test_private_addresses_are_not_fetched_from_where_the_public_internet_is(start: Start, host: str) -> None:
    server = await start("--fetch-public")
    answer = await refused(server, f"http://{host}/a.png")
    assert (answer.code, answer.message) == (
        "bad_media",
        "items[0].url: its host has an address that is not fetched from",
    )


async def test_the_second_item_is_named_where_it_is_the_second_that_cannot_be_fetched(start: Start) -> None:
    async with storing(a=PNG) as store:
        server = await start(f"--fetch-hosts={store.address}")
        answer = await refused(server, store.url("a"), store.url("missing"))
        assert (answer.code, answer.message) == ("bad_media", "items[1].url: its host answered 404, not 200")


async def test_three_redirects_are_followed(start: Start) -> None:
    async with storing(a=redirect("/b", "/b"), b=redirect("c", "c"), c=redirect("/d?x=%2F", "/a"), d=PNG) as store:
        server = await start(f"--fetch-hosts={store.address}")
        assert (await server.encode(naming(store.url("a")))).status == 200
        assert [request.path_qs for request in store.asked] == ["/a", "/b", "/c", "/d?x=%2F"]


async def test_a_fourth_redirect_is_not_followed(start: Start) -> None:
    async with storing(a=redirect(*["/a"] * 4)) as store:
        server = await start(f"--fetch-hosts={store.address}")
        assert "more than 3 redirects" in (await refused(server, store.url("a"))).message
        assert len(store.asked) == 4


@pytest.mark.parametrize(
    "location", ["http://169.254.169.254/", "http://127.0.0.1:1/", "//10.0.0.1/", "file:///etc/passwd", "ftp://a/", ""]
)
async def test_a_redirect_is_checked_like_the_url_itself(start: Start, location: str) -> None:
    async with storing(a=redirect(location)) as store:
        server = await start(f"--fetch-hosts={store.address}")
        message = (await refused(server, store.url("a"))).message
        assert message.startswith("items[0].url")
        assert "169.254" not in message
        assert len(store.asked) == 1


async def test_more_than_a_request_may_hold_is_not_read_whatever_its_length_says(start: Start) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while True:
            await response.write(b"a" * 65536)

    async with storing(a=endless) as store:
        server = await start(f"--fetch-hosts={store.address}", "--max-body-bytes=200000")
        answer = await refused(server, store.url("a"))
        assert answer.code == "limit_exceeded"
        assert answer.message == "items[0].url: brings the request to more than 200000 bytes, its limit"
        await server.until_load(inFlight=0, inFlightBytes=0)


async def test_what_drips_in_is_given_up_in_time_and_names_its_item(start: Start) -> None:
    async with storing(a=drip, b=PNG) as store:
        server = await start(f"--fetch-hosts={store.address}", "--fetch-seconds=0.5")
        answer = await refused(server, store.url("b"), store.url("a"))
        assert (answer.code, answer.message) == ("bad_media", "items[1].url: had not come whole after 0.5 s")
        await server.until_load(inFlight=0, inFlightBytes=0)


async def test_a_slow_host_fails_its_caller_before_the_requests_deadline_does(start: Start) -> None:
    async with storing(a=drip) as store:
        server = await start(f"--fetch-hosts={store.address}", "--deadline-seconds=1")
        assert (await refused(server, store.url("a"))).code == "bad_media"


async def test_compressed_content_is_refused_unread(start: Start) -> None:
    async def compressed(request: web.Request) -> web.StreamResponse:
        return web.Response(body=gzip.compress(PNG), headers={"Content-Encoding": "gzip"})

    async with storing(a=compressed) as store:
        server = await start(f"--fetch-hosts={store.address}")
        assert "compressed" in (await refused(server, store.url("a"))).message


async def test_a_host_that_breaks_off_or_does_not_speak_http_is_told_of_in_our_words(start: Start) -> None:
    async def chatter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"SSH-2.0-OpenSSH\r\n")
        writer.close()

    async def short(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Length": "1000"})
        await response.prepare(request)
        await response.write(b"a")
        assert request.transport is not None
        request.transport.abort()
        return response

    async with storing(a=short) as store, await asyncio.start_server(chatter, "127.0.0.1", 0) as other:
        speaks_no_http = f"127.0.0.1:{other.sockets[0].getsockname()[1]}"
        server = await start(f"--fetch-hosts={store.address},{speaks_no_http},127.0.0.1:9")
        wrong = "items[0].url: its host did not answer in HTTP, or not to the end"
        assert (await refused(server, store.url("a"))).message == wrong
        assert (await refused(server, f"http://{speaks_no_http}/")).message == wrong
        assert "cannot be reached" in (await refused(server, "http://127.0.0.1:9/")).message
        assert (await refused(server, f"https://{store.address}/a")).code == "bad_media"


async def test_fetched_bytes_count_as_bytes_in_flight(start: Start) -> None:
    more = asyncio.Event()

    async def held(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b"a" * 50_000)
        await more.wait()
        return response

    limits = ("--max-in-flight-bytes=100000", "--max-body-bytes=100000")
    async with storing(a=held) as store:
        server = await start(f"--fetch-hosts={store.address}", *limits)
        body = naming(store.url("a"))
        first = asyncio.create_task(server.encode(body))
        await server.until_load(inFlightBytes=50_000 + len(str(body)))
        assert (await server.encode(body)).code == "overloaded"
        more.set()
        assert (await first).code == "bad_media"
        await server.until_load(inFlight=0, inFlightBytes=0)


def fetching(resolve: Callable[[str, int], Awaitable[list[str]]], *hosts: str) -> Callable[[str], Awaitable[bytes]]:
    """Fetch one URL by a resolver of ours."""
    fetcher = Fetcher(FetchSettings(hosts=frozenset(hosts), seconds=5), 10_000, resolve)

    async def fetch(url: str) -> bytes:
        with Admission(1, 10_000, lambda: None).admit(0, 30, "") as permit:
            (part,) = await fetcher.fill([EncodeItem(modality="image", url=url)], 0, permit)
        assert isinstance(part, Part)
        return bytes(part.content)

    return fetch


async def test_a_name_that_changes_its_address_is_connected_to_where_it_was_checked() -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"]]

    async def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async with storing(a=PNG) as store:
        name = f"store.example:{store.address.rpartition(':')[2]}"
        fetch = fetching(rebinding, name)
        assert await fetch(f"http://{name}/a") == PNG
        assert store.asked[0].headers["Host"] == name
        assert len(answers) == 1  # Asked once for each connection, and no more.
        with pytest.raises(BadMediaError, match="not fetched from"):
            await fetch(f"http://{name}/a")
        assert len(store.asked) == 1


async def test_a_name_of_which_one_address_is_bad_is_not_connected_to_at_all() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["127.0.0.1", "169.254.169.254"]

    async with storing(a=PNG) as store:
        name = f"store.example:{store.address.rpartition(':')[2]}"
        with pytest.raises(BadMediaError, match="not fetched from"):
            await fetching(mixed, name)(f"http://{name}/a")
        assert store.asked == []


async def test_a_name_that_leads_nowhere_is_the_callers_fault() -> None:
    async def unknown(host: str, port: int) -> list[str]:
        raise OSError("no such name")

    with pytest.raises(BadMediaError, match="cannot be found"):
        await fetching(unknown)("http://nowhere.example/a")


async def test_a_request_and_what_it_names_together_are_limited() -> None:
    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    async with storing(a=b"a" * 10_000, b=b"a" * 10_001) as store:
        name = f"store.example:{store.address.rpartition(':')[2]}"
        assert len(await fetching(here, name)(f"http://{name}/a")) == 10_000
        with pytest.raises(LimitExceededError):
            await fetching(here, name)(f"http://{name}/b")


async def test_no_more_than_four_are_fetched_at_a_time_for_one_request(start: Start) -> None:
    now = most = 0

    async def counted(request: web.Request) -> web.StreamResponse:
        nonlocal now, most
        now += 1
        most = max(now, most)
        await asyncio.sleep(0.02)
        now -= 1
        return web.Response(body=PNG)

    async with storing(a=counted) as store:
        server = await start(f"--fetch-hosts={store.address}")
        assert (await server.encode(naming(*[store.url("a")] * 12))).status == 200
        assert (len(store.asked), most <= 4) == (12, True)
