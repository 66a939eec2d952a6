"""The log: one JSON object a line on stderr, with the time in UTC, of the front and of its engines alike;
`docs/logs.md` has the fields, the operator's alike.

Place: the front's `cli` and the engine's `__main__` call it once, before they do anything else. Must never: import
torch, or write to stdout.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime

from pythonjsonlogger.json import JsonFormatter

_FIELDS = "%(asctime)s %(levelname)s %(name)s %(message)s"
_NAMES = {"asctime": "time", "levelname": "level", "name": "logger"}


class _Formatter(JsonFormatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def to_stderr(level: str) -> None:
    """Have everything that is logged at `level` (info, warning, ...) or above written to stderr, warnings included."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter(_FIELDS, rename_fields=_NAMES))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.captureWarnings(True)


def take_over(library: str) -> None:
    """Have what `library` logs written as all else is, though it set up a log of its own."""
    logger = logging.getLogger(library)
    logger.handlers.clear()
    logger.propagate = True
