"""Destinations: which URLs are fetched from, and which addresses their hosts may have.

Place: asked by `fetch` for every hop. Pure. Must never: resolve a name, connect, or trust a name's look.
"""

from __future__ import annotations

import ipaddress
import re

from yarl import URL

from encoder_server.errors import BadMediaError
from encoder_server.settings import FetchSettings

_LONGEST_URL = 2048
_PLAIN = re.compile(r"[!-\[\]-~]+")  # Printable ASCII, without a backslash: parsers differ about the rest.
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)*")
# inet_aton reads 127.1, 0177.0.0.1, 0x7f.1 and 2130706433 as addresses; a host's last label is never a number.
_NUMBER = re.compile(r"(.*\.)?([0-9]+|0x[0-9a-f]*)")
_PORTS = {"http": 80, "https": 443}


def _networks(*lines: str) -> tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...]:
    return tuple(ipaddress.ip_network(text) for line in lines for text in line.split())


_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_GLOBAL_V6 = ipaddress.IPv6Network("2000::/3")
_UNIQUE_LOCAL = ipaddress.IPv6Network("fc00::/7")
# What tells a machine about itself answers here on most clouds.
_NEVER = _networks(
    "0.0.0.0/8 169.254.0.0/16 168.63.129.16/32 192.0.0.0/24 100.100.100.200/32 224.0.0.0/4 240.0.0.0/4",
    "::/128 fe80::/10 fec0::/10 fd00:ec2::254/128 ff00::/8",
)
# The library's own list differs between Python's versions; an address that holds another one is no way round it.
_NOT_PUBLIC = _networks(
    "10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 172.16.0.0/12 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15",
    "198.51.100.0/24 203.0.113.0/24 2001::/23 2001:db8::/32 2002::/16 3fff::/20",
)


def destination(text: str, place: str, settings: FetchSettings) -> URL:
    """Return the URL in `text`, as it will be asked for.

    Raises BadMediaError, which names `place` and the rule, for one that is never fetched from, whatever its name
    resolves to. The address of a host that is one already is checked here.
    """
    if len(text) > _LONGEST_URL:
        raise BadMediaError(f"{place}: longer than {_LONGEST_URL} characters")
    if not _PLAIN.fullmatch(text):
        raise BadMediaError(f"{place}: has characters that a URL must not have")
    try:
        url = URL(text, encoded=True)
        host, port, named = (url.raw_host or "").lower(), url.port, url.raw_authority.rpartition("@")[1]
    except ValueError:
        raise BadMediaError(f"{place}: is not a URL") from None
    if url.scheme not in _PORTS:
        raise BadMediaError(f"{place}: only data:, http: and https: URLs are read here")
    if named:
        raise BadMediaError(f"{place}: must not have a user or a password")
    address = _address(host)
    if address is None and (_NAME.fullmatch(host) is None or _NUMBER.fullmatch(host)):
        raise BadMediaError(f"{place}: has no host name, and no address that is written in full")
    _check_host(host, port, url.scheme, place, settings)
    if address is not None:
        check_addresses([host], place, settings)
    return url


def _check_host(host: str, port: int | None, scheme: str, place: str, settings: FetchSettings) -> None:
    if settings.hosts:
        name = f"[{host}]" if ":" in host else host
        if f"{name}:{port}" not in settings.hosts and (port != _PORTS[scheme] or name not in settings.hosts):
            raise BadMediaError(f"{place}: its host and port are not among those that are fetched from here")
    elif port not in _PORTS.values():
        raise BadMediaError(f"{place}: only ports 80 and 443 are fetched from")


def check_addresses(addresses: list[str], place: str, settings: FetchSettings) -> None:
    """Raise BadMediaError, which does not tell any address, unless all may be connected to.

    A host that a list names may be a private one, but never link-local, a group or reserved: listed or not, that is
    where the platform keeps its secrets.
    """
    if not addresses or not all(_permitted(address, listed=bool(settings.hosts)) for address in addresses):
        raise BadMediaError(f"{place}: its host has an address that is not fetched from")


def _permitted(text: str, *, listed: bool) -> bool:
    address = _address(text)
    if isinstance(address, ipaddress.IPv6Address) and address in _NAT64:
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    if address is None or any(address in network for network in _NEVER):
        return False
    if isinstance(address, ipaddress.IPv6Address) and address not in _GLOBAL_V6:
        return listed and (address.is_loopback or address in _UNIQUE_LOCAL)
    if any(address in network for network in _NOT_PUBLIC):
        return listed and isinstance(address, ipaddress.IPv4Address)
    return address.is_global


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
