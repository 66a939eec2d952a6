"""The spec's URL fetch: from where a replica may fetch the media that requests name; values and reading.

Place: part of spec. Must never: touch the network, know of Kubernetes' clients, or guess a value that the
schema did not default.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from encoder_operator.fields import Fields

_HOST = r"(\[[0-9a-f:.]{2,45}\]|[a-z0-9_]([a-z0-9_.-]{0,251}[a-z0-9_])?)(:[0-9]{1,5})?"


class UrlFetch(Enum):
    """Whose URLs are fetched."""

    DENY = "Deny"
    PUBLIC = "Public"
    LISTED = "Listed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSpec:
    """spec.server.urlFetch and urlFetchHosts ("name" or "name:port", sorted; there are some with LISTED alone)."""

    url_fetch: UrlFetch
    hosts: tuple[str, ...]


def parse_fetch(server: Fields) -> FetchSpec:
    """What spec.server says of it."""
    url_fetch = server.choice("urlFetch", UrlFetch)
    if (url_fetch is UrlFetch.LISTED) != server.has("urlFetchHosts"):
        raise server.error("urlFetchHosts", "set it where urlFetch is Listed, and only then")
    hosts = server.texts("urlFetchHosts", _HOST, "a host name or address, with or without a port")
    return FetchSpec(url_fetch=url_fetch, hosts=tuple(sorted(hosts)))
