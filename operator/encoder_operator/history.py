"""History: the last revisions that served, with all that is needed to serve them again.

Place: read and added to by recall, planned as a ConfigMap by plan; eviction and rejection ask it for the way back.
Must never: hold a revision that was rejected, or more than a few: each is a whole pod template.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from encoder_operator import vocabulary
from encoder_operator.standing import Expected, Kept, Revision, Role, Standing
from encoder_operator.timestamps import to_seconds

# What serves, and two before it.
_KEPT = 3


def read(data: Mapping[str, str]) -> tuple[Kept, ...]:
    """What the ConfigMap's data tells, the newest first; an entry that a person broke is none."""
    found = [kept for text in data.values() if (kept := _entry(text)) is not None]
    return _newest_first(found)


def render(kept: Sequence[Kept]) -> dict[str, str]:
    """The ConfigMap's data; equal histories give equal text."""
    return {
        f"{each.hash}.json": json.dumps(
            {
                "hash": each.hash,
                "since": each.since,
                "fingerprint": each.expected.fingerprint if each.expected else None,
                "signature": each.expected.signature if each.expected else None,
                "template": each.template,
            },
            sort_keys=True,
        )
        for each in kept
    }


def served(kept: Sequence[Kept], current: Revision, template: Mapping[str, Any], now: str) -> tuple[Kept, ...]:
    """The history with what serves now as its newest."""
    others = [each for each in kept if each.hash != current.hash]
    before = next((each for each in kept if each.hash == current.hash), None)
    newest = before is not None and all(each.since <= before.since for each in others)
    entry = Kept(
        hash=current.hash,
        expected=current.expected,
        template=template,
        since=before.since if before is not None and newest else now,
    )
    return _newest_first([entry, *others])[:_KEPT]


def without(kept: Sequence[Kept], rejected: Sequence[str]) -> tuple[Kept, ...]:
    """The history without what was found to be bad since."""
    return tuple(each for each in kept if each.hash not in rejected)


def successor(kept: Sequence[Kept], bad: str) -> Kept | None:
    """The last revision that served well, to go back to from this one."""
    return next((each for each in kept if each.hash != bad), None)


def way_back(standing: Standing, bad: Revision, within: float, now: float) -> Kept | None:
    """What is gone back to from this revision, where going back may help."""
    if given_up_before(standing, bad, within, now) is not None:
        return None
    return successor(standing.past.kept, bad.hash)


def given_up_before(standing: Standing, bad: Revision, within: float, now: float) -> Revision | None:
    """Another revision that was given up less than so many seconds before this one's fault began. Then what is at
    fault is what was gone back to: two revisions in a row are more likely to share a cause that is in neither."""
    began = to_seconds(bad.since) if bad.reason == vocabulary.REVISION_FAULT and bad.since else now
    rejected = (each for each in (*standing.revisions, *standing.past.rejected) if each.role is Role.REJECTED)
    others = (each for each in rejected if each.hash != bad.hash and each.since)
    return next((each for each in others if began - to_seconds(each.since) < within), None)


def _newest_first(kept: Sequence[Kept]) -> tuple[Kept, ...]:
    by_name = sorted(kept, key=lambda each: each.hash)
    return tuple(sorted(by_name, key=lambda each: each.since, reverse=True))


def _entry(text: str) -> Kept | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    match value:
        case {"hash": str(name), "since": str(since), "template": {"spec": _} as template}:
            kept = Kept(hash=name, expected=None, template=template, since=since)
        case _:
            return None
    fingerprint, signature = value.get("fingerprint"), value.get("signature")
    if not isinstance(fingerprint, str):
        return kept
    known = Expected(fingerprint=fingerprint, signature=signature if isinstance(signature, str) else None)
    return replace(kept, expected=known)
