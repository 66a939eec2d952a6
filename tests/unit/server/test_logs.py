"""The log: whatever writes to it, each line is one JSON object, with the time in UTC."""

from __future__ import annotations

import json
import re
import subprocess
import sys

PROGRAM = """
import logging, warnings
from encoder_server import logs

logs.to_stderr("info")
library = logging.getLogger("library")
library.addHandler(logging.StreamHandler())
library.propagate = False
logs.take_over("library")
logging.getLogger("ours").info("named", extra={"engine": 0})
library.warning("of a library")
warnings.warn("of Python")
logging.getLogger("ours").debug("not shown")
"""


def test_every_line_is_json_with_the_time_in_utc() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env={"TZ": "Asia/Tokyo"}, capture_output=True, text=True, check=True
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["message"].partition(" ")[0] for line in lines[:2]] == ["named", "of"]
    assert len(lines) == 3
    assert lines[0] | {"time": ""} == {"time": "", "level": "INFO", "logger": "ours", "message": "named", "engine": 0}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"]) for line in lines)
