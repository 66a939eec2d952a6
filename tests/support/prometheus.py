"""Prometheus as a user asks it: PromQL over its HTTP interface."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

from tests.support import ground


def query(expression: str) -> list[dict[str, Any]]:
    """The result list of an instant query."""
    url = f"{ground.PROMETHEUS}/api/v1/query?{urllib.parse.urlencode({'query': expression})}"
    with urllib.request.urlopen(url, timeout=10) as answer:
        result: list[dict[str, Any]] = json.load(answer)["data"]["result"]
    return result


def value(expression: str) -> float:
    """The sum of an instant query's values; 0 where there are none."""
    return sum(float(each["value"][1]) for each in query(expression))


def samples(expression: str) -> list[tuple[float, float]]:
    """Raw samples (time in Unix seconds, value) of the one series that a range selector names."""
    found = query(expression)
    assert len(found) <= 1, f"{expression} names {len(found)} series"
    return [(float(at), float(text)) for at, text in found[0]["values"]] if found else []
