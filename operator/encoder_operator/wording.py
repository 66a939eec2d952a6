"""Wording: what a replica said of itself, in the words that a pool's user reads.

Place: used by judge's rules, attribution and events; pure. Must never: judge, or leave out what was measured.
"""

from __future__ import annotations

from encoder_operator import vocabulary
from encoder_operator.observation import CordonRecord, CordonState, Identity, ItemReport, Replica, Size


def counted(number: int, noun: str) -> str:
    """So many of something that is named in the singular."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def item_words(item: ItemReport) -> str:
    """One item in words, as a user reads it: which, how large, what was promised and what was produced."""
    return f"item {item.index} ({size_words(item.size)}) {count_words(item)}"


def size_words(size: Size) -> str:
    """A size in words."""
    if size.samples or size.rate:
        return f"{size.modality} {size.samples} samples at {size.rate} Hz"
    if not size.is_known:
        return f"{size.modality} of no known size"
    frames = f", {size.frames} frames" if size.frames else ""
    rate = f" at {size.fps:g} fps" if size.fps else ""
    return f"{size.modality} {size.width}x{size.height}{frames}{rate}"


def count_words(item: ItemReport) -> str:
    """What was promised of an item, and what was produced."""
    return f"promised {item.promised}, produced {'nothing' if item.produced is None else item.produced}"


def state_words(identity: Identity) -> str:
    """The state that a replica is in, with its own reason and message."""
    return f"{identity.state} ({identity.reason}): {identity.message}"


def not_ours_words(record: CordonRecord | None) -> str:
    """Who took a replica out of the Service, where that was not the operator's own decision."""
    stands = record if record is not None and record.state is CordonState.CORDONED else None
    if stands is not None and stands.reason == vocabulary.HAND_CORDON:
        return f"cordoned by hand until annotation {vocabulary.ANNOTATION_HAND_CORDON} goes: {stands.message}"
    by = stands.by if stands is not None and stands.by != vocabulary.FIELD_MANAGER else "a person"
    return f"label {vocabulary.LABEL_SERVING} is not {vocabulary.SERVING}, set by {by} and left alone"


def why_not_repaired(replica: Replica) -> str:
    """What keeps a cordoned replica from being tried, where that is another matter than its cordon; to be told
    behind the cordon's own message."""
    identity = replica.identity
    if identity is None:
        return "" if replica.obstacle is None else f"; {replica.obstacle.message}"
    return f"; {state_words(identity)}" if identity.state == vocabulary.STATE_FAILED else ""
