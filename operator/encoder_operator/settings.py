"""Settings: what the operator's environment says, read once at start.

Place: read by __main__ and handed down. Must never: be read from the environment a second time, or hold a
secret.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

PROMETHEUS_ADDRESS = "ENCODERPOOL_PROMETHEUS_ADDRESS"
WATCH_NAMESPACES = "ENCODERPOOL_WATCH_NAMESPACES"
HTTP_PORT = "ENCODERPOOL_HTTP_PORT"
LOG_LEVEL = "ENCODERPOOL_LOG_LEVEL"


class SettingsError(ValueError):
    """A variable of the environment that cannot be used; the message names it and says what it may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The operator's settings.

    `prometheus_address`: where counters are asked for, an http(s) URL; None: each replica's own /metrics.
    `watch_namespaces`: the namespaces whose pools are served, empty for all.
    `http_port`: where /healthz and /metrics answer.
    `log_level`: one of logging's level names.
    """

    prometheus_address: str | None
    watch_namespaces: tuple[str, ...]
    http_port: int
    log_level: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """The settings that these variables say; SettingsError names the one that cannot be used."""
        return cls(
            prometheus_address=_address(environment.get(PROMETHEUS_ADDRESS, "")),
            watch_namespaces=_namespaces(environment.get(WATCH_NAMESPACES, "")),
            http_port=_port(environment.get(HTTP_PORT, "8080")),
            log_level=_level(environment.get(LOG_LEVEL, "INFO")),
        )


def _address(text: str) -> str | None:
    address = text.strip().rstrip("/")
    if address and not address.startswith(("http://", "https://")):
        raise SettingsError(f"{PROMETHEUS_ADDRESS} must be an http:// or https:// URL, not {text!r}")
    return address or None


def _namespaces(text: str) -> tuple[str, ...]:
    return tuple(sorted({part.strip() for part in text.split(",")} - {""}))


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 65536:
        raise SettingsError(f"{HTTP_PORT} must be a port, 1 to 65535, not {text!r}")
    return int(text)


def _level(text: str) -> str:
    level = text.strip().upper()
    if level not in logging.getLevelNamesMapping() or level == "NOTSET":
        raise SettingsError(f"{LOG_LEVEL} must be DEBUG, INFO, WARNING, ERROR or CRITICAL, not {text!r}")
    return level
