"""The operator's entry point: settings, logging, then kopf by import.

Place: the container's command, `encoder-operator`. Must never: be run as a file by kopf, or read the environment
anywhere else.
"""

from __future__ import annotations

import asyncio
import os
import sys

import kopf

from encoder_operator import logs
from encoder_operator.handlers import register
from encoder_operator.operation import Operation
from encoder_operator.settings import Settings, SettingsError


def main() -> None:
    """Run the operator until it is told to stop; exits with 1 where a part of it failed."""
    try:
        settings = Settings.from_environment(os.environ)
    except SettingsError as error:
        sys.exit(str(error))
    logs.to_stderr(settings.log_level)
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


if __name__ == "__main__":
    main()
