"""Comparison: whether an object of the API server already holds what a manifest asks for.

Place: used by apply, to write nothing where nothing changes. Must never: answer yes for an object that
another write would change; a no too many costs one call that changes nothing.

Two questions: is every field of the manifest there with its value, and does our field manager own nothing
that the manifest no longer names (what a server-side apply would then remove)?
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.quantities import quantity

# Maps that the API server keeps as one value: a key too many makes another selector, and an apply replaces it.
_WHOLE = ("selector",)


def holds(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    """Whether applying the manifest would leave this object as it is."""
    return _has(live, manifest) and _owns_no_more(live, manifest)


def _has(live: object, wanted: object) -> bool:
    if isinstance(wanted, Mapping):
        if not wanted:
            return live is None or isinstance(live, Mapping)
        return isinstance(live, Mapping) and all(
            live.get(key) == wanted[key] if key in _WHOLE else _has(live.get(key), wanted[key]) for key in wanted
        )
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        return (
            isinstance(live, Sequence)
            and len(live) == len(wanted)
            and all(_has(mine, theirs) for mine, theirs in zip(live, wanted, strict=True))
        )
    return live == wanted or _same_quantity(live, wanted)


def _same_quantity(live: object, wanted: object) -> bool:
    # The API server writes quantities its own way: 0.5 comes back as 500m, 1024Mi as 1Gi.
    if not isinstance(live, str) or not isinstance(wanted, str):
        return False
    mine, theirs = quantity(live), quantity(wanted)
    return mine is not None and mine == theirs


def _owns_no_more(live: Mapping[str, Any], manifest: Mapping[str, Any]) -> bool:
    for entry in live.get("metadata", {}).get("managedFields") or ():
        if (
            entry.get("manager") == vocabulary.FIELD_MANAGER
            and entry.get("operation") == "Apply"
            and not entry.get("subresource")
        ):
            return _names(manifest, entry.get("fieldsV1") or {})
    return False


def _names(wanted: object, owned: Mapping[str, Any]) -> bool:
    """Whether the manifest names every owned field: the API server's set of them, by its key prefixes."""
    for key, below in owned.items():
        kind, _, rest = key.partition(":")
        match kind:
            case "f":
                if not isinstance(wanted, Mapping) or rest not in wanted or not _names(wanted[rest], below):
                    return False
            case "k":
                item = _item(wanted, json.loads(rest))
                if item is None or not _names(item, below):
                    return False
            case "v":
                if not isinstance(wanted, Sequence) or json.loads(rest) not in wanted:
                    return False
    return True


def _item(wanted: object, keys: Mapping[str, Any]) -> object | None:
    if not isinstance(wanted, Sequence):
        return None
    for item in wanted:
        if isinstance(item, Mapping) and all(item.get(key) == value for key, value in keys.items()):
            return item
    return None
