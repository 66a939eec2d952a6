"""Identity document: the answer of GET /v1/identity as a value (tests/contract/identity.json).

Place: read by `identities`; pure. Must never: trust a shape. What is malformed is no identity at all.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from encoder_operator.observation import DoneOrder, Identity, ItemReport, ProbeReport, ProbeResult
from encoder_operator.sizes import parse_size
from encoder_operator.timestamps import to_seconds

_MOST_ITEMS = 64
_LONGEST_TEXT = 512


def parse_identity(body: bytes) -> Identity | None:
    """The identity in this answer; None where it is not one."""
    try:
        document = json.loads(body)
        return _identity(document)
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError, RecursionError):
        return None


def _identity(document: Mapping[str, Any]) -> Identity:
    orders = document.get("orders") or {}
    lost_since = (document.get("sharing") or {}).get("unusableSince")
    return Identity(
        pod_uid=_text(document["podUid"]),
        boot_id=_text(document["bootId"]),
        revision=_text(document["revision"]),
        state=_text(document["state"]),
        reason=_text(document["reason"]),
        message=_text(document["message"]),
        fingerprint=_optional_text(document["fingerprint"]),
        signature=_optional_text(document["signature"]),
        probe=_probe(document["probe"]),
        probe_done=_done(orders.get("probe")),
        recent_violations=tuple(_item(each) for each in document["recentViolations"][:_MOST_ITEMS]),
        sharing_lost_since=None if lost_since is None else to_seconds(_text(lost_since)),
    )


def _probe(probe: Mapping[str, Any] | None) -> ProbeReport | None:
    if probe is None:
        return None
    return ProbeReport(
        result=ProbeResult(probe["result"]),
        order_id=_optional_text(probe["orderId"]),
        items=tuple(_item(each) for each in probe["items"][:_MOST_ITEMS]),
    )


def _done(order: Mapping[str, Any] | None) -> DoneOrder | None:
    return None if order is None else DoneOrder(id=_text(order["id"]), result=ProbeResult(order["result"]))


def _item(item: Mapping[str, Any]) -> ItemReport:
    grid = item.get("grid")
    return ItemReport(
        index=int(item.get("index", 0)),
        size=parse_size(item),
        grid=None if grid is None else tuple(int(each) for each in grid),
        promised=_optional_integer(item["promised"]),
        produced=_optional_integer(item["produced"]),
        result=_text(item["result"]),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value[:_LONGEST_TEXT]


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)


def _optional_integer(value: Any) -> int | None:
    return None if value is None else int(value)
