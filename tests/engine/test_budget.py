"""The batch budget that an engine measures: with encoders whose runs take a stated time, and with a real one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from encoder_server.encoders import BATCH_BUDGET
from encoder_server.engine import budget, paying
from encoder_server.engine.budget import Gauge, measure
from encoder_server.engine.encode import Embedding
from encoder_server.engine.messages import Failure, Size
from encoder_server.engine.pipeline import Pipeline, Prepared
from encoder_server.engine.preprocess import Medium
from encoder_server.engine.probe import synthetic
from tests.support.families import Families

LARGE = synthetic(Size(modality="image", width=256, height=256))


class Timed:
    """Stages whose runs take the time that `seconds` says of how many small and large pictures there are."""

    def __init__(
        self,
        seconds: Callable[[int, int], float],
        *,
        bytes_each: int = 0,
        fails: bool = False,
        noise: Sequence[float] = (1.0,),
        share: float = 1.0,
    ) -> None:
        self.seconds = seconds
        self.bytes_each = bytes_each
        self.fails = fails
        self.noise = noise
        self.share = share
        self.now = 0.0
        self.peak = 0
        self.runs = 0

    def prepare(self, media: Sequence[Medium]) -> Prepared:
        return cast(Prepared, SimpleNamespace(media=media))

    def encode(self, prepared: Prepared) -> tuple[list[Embedding], list[Failure]]:
        media = cast(Any, prepared).media
        large = sum(medium.data == LARGE for medium in media)
        self.now += self.seconds(len(media) - large, large) * self.noise[self.runs % len(self.noise)]
        self.peak = max(self.peak, self.bytes_each * len(media))
        self.runs += 1
        rows = torch.zeros(1, 1)
        made = [Embedding(index=each.index, modality="image", rows=rows, finite=True) for each in media]
        return ([] if self.fails else made), []

    def budget(self, most: int = BATCH_BUDGET) -> int:
        return measure(self, most, Gauge(work=lambda: self.now, clock=self.clock, peak=lambda: self.peak))

    def clock(self) -> float:
        """Time gone by, where others have the processor for the rest of it."""
        return self.now / self.share


def linear(call: float, small: float, large: float) -> Callable[[int, int], float]:
    return lambda smalls, larges: call + smalls * small + larges * large


def test_as_many_share_a_batch_as_nobody_notices_so_long_as_no_item_gets_dearer() -> None:
    items = [Timed(linear(0.0, each, 16 * each)).budget() // 256**2 for each in (0.02, 0.002, 0.0002)]
    assert items == sorted(set(items))
    assert all(count * 16 * each <= paying.UNNOTICED for count, each in zip(items, (0.02, 0.002, 0.0002), strict=True))


def test_what_gains_much_may_take_longer_than_nobody_notices() -> None:
    dear = Timed(linear(0.15, 0.001, 0.016)).budget()
    assert dear >= 2 * 64**2
    assert Timed(linear(0.0, 0.15, 0.15)).budget() == 0


def test_a_batch_is_not_doubled_where_an_item_gets_dearer() -> None:
    found = Timed(lambda smalls, larges: 0.0001 * max(smalls, smalls**2 / 8) + 0.01 * larges**2).budget()
    assert 0 < found <= 16 * 64**2


@pytest.mark.parametrize("most", [0, 100_000, BATCH_BUDGET])
def test_no_budget_is_more_than_the_encoder_allows(most: int) -> None:
    assert Timed(linear(0.02, 0.00001, 0.00016)).budget(most) <= most


def test_who_comes_alone_waits_no_longer_for_mates_than_stated() -> None:
    found = Timed(linear(0.05, 0.01, 0.16)).budget()
    assert found
    assert 0.05 + found // 64**2 * 0.01 <= paying.LONGEST


def test_an_encoder_that_large_batches_slow_down_gets_a_smaller_budget() -> None:
    steady = Timed(linear(0.004, 0.0002, 0.002)).budget()
    slowed = Timed(lambda smalls, larges: 0.004 + smalls * 0.0002 + larges**3 * 0.002).budget()
    assert slowed < 2 * 256**2 < steady


def test_a_batch_that_takes_too_much_memory_is_not_in_the_budget() -> None:
    slim = Timed(linear(0.01, 0.0001, 0.001)).budget()
    fat = Timed(linear(0.01, 0.0001, 0.001), bytes_each=budget.MOST_BYTES // 9).budget()
    assert fat < 9 * 256**2 < slim


@pytest.mark.parametrize(("share", "part"), [(1.0, 2), (0.25, 2), (0.1, 4)])
@pytest.mark.parametrize("model", [(0.004, 0.0002, 0.002), (0.02, 0.0001, 0.001), (0.002, 0.0005, 0.008)])
def test_a_busy_machine_measures_no_less_than_a_part_of_what_an_idle_one_does(
    model: tuple[float, float, float], share: float, part: int
) -> None:
    """With a share of a processor, and runs that take up to half as long again."""
    idle = Timed(linear(*model)).budget()
    busy = Timed(linear(*model), noise=(1.0, 1.5, 1.1, 1.3, 1.05, 1.2, 1.4), share=share)
    assert idle / part <= busy.budget() <= 2 * idle
    assert busy.clock() <= budget.MOST_SECONDS + 0.25 / share


@pytest.mark.parametrize("seconds", [0.001, 0.02, 0.3, 30])
def test_measuring_ends_in_time_however_slow_the_model_is(seconds: float) -> None:
    timed = Timed(linear(seconds, seconds, 16 * seconds))
    timed.budget()
    longest = seconds + 16 * 16 * seconds if seconds < 0.01 else 17 * seconds
    assert timed.now <= budget.SECONDS + longest


def test_an_encoder_that_cannot_encode_the_pictures_shares_nothing() -> None:
    timed = Timed(linear(0.001, 0.001, 0.001), fails=True)
    assert timed.budget() == 0
    assert timed.runs <= 20


@pytest.mark.parametrize("family", ["clip", "pixtral", "qwen2_5_vl"])
def test_a_real_encoders_budget_is_measured_in_a_stated_time(families: Families, family: str) -> None:
    pipeline: Pipeline = families.pipeline(family)
    began = time.monotonic()
    found = measure(pipeline, BATCH_BUDGET, budget.gauge("cpu"))
    assert 0 <= found <= BATCH_BUDGET
    # One run of sixteen pictures may be under way when the time is over.
    assert time.monotonic() - began < budget.MOST_SECONDS + 10
