"""The audit's decisions: steps found by asking, cases as data, rows found again among other rows."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence

import numpy as np
import pytest

from encoder_server.conformance.audit import State, settle, verdicts
from encoder_server.conformance.cases import Case, Specimen, image_cases
from encoder_server.conformance.compare import Rows, distance, explain
from encoder_server.conformance.drawing import draw
from encoder_server.conformance.findings import MEANINGS, RULES, Finding, Kind, Rule
from encoder_server.conformance.geometry import Axis, Geometry, explore

TOLERANCE = 1e-3
LIMIT = 16_777_216


def rounded(factor: int) -> Callable[[Sequence[tuple[int, int]]], list[Hashable]]:
    return lambda sizes: [(round(width / factor), round(height / factor)) for width, height in sizes]


@pytest.mark.parametrize("factor", [14, 16, 28, 32])
def test_the_factor_is_found_where_halves_are_rounded_to_even_steps(factor: int) -> None:
    found = explore(rounded(factor))
    assert (found.width.factor, found.height.factor) == (factor, factor)
    assert found.width.base % factor == 0


def test_the_sides_of_a_picture_may_have_steps_of_their_own() -> None:
    found = explore(lambda sizes: [(width // 20, height // 30) for width, height in sizes])
    assert (found.width.factor, found.height.factor) == (20, 30)
    assert {edge % 20 for edge in found.width.edges} == {0}


def test_a_processor_that_scales_small_pictures_up_is_asked_about_larger_ones() -> None:
    def grids(sizes: Sequence[tuple[int, int]]) -> list[Hashable]:
        return [None if width * height < 40_000 else (width // 28, height // 28) for width, height in sizes]

    found = explore(grids)
    assert (found.width.base >= 448, found.width.factor) == (True, 28)


def test_tiles_far_apart_are_found_to_the_pixel() -> None:
    found = explore(lambda sizes: [(-(-width // 336), -(-height // 336)) for width, height in sizes])
    assert found.width.factor is None
    assert found.width.edges == (337, 673, 1009, 1345)


def test_a_processor_with_one_grid_has_neither_steps_nor_edges() -> None:
    found = explore(lambda sizes: [49 for _ in sizes])
    assert (found.width.factor, found.width.edges) == (None, ())


def geometry(factor: int | None) -> Geometry:
    axis = Axis(base=112, across=112, factor=factor, edges=(126, 154))
    return Geometry(width=axis, height=axis)


def sizes(cases: Sequence[Case], group: str) -> list[tuple[int, int]]:
    return [(case.runs[0][0].width, case.runs[0][0].height) for case in cases if case.group == group]


def test_every_residue_is_swept_along_both_sides_at_odd_and_even_grids_and_both_sides_of_each_edge() -> None:
    cases = image_cases(geometry(28), max_pixels=LIMIT, quick=False)
    assert {(width % 28, height // 28) for width, height in sizes(cases, "widths")} == {
        (residue, steps) for residue in range(28) for steps in (4, 5)
    }
    assert {height % 28 for _, height in sizes(cases, "heights")} == set(range(28))
    along = {edge + step for edge in (126, 154) for step in (-1, 0, 1)}
    assert set(sizes(cases, "edges")) == {(edge, 112) for edge in along} | {(112, edge) for edge in along}


def test_a_sweep_stays_bounded_for_a_large_factor_and_within_the_pixel_limit() -> None:
    cases = image_cases(geometry(512), max_pixels=300_000, quick=False)
    assert len(sizes(cases, "widths")) <= 128
    assert max(specimen.pixels for case in cases for run in case.runs for specimen in run) <= 300_000
    assert len(image_cases(geometry(28), max_pixels=LIMIT, quick=True)) < len(
        image_cases(geometry(28), max_pixels=LIMIT, quick=False)
    )


def test_every_item_of_a_batch_was_encoded_alone_before() -> None:
    for case in image_cases(geometry(28), max_pixels=LIMIT, quick=False):
        alone: set[Specimen] = set()
        for run in case.runs:
            assert len(run) == 1 or set(run) <= alone
            alone |= set(run)


def test_no_two_specimens_are_drawn_alike_and_one_is_always_drawn_the_same() -> None:
    cases = image_cases(geometry(28), max_pixels=100_000, quick=True)
    specimens = list(dict.fromkeys(specimen for case in cases for run in case.runs for specimen in run))
    files = [draw(specimen) for specimen in specimens]
    assert len(set(files)) == len(files)
    assert [draw(specimen) for specimen in specimens[:5]] == files[:5]


def rows(seed: int, count: int = 6) -> Rows:
    return np.random.default_rng(seed).standard_normal((count, 4)).astype(np.float32)


def kind(index: int, produced: Rows, alone: Sequence[Rows]) -> Kind | None:
    found = explain(index, produced, alone, [index], TOLERANCE)
    return None if found is None else found.kind


def test_rows_within_the_tolerance_are_the_same_and_one_wrong_row_among_many_is_not() -> None:
    true = rows(1, count=500)
    assert kind(0, true + np.float32(1e-5), [true]) is None
    wrong = true.copy()
    wrong[77] = -wrong[77]
    assert kind(0, wrong, [true]) is Kind.MATES
    assert distance(wrong, true) > 0.5


def test_each_way_of_mixing_rows_has_its_name() -> None:
    first, second = rows(1), rows(2)
    alone = [first, second]
    assert kind(0, second, alone) is Kind.PERMUTES
    assert kind(0, first[::-1], alone) is Kind.REVERSES
    assert kind(0, np.roll(first, 1, axis=0), alone) is Kind.SHUFFLES
    assert kind(1, np.concatenate([first[-2:], second[:-2]]), alone) is Kind.CONCATENATES
    assert kind(1, np.concatenate([first[-1:], second]), alone) is Kind.CONCATENATES
    assert kind(0, first[:4], alone) is None, "its count is told elsewhere"
    assert kind(0, first * np.float32(1.2), alone) is Kind.MATES


def finding(kind: Kind, *, seeded: bool = False, note: bool = False, pixels: int = 9) -> Finding:
    return Finding(
        kind=kind, detail="", group="", batch=("image 3x3",), index=0, pixels=pixels, seeded=seeded, note=note
    )


def test_what_differs_only_while_random_numbers_run_on_is_chance_and_otherwise_it_is_state() -> None:
    assert [each.kind for each in settle([finding(Kind.STATE)])] == [Kind.RANDOM]
    assert {each.kind for each in settle([finding(Kind.STATE), finding(Kind.STATE, seeded=True)])} == {Kind.STATE}


def test_a_rule_that_was_never_tested_is_not_good() -> None:
    found = {verdict.rule: verdict.state for verdict in verdicts([], {Rule.PROMISE: 3})}
    assert found.pop(Rule.PROMISE) is State.GOOD
    assert set(found.values()) == {State.NOT_JUDGED}


def test_the_first_place_told_is_the_smallest() -> None:
    small = [finding(Kind.PADS, pixels=pixels) for pixels in (900, 4, 25)]
    (verdict,) = (each for each in verdicts(small, {}) if each.rule is Rule.PROMISE)
    assert [(fault.first.pixels, fault.places) for fault in verdict.faults] == [(4, 3)]


def test_every_kind_belongs_to_a_rule_and_every_rule_has_a_meaning() -> None:
    assert set(RULES) == set(Kind)
    assert set(RULES.values()) == set(MEANINGS) == set(Rule)
