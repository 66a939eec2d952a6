"""Fetch: media that a request names by http(s) URL, where the server is told to fetch any.

Place: called by the pipeline between reading a request's items and opening them; what is fetched becomes an item's
content. One function checks and fetches: every hop of it, and every address, is checked by `destinations`, and what
was checked is what is connected to. Must never: follow a redirect unseen, ask a name's address twice for one
connection, use a proxy, a cookie or a credential, read more than a request may hold, or tell what an address is.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from encoder_server import destinations
from encoder_server.admission import Permit
from encoder_server.errors import BadMediaError, CallerError, EncoderServerError, LimitExceededError
from encoder_server.multipart import Part
from encoder_server.settings import FetchSettings
from encoder_server.wire import EncodeItem

_AT_ONCE = 4
_REDIRECTS, _MOST_REDIRECTS = (301, 302, 303, 307, 308), 3
_RESOLVERS = 8
_HEADERS = {"User-Agent": "encoder-server", "Accept": "*/*", "Accept-Encoding": "identity"}
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]


class SystemResolver:
    """Asks the system for the addresses of a name, in threads of its own: a name server that is slow to answer must
    not take those in which media are opened."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_RESOLVERS, thread_name_prefix="resolve")

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        """Return every address; raises OSError where there is none."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(self._threads, _look_up, host, port)
        return [str(address[0]) for *_, address in found]


def _look_up(host: str, port: int) -> list[tuple[object, object, object, object, tuple[object, ...]]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


@dataclass(slots=True, kw_only=True)
class _Room:
    """What a request may still hold: `left` of `most` bytes, which count against its permit as they come."""

    most: int
    left: int
    permit: Permit

    def take(self, size: int, place: str) -> None:
        if size > self.left:
            raise LimitExceededError(f"{place}: brings the request to more than {self.most} bytes, its limit")
        self.permit.grow(size)
        self.left -= size


class Fetcher:
    """Fetches what requests name; a request and all that is fetched for it are at most `most_bytes`."""

    def __init__(self, settings: FetchSettings, most_bytes: int, resolve: Resolve) -> None:
        self._settings = settings
        self._most_bytes = most_bytes
        self._resolve = resolve

    async def fill(
        self, items: Sequence[EncodeItem | Part], body_bytes: int, permit: Permit
    ) -> Sequence[EncodeItem | Part]:
        """Return the items of a body of `body_bytes`, those that name an address with their content instead.

        Raises BadMediaError or LimitExceededError, which name the item, or OverloadedError. All that a request names
        has come after the settings' seconds, or half of what is left until its deadline.
        """
        room = _Room(most=self._most_bytes, left=self._most_bytes - body_bytes, permit=permit)
        places = asyncio.Semaphore(_AT_ONCE)
        now = asyncio.get_running_loop().time()
        seconds = min(self._settings.seconds, (permit.deadline - now) / 2)

        async def filled(index: int, item: EncodeItem | Part) -> EncodeItem | Part:
            if isinstance(item, Part) or item.url is None or item.url[:5].lower() == "data:":
                return item
            place = f"items[{index}].url"
            try:
                async with asyncio.timeout_at(now + seconds), places:
                    content = await self._fetch(item.url, place, room)
            except TimeoutError:
                late = BadMediaError(f"{place}: had not come whole after {seconds:.3g} s")
                raise late.of_item(index, item.modality) from None
            except CallerError as error:
                raise error.of_item(index, item.modality) from None
            return Part(modality=item.modality, content=content, expected_tokens=item.expected_tokens)

        error: EncoderServerError | None = None
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(filled(index, item)) for index, item in enumerate(items)]
        except* EncoderServerError as failed:
            error = _first(failed)  # Raised in here, early releases of Python 3.11 make a group of it.
        if error is not None:
            raise error
        return [task.result() for task in tasks]

    async def _fetch(self, text: str, place: str, room: _Room) -> bytes:
        """Check and fetch, hop by hop. Nothing is kept between requests, and no connection is shared."""
        url = destinations.destination(text, place, self._settings)
        resolver = _Checked(self._resolve, place, self._settings)
        try:
            async with aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(resolver=resolver, use_dns_cache=False, force_close=True),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers=_HEADERS,
                auto_decompress=False,
                trust_env=False,
                timeout=aiohttp.ClientTimeout(),
            ) as session:
                for _ in range(_MOST_REDIRECTS + 1):
                    async with session.get(url, allow_redirects=False) as response:
                        if response.status not in _REDIRECTS:
                            return await _content(response, place, room)
                        url = self._next(url, response.headers.get("Location", ""), place)
        except aiohttp.ClientConnectorDNSError:
            raise BadMediaError(f"{place}: its host cannot be found") from None
        except aiohttp.ClientSSLError:
            raise BadMediaError(f"{place}: its host's certificate is not trusted here") from None
        except aiohttp.ClientConnectorError:
            raise BadMediaError(f"{place}: its host cannot be reached") from None
        except (aiohttp.ClientError, OSError, ValueError):
            raise BadMediaError(f"{place}: its host did not answer in HTTP, or not to the end") from None
        raise BadMediaError(f"{place}: more than {_MOST_REDIRECTS} redirects")

    def _next(self, url: URL, location: str, place: str) -> URL:
        where = f"{place}, redirected"
        try:
            target = str(url.join(URL(location, encoded=True))) if location else ""
        except ValueError:
            raise BadMediaError(f"{where}: is not a URL") from None
        hop = destinations.destination(target, where, self._settings)
        if url.scheme == "https" and hop.scheme != "https":
            raise BadMediaError(f"{where}: from https to http")
        return hop


def fetching(settings: FetchSettings | None, most_bytes: int) -> Fetcher | None:
    """Return a fetcher that asks the system for addresses; None where nothing is fetched."""
    return None if settings is None else Fetcher(settings, most_bytes, SystemResolver())


class _Checked(AbstractResolver):
    """Resolves for one fetch; the connection is made to the very addresses that were checked."""

    def __init__(self, resolve: Resolve, place: str, settings: FetchSettings) -> None:
        self._resolve = resolve
        self._place = place
        self._settings = settings

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """Return all addresses of `host`; raises BadMediaError where any of them may not be connected to."""
        addresses = list(dict.fromkeys(await self._resolve(host, port)))
        destinations.check_addresses(addresses, self._place, self._settings)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in addresses
        ]

    async def close(self) -> None:
        """Nothing is open."""


async def _content(response: aiohttp.ClientResponse, place: str, room: _Room) -> bytes:
    if response.status != 200:
        raise BadMediaError(f"{place}: its host answered {response.status}, not 200")
    if response.headers.get("Content-Encoding", "identity").strip().lower() not in ("", "identity"):
        raise BadMediaError(f"{place}: its host answered with compressed content")
    parts: list[bytes] = []
    async for part in response.content.iter_any():
        room.take(len(part), place)
        parts.append(part)
    return b"".join(parts)


def _first(failed: BaseExceptionGroup[EncoderServerError]) -> EncoderServerError:
    error = failed.exceptions[0]
    return _first(error) if isinstance(error, BaseExceptionGroup) else error
