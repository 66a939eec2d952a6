"""What a failed batch costs: how often its items are run again, whoever and however many are at fault."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from encoder_server.engine.isolate import Fault, isolate

BATCHES = st.integers(1, 64).flatmap(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1))))


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Each culprit is told of with its traceback: thousands of them here."""
    log = logging.getLogger(isolate.__module__)
    level = log.level
    log.setLevel(logging.ERROR)
    yield
    log.setLevel(level)


class Stage:
    """A stage that fails with whatever culprit it is given, and where it is given more than it has room for."""

    def __init__(self, culprits: set[int], room: int = 10**9) -> None:
        self.culprits = culprits
        self.room = room
        self.runs: list[list[int]] = []
        self.failed = 0

    def __call__(self, items: Sequence[int]) -> list[int]:
        self.runs.append(list(items))
        self.failed += 1
        if len(items) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        if self.culprits & set(items):
            raise ValueError("position_ids do not match the attention input")
        self.failed -= 1
        return [-item for item in items]

    def isolated(self, count: int) -> list[int | Fault]:
        return isolate("model", self, range(count), lambda item: item)

    @property
    def items_run(self) -> int:
        return sum(map(len, self.runs))


@settings(max_examples=30, deadline=None)
@given(BATCHES)
def test_every_culprit_fails_alone_and_about_three_times_the_items_are_run_at_most(
    batch: tuple[int, set[int]],
) -> None:
    count, culprits = batch
    stage = Stage(culprits)
    outcomes = stage.isolated(count)
    assert [at for at, outcome in enumerate(outcomes) if isinstance(outcome, Fault)] == sorted(culprits)
    assert all(outcome == -at for at, outcome in enumerate(outcomes) if at not in culprits)
    levels = math.ceil(math.log2(count))
    assert len(stage.runs) <= (2 * levels if len(culprits) == 1 else count + 2 * levels) + 1
    assert stage.items_run <= 3 * count + math.ceil(math.log2(count))


@pytest.mark.parametrize(("count", "runs"), [(2, 3), (16, 9), (64, 13)])
def test_one_culprit_costs_a_logarithm_of_runs(count: int, runs: int) -> None:
    stage = Stage({count - 1})
    stage.isolated(count)
    assert len(stage.runs) == runs


@settings(max_examples=6, deadline=None)  # Each failure collects the garbage of all of torch.
@given(st.integers(1, 64), st.integers(1, 64))
def test_what_does_not_fit_is_run_in_halves_and_nothing_as_large_is_tried_again(count: int, room: int) -> None:
    stage = Stage(set(), room)
    assert stage.isolated(count) == [-item for item in range(count)]
    assert stage.failed <= math.ceil(math.log2(count))
    assert stage.items_run <= 3 * count + math.ceil(math.log2(count))


@settings(max_examples=6, deadline=None)
@given(BATCHES, st.integers(1, 64))
def test_culprits_are_found_in_a_batch_that_does_not_even_fit(batch: tuple[int, set[int]], room: int) -> None:
    count, culprits = batch
    stage = Stage(culprits, room)
    outcomes = stage.isolated(count)
    assert {at for at, outcome in enumerate(outcomes) if isinstance(outcome, Fault)} == culprits
    assert stage.items_run <= 5 * count


def test_items_that_are_too_large_alone_fail_alone() -> None:
    stage = Stage(set(), room=0)
    assert [outcome.code for outcome in stage.isolated(8) if isinstance(outcome, Fault)] == ["out_of_memory"] * 8
    assert len(stage.runs) <= 8 + 3
