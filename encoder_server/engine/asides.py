"""What front and engine tell each other beside batches: that nobody waits any more, and how a start goes.

Place: part of `messages`, whose union they belong to. Neither is answered, and either may be lost without harm.

Must never: change what a batch's answer means, or carry more than words and numbers.
"""

from __future__ import annotations

from typing import Literal, get_args

from pydantic.dataclasses import dataclass as validated

Stage = Literal["starting", "loading", "building", "warming", "probing", "measuring"]
STAGES: tuple[Stage, ...] = get_args(Stage)
"""The stages of an engine's start, in their order: its libraries, the weights, the model, its first run, the golden
probe with the identity, and the batch budget."""


@validated(frozen=True, kw_only=True)
class Cancel:
    """Front to engine: nobody waits any more for these items (by index) of a batch. Those that it has not begun to
    encode, it leaves out of its answer."""

    kind: Literal["cancel"] = "cancel"
    batch: int
    items: tuple[int, ...]


@validated(frozen=True, kw_only=True)
class Progress:
    """Engine to front, before its Hello: the stage of its start, and how much of it is done.

    `done` of `total`, in units of the stage (tensors); `total` 0: it cannot be told.
    """

    kind: Literal["progress"] = "progress"
    stage: Stage
    done: int = 0
    total: int = 0
