"""The audit's decisions on video: its step in time, its cases as data, and the order in which frames come out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from encoder_server.conformance.cases import Case, Specimen
from encoder_server.conformance.clips import video_cases
from encoder_server.conformance.compare import Rows
from encoder_server.conformance.drawing import draw
from encoder_server.conformance.films import film_cases
from encoder_server.conformance.geometry import Axis, Geometry, explore_frames
from encoder_server.conformance.reading import order_in_time
from encoder_server.engine.bounds import DEFAULTS
from encoder_server.engine.decode_clip import decode_clip

STEPS, CELLS = 6, 9


def cases(time: int | None, *, quick: bool = False, max_pixels: int = 200_000) -> tuple[Case, ...]:
    axis = Axis(base=112, across=112, factor=28, edges=())
    return video_cases(Geometry(width=axis, height=axis, time=time), max_pixels=max_pixels, quick=quick)


def specimens(of: Sequence[Case]) -> list[Specimen]:
    return list(dict.fromkeys(specimen for case in of for run in case.runs for specimen in run))


@pytest.mark.parametrize("step", [1, 2, 3, 4])
def test_the_step_in_time_is_found_whether_a_rest_is_filled_up_or_left_out(step: int) -> None:
    assert explore_frames(lambda counts: [-(-count // step) for count in counts]) == step
    assert explore_frames(lambda counts: [max(1, count // step) for count in counts]) == step


def test_a_processor_that_takes_a_fixed_number_of_frames_has_no_step_in_time() -> None:
    assert explore_frames(lambda counts: [8 for _ in counts]) is None


@pytest.mark.parametrize("time", [1, 2, 3, 4, None])
def test_every_number_of_frames_is_swept_and_both_sides_of_whole_patches(time: int | None) -> None:
    counts = {case.runs[0][0].frames for case in cases(time) if case.group == "frames"}
    assert counts >= {*range(1, 34), 16 * (time or 1) - 1, 16 * (time or 1), 16 * (time or 1) + 1}


def test_every_video_of_a_batch_was_encoded_alone_before_and_batches_mix_sizes_frames_and_rates() -> None:
    mixed = set()
    for case in cases(2):
        alone: set[Specimen] = set()
        for run in case.runs:
            assert len(run) == 1 or set(run) <= alone
            alone |= set(run)
            mixed |= {len({(each.width, each.height) for each in run}), -len({each.frames for each in run})}
            assert len(run) < 2 or case.group != "rates in a batch" or len({each.fps for each in run}) == 3
    assert {4, -4} <= mixed


@pytest.mark.parametrize("time", [1, 2, None])
def test_of_a_video_file_every_frame_that_is_painted_over_was_chosen_and_some_have_neighbours(time: int | None) -> None:
    chosen = list(range(0, 48, 3))
    axis = Axis(base=112, across=112, factor=28, edges=())
    geometry = Geometry(width=axis, height=axis, time=time)
    for case in film_cases(geometry, lambda frames, fps: [at for at in chosen if at < frames], max_pixels=10_000):
        (film,), *parts = case.runs
        painted = [each.repainted[0] for (each,) in parts if each.repainted]
        assert (film.whole, film.filed, len(painted)) == (True, True, len(parts))
        assert set(painted) <= set(chosen)
        assert {chosen.index(at) % 2 for at in painted} == {0, 1}
        assert all(each.alike(film) for (each,) in parts)
    assert film_cases(geometry, lambda frames, fps: (), max_pixels=1000) == ()


def test_what_is_painted_over_in_a_frame_of_a_file_is_in_no_other() -> None:
    film = Specimen(modality="video", width=84, height=56, frames=6, fps=10.0, filed=True)
    plain, painted = (
        decode_clip(draw(each)[0], bounds=DEFAULTS).frames for each in (film, replace(film, repainted=(2, 3)))
    )
    assert [bool((one != other).any()) for one, other in zip(plain, painted, strict=True)] == [
        at == 2 for at in range(6)
    ]


def test_a_sweep_of_video_stays_within_the_pixel_limit_of_a_frame_and_is_shorter_where_quick() -> None:
    assert all(each.width * each.height <= 30_000 for each in specimens(cases(2, max_pixels=30_000)))
    assert len(cases(2, quick=True)) < len(cases(2))


def test_no_two_frames_are_drawn_alike_and_one_is_always_drawn_the_same() -> None:
    whole = [each for each in specimens(cases(2, quick=True)) if each.whole and not each.fps and each.pixels > 5000]
    frames = [frame for each in whole for frame in draw(each)]
    assert len(frames) == sum(each.frames for each in whole)
    assert len(set(frames)) == len(frames)
    assert draw(whole[0]) == draw(whole[0])


def test_painting_over_frames_changes_those_alone() -> None:
    plain = Specimen(modality="video", width=56, height=56, frames=6)
    painted = draw(replace(plain, repainted=(2, 4)))
    assert [one != other for one, other in zip(draw(plain), painted, strict=True)] == [at in (2, 3) for at in range(6)]


def rows() -> Rows:
    return np.random.default_rng(1).standard_normal((STEPS * CELLS, 4)).astype(np.float32)


def painted(order: Sequence[int], *, leak: float = 0.1) -> list[Rows]:
    """What comes out where part `order[at]` of the time answers in the rows of step `at`, and a little everywhere."""
    made = []
    for part in range(STEPS):
        moved = rows() + np.float32(leak)
        at = order.index(part) * CELLS
        moved[at : at + CELLS] += 1
        made.append(moved)
    return made


def test_parts_of_the_time_are_told_in_the_order_in_which_their_rows_come() -> None:
    for order in ((0, 1, 2, 3, 4, 5), (5, 4, 3, 2, 1, 0), (0, 2, 4, 1, 3, 5), (1, 0, 2, 3, 4, 5)):
        assert order_in_time(rows(), painted(order)) == order


def test_rows_with_no_order_in_time_are_not_judged() -> None:
    pooled = [rows() + np.float32(part + 1) for part in range(STEPS)]
    assert order_in_time(rows(), pooled) is None
    by_cell = []
    for part in range(STEPS):
        moved = rows()
        moved[part::STEPS] += 1
        by_cell.append(moved)
    assert order_in_time(rows(), by_cell) is None
    assert order_in_time(rows(), [rows()] * STEPS) is None
    assert order_in_time(rows()[:1], [rows()[:1] + 1] * 2) is None
