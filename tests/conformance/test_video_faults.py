"""Every way in which a user's own encoder of videos goes wrong is found, and named as what it is and where."""

from __future__ import annotations

import re

import pytest
import torch

from encoder_server.conformance import report
from encoder_server.conformance.audit import Audit
from encoder_server.conformance.findings import Kind, Rule
from encoder_server.conformance.sweep import Extent, Sweep
from encoder_server.conformance.watch import Watching
from encoder_server.engine.bounds import Bounds
from tests.conformance import video_encoders as encoders

LIMIT = 200_000


def audit(family: type[encoders.Films], *, quick: bool = True) -> Audit:
    torch.set_num_threads(1)
    pipeline = Watching(family(), bounds=Bounds(max_pixels=LIMIT))
    return Sweep(pipeline, Extent(max_pixels=LIMIT, quick=quick, seconds=100), lambda text: None).run()


def faults(found: Audit) -> dict[Kind, str]:
    return {fault.kind: report.tell(verdict) for verdict in found.verdicts for fault in verdict.faults}


@pytest.mark.parametrize(
    ("family", "quick"), [(encoders.Films, True), (encoders.Films, False), (encoders.Chooses, True)]
)
def test_a_sound_encoder_of_videos_is_good_by_every_rule(family: type[encoders.Films], quick: bool) -> None:
    found = audit(family, quick=quick)
    assert faults(found) == {}
    assert found.good
    assert not found.notes
    assert {verdict.rule for verdict in found.verdicts if verdict.tested} == set(Rule)
    assert found.steps.endswith("; time: a step every 2 frames")


@pytest.mark.parametrize(
    ("family", "kind", "told"),
    [
        (encoders.PadsTheTime, Kind.PADS, "first video 1x1, 3 frames, alone: rows promised: 2, produced: 4"),
        (encoders.CutsTheTime, Kind.TRUNCATES, "video 56x56, 17 frames, alone: rows promised: 144, produced: 128"),
        (encoders.CountsWholeStepsAlone, Kind.TRUNCATES, "video 1x1, 3 frames, alone: rows promised: 2, produced: 1"),
        (encoders.TurnsTheTime, Kind.REVERSES, "video 56x84, 12 frames, alone: .* the order of frames 10 to 11, then"),
        (encoders.ShufflesTheTime, Kind.SHUFFLES, "order of frames 0 to 1, then frames 4 to 5, then frames 8 to 9"),
        (encoders.PadsToTheLongest, Kind.PADS, "pads to the longest item of the batch"),
        (encoders.Permutes, Kind.PERMUTES, "item 0 of 2 .*: it has the rows of item 1"),
        (encoders.InterleavesSteps, Kind.CONCATENATES, "item 0 of 2 .*: its .*rows.* are item 1's"),
        (encoders.MasksByTheBatch, Kind.MATES, "of their length from those it has alone"),
        (encoders.LooksAtTheBeginning, Kind.BLIND, "other content of frames 8 to 9 changes none of its rows"),
        (encoders.ChoosesTwice, Kind.RESAMPLES, "84x56, 30 frames at 10 a second, a file, alone: .* frame 2, which"),
        (
            encoders.ChoosesToThrowAway,
            Kind.RESAMPLES,
            "a file, alone: other content of frame .*, which it chose, changes",
        ),
        (encoders.KnowsNoRate, Kind.CRASHES, "at 5 a second, alone: the processor raised ValueError"),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "",
)
def test_a_fault_is_found_and_named_with_its_first_place(family: type[encoders.Films], kind: Kind, told: str) -> None:
    found = audit(family)
    assert not found.good
    assert list(faults(found)) == [kind]
    assert re.search(told, faults(found)[kind]), faults(found)[kind]


def test_a_step_split_late_is_told_as_the_neighbours_rows_and_as_two_wrong_counts() -> None:
    found = faults(audit(encoders.SplitsOneStepLate))
    assert set(found) == {Kind.TRUNCATES, Kind.PADS, Kind.CONCATENATES}
    assert re.search(r"item 1 of \d \(video .*\): its rows? .* item 0's", found[Kind.CONCATENATES])


def test_a_last_odd_frame_that_is_left_out_as_promised_is_a_note_and_no_fault() -> None:
    found = audit(encoders.LeavesTheOddFrame)
    assert found.good, report.as_text(found)
    assert [(note.kind, note.first.detail) for note in found.notes] == [
        (Kind.BLIND, "other content of frame 4 changes none of its rows")
    ]
