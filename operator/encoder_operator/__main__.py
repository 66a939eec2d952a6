"""The operator's entry point: settings, logging, then kopf by import.

Place: the container's command, `encoder-operator`. Must never: be run as a file by kopf, or read the environment
anywhere else.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys

import kopf
from pythonjsonlogger.json import JsonFormatter

from encoder_operator.handlers import register
from encoder_operator.operation import Operation
from encoder_operator.settings import Settings, SettingsError


def main() -> None:
    """Run the operator until it is told to stop; exits with 1 where a part of it failed."""
    try:
        settings = Settings.from_environment(os.environ)
    except SettingsError as error:
        sys.exit(str(error))
    _configure_logging(settings.log_level)
    # Set by loops of the operator's own: kopf would wait for another kind of flag in a thread that never ends.
    failed = asyncio.Event()

    kopf.run(
        registry=register(Operation(settings, failed.set)),
        standalone=True,
        clusterwide=not settings.watch_namespaces,
        namespaces=settings.watch_namespaces,
        stop_flag=failed,
    )
    if failed.is_set():
        sys.exit(1)


def _configure_logging(level: str) -> None:
    handler = logging.StreamHandler()
    fields = "{asctime}{levelname}{name}{message}"
    handler.setFormatter(
        JsonFormatter(fields, style="{", rename_fields={"asctime": "time", "levelname": "level", "name": "logger"})
    )
    logging.basicConfig(level=level, handlers=[handler], force=True)
    # kopf tells of each event at DEBUG and INFO; decisions are ours to log.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLevelName(level)))


if __name__ == "__main__":
    main()
