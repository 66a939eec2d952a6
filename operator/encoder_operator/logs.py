"""The log: one JSON object a line on stderr, with the time in UTC; `docs/logs.md` has the fields, the server's alike.

Place: __main__ calls it once, before it does anything else. Must never: lose of which object kopf speaks, or write
kopf's settings.
"""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

from encoder_operator import vocabulary

_FIELDS = "%(asctime)s %(levelname)s %(name)s %(message)s"
_NAMES = {"asctime": "time", "levelname": "level", "name": "logger", "k8s_ref": "object"}
# What kopf carries along for itself, beside the object that it speaks of.
_KOPFS_OWN = ("k8s_skip", "settings")


class _Formatter(JsonFormatter):
    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: N802 - logging's name
        at = datetime.fromtimestamp(record.created, UTC)
        return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def process_log_record(self, log_data: dict[str, Any]) -> dict[str, Any]:
        """Have a pool of which kopf speaks found by the fields by which the operator's own lines name it."""
        told = log_data.get("object")
        if isinstance(told, dict) and told.get("kind") == vocabulary.KIND:
            return {"namespace": told.get("namespace"), "pool": told.get("name"), **log_data}
        return log_data


def to_stderr(level: str) -> None:
    """Have everything that is logged at `level` (INFO, WARNING, ...) or above written to stderr, warnings included."""
    handler = logging.StreamHandler(sys.stderr)
    reserved = (*RESERVED_ATTRS, *_KOPFS_OWN)
    handler.setFormatter(_Formatter(_FIELDS, rename_fields=_NAMES, reserved_attrs=reserved))
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.captureWarnings(True)
    # kopf tells of each event at DEBUG and INFO; decisions are ours to log.
    logging.getLogger("kopf").setLevel(max(logging.WARNING, logging.getLevelName(level)))
