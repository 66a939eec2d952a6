"""The arguments of `encoder-server serve` that say whether media are fetched, and from where.

Place: `cli` adds them to its parser and reads them. Must never: let a host stand for another one.
"""

from __future__ import annotations

import argparse
import re

from encoder_server.argument_types import seconds
from encoder_server.settings import FetchSettings

_HOST = re.compile(r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?)(:[0-9]{1,5})?")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to `parser`; without any of them no URL is fetched."""
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--fetch-public", action="store_true", help="fetch http(s) URLs of hosts on the public internet")
    group.add_argument(
        "--fetch-hosts", type=_hosts, metavar="HOST[:PORT],...", help="fetch URLs of these hosts, private or not, alone"
    )
    parser.add_argument("--fetch-seconds", type=seconds, default=10.0, help="until all that a request names has come")


def read(options: argparse.Namespace) -> FetchSettings | None:
    """Return what was asked for; None: nothing is fetched."""
    if not options.fetch_public and options.fetch_hosts is None:
        return None
    return FetchSettings(hosts=options.fetch_hosts or frozenset(), seconds=options.fetch_seconds)


def _hosts(text: str) -> frozenset[str]:
    hosts = text.lower().split(",")
    for host in hosts:
        if not _HOST.fullmatch(host):
            raise argparse.ArgumentTypeError(f"{host!r} is not a host name or address, with or without a port")
    return frozenset(hosts)
