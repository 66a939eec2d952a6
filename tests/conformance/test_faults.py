"""Every way in which a user's own encoder goes wrong is found, and named as what it is."""

from __future__ import annotations

import json
import re

import pytest
import torch

from encoder_server.conformance import report
from encoder_server.conformance.audit import Audit, State
from encoder_server.conformance.findings import Kind, Rule
from encoder_server.conformance.sweep import Extent, Sweep
from encoder_server.conformance.watch import Watching
from encoder_server.engine.bounds import Bounds
from tests.conformance import encoders

LIMIT = 700_000
QUICK = Extent(max_pixels=LIMIT, quick=True, seconds=100)


def audit(family: type[encoders.Sound], extent: Extent = QUICK) -> Audit:
    torch.set_num_threads(1)
    return Sweep(Watching(family(), bounds=Bounds(max_pixels=LIMIT)), extent, lambda text: None).run()


def faults(found: Audit) -> dict[Kind, str]:
    return {fault.kind: report.tell(verdict) for verdict in found.verdicts for fault in verdict.faults}


@pytest.mark.parametrize("family", [encoders.Sound, encoders.Fixed])
def test_a_sound_encoder_is_good_by_every_rule(family: type[encoders.Sound]) -> None:
    found = audit(family)
    assert faults(found) == {}
    assert found.good
    assert not found.notes
    assert {verdict.rule for verdict in found.verdicts if verdict.tested} == set(Rule)


@pytest.mark.parametrize(
    ("family", "kind", "told"),
    [
        (encoders.Truncates, Kind.TRUNCATES, "truncates above 40 rows; first image 61x173, alone"),
        (encoders.PadsToMultiples, Kind.PADS, "pads to multiples of 8 rows; first image 1x1, alone"),
        (encoders.PadsToTheLongest, Kind.PADS, "pads to the longest item of the batch; first image 56x56, item 0 of 2"),
        (encoders.AddsAToken, Kind.PADS, "pads: 1 row more than promised"),
        (encoders.Permutes, Kind.PERMUTES, "item 0 of 2 .*: it has the rows of item 1"),
        (encoders.ReversesInABatch, Kind.REVERSES, "item 1 of 2 .*: its rows run from the last to the first"),
        (encoders.ReadsBackwards, Kind.REVERSES, "alone: its last rows are of the picture's first corner"),
        (encoders.Shuffles, Kind.SHUFFLES, "it has its own rows in another order"),
        (encoders.Interleaves, Kind.CONCATENATES, "its 17 rows from 1 to 33 are item 1's rows 0 to 16"),
        (encoders.LaysSideBySide, Kind.CONCATENATES, "16 wide: the 2 items of the batch lie side by side"),
        (encoders.ReusesItsBuffer, Kind.BUFFER, "item 0 of 2 .*: its rows lie in the same memory as item 1's"),
        (encoders.NormalisesTheBatch, Kind.MATES, "of their length from those it has alone"),
        (encoders.KeepsState, Kind.STATE, "image 84x112, alone: its rows are .* from those of its first time"),
        (encoders.AnswersLate, Kind.STATE, "image 84x112, alone: its rows are .* from those of its first time"),
        (encoders.DropsOut, Kind.RANDOM, "non-deterministic; first image 84x112.* at most 1"),
        (encoders.Blind, Kind.BLIND, "it has the rows of another medium of its size"),
        (encoders.Narrow, Kind.WIDTH, "rows are 8 wide, 9 is declared"),
        (encoders.Half, Kind.DTYPE, "rows are bfloat16, float32 is declared"),
        (encoders.Overflows, Kind.NONFINITE, "first image 120x112, alone: its rows hold NaN or infinity"),
        (encoders.Raises, Kind.CRASHES, "first image 1x1, alone: the processor raised ValueError: mean must have"),
        (encoders.OneAtATime, Kind.FAILS_IN_BATCH, "item 0 of 2 .*: the model raised RuntimeError: stack expects"),
        (encoders.NoRows, Kind.CRASHES, r"the model gave rows of shape \(1, 1, 8\), not \(rows, width\)"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_fault_is_found_and_named_with_its_first_place(family: type[encoders.Sound], kind: Kind, told: str) -> None:
    found = audit(family)
    assert not found.good
    assert list(faults(found)) == [kind]
    assert re.search(told, faults(found)[kind])
    assert f"FAULT  {kind}" in report.as_text(found)
    assert json.loads(report.as_json(found))["good"] is False


def test_rows_split_one_late_are_told_as_the_neighbours_row_and_as_two_wrong_counts() -> None:
    found = faults(audit(encoders.SplitsOneRowLate))
    assert set(found) == {Kind.TRUNCATES, Kind.PADS, Kind.CONCATENATES}
    assert (
        "image 112x84, item 1 of 2 (image 56x56, image 112x84): its row 0 is item 0's row 15"
        in found[Kind.CONCATENATES]
    )


def test_a_buffer_used_again_only_after_an_engine_has_copied_it_is_a_note_and_no_fault() -> None:
    found = audit(encoders.ReusesItsBufferAlone)
    assert found.good
    assert [note.kind for note in found.notes] == [Kind.BUFFER]
    assert "note   reuses its output buffer" in report.as_text(found)


def test_what_is_held_against_another_run_is_not_judged_where_nothing_repeats_itself() -> None:
    found = audit(encoders.DropsOut)
    unjudged = {verdict.rule for verdict in found.verdicts if verdict.state is State.NOT_JUDGED}
    assert unjudged == {Rule.CONTENT, Rule.BATCH, Rule.ORDER, Rule.BOUNDARIES}
    assert "not judged: batch (the encoder does not repeat itself)" in report.as_text(found)


def test_a_sweep_that_runs_out_of_time_is_not_good_and_says_what_was_left_out() -> None:
    found = audit(encoders.Sound, Extent(max_pixels=LIMIT, quick=True, seconds=1e-6))
    assert not found.good
    assert "not run: widths, heights" in report.as_text(found)


def test_the_steps_of_the_processor_are_found_by_asking_it() -> None:
    found = audit(encoders.Sound, Extent(max_pixels=LIMIT, quick=True, seconds=1e-6))
    assert found.steps == "width: a step every 16 pixels; height: a step every 16 pixels"
