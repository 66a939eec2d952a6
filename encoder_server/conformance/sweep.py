"""Run the sweep: an engine's own pipeline encodes every case, and each is judged at once and let go.

Place: the shell of the audit, for `__main__` and `plugin`; everything that it decides is in the pure modules.

Must never: judge, change a thread setting or an environment (whoever calls has set them), or hold the rows of
more than one case.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch

from encoder_server.conformance import audit as told
from encoder_server.conformance.audit import Audit, Group
from encoder_server.conformance.cases import Case, Specimen, image_cases
from encoder_server.conformance.clips import video_cases
from encoder_server.conformance.drawing import blank, draw
from encoder_server.conformance.films import film_cases
from encoder_server.conformance.findings import Finding, Kind, Rule
from encoder_server.conformance.geometry import (
    Geometry,
    explore,
    explore_frames,
    explore_samples,
    in_words,
    steps_in_words,
)
from encoder_server.conformance.outcomes import Outcome, Run
from encoder_server.conformance.sounds import sound_cases
from encoder_server.conformance.verdicts import judge
from encoder_server.conformance.watch import Watching
from encoder_server.encoders import ChoosesFrames, Description
from encoder_server.engine.preprocess import Medium

# Wrong rows are off by about their own length. A batch changes the order of sums, which costs a few last digits.
TOLERANCES = {"float64": 1e-3, "float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}
_SHEET = 16  # items that a processor is asked about at a time
_ASKED_FRAMES, _ASKED_SIDE = 2, 112
Progress = Callable[[str], None]

PLANS: Mapping[str, Callable[..., tuple[Case, ...]]] = {"image": image_cases, "video": video_cases}
"""The cases of each modality that can be swept, beside audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """How far a sweep goes. `tolerance` None: by the declared dtype."""

    max_pixels: int
    quick: bool
    seconds: float
    tolerance: float | None = None


class Sweep:
    """A sweep under way; `audit` gives what is known so far, at any time."""

    def __init__(self, pipeline: Watching, extent: Extent, progress: Progress) -> None:
        self._pipeline = pipeline
        self._extent = extent
        self._progress = progress
        self._began = time.monotonic()
        self._description: Description = pipeline.watched.describe()
        self._findings: list[Finding] = []
        self._tested: Counter[Rule] = Counter()
        self._outcomes: dict[str, list[tuple[int | None, int | None, bool]]] = defaultdict(list)
        self._left: list[Case] = []
        self._steps: dict[str, str] = {}

    def run(self) -> Audit:
        """Encode and judge all cases that time allows."""
        cases = [case for modality in sorted(self._description.declared) for case in self._cases(modality)]
        self._left = list(cases)
        for at, case in enumerate(cases):
            if time.monotonic() - self._began > self._extent.seconds:
                break
            if not case.runs:
                continue
            self._progress(f"case {at + 1} of {len(cases)}: {case.group}, {case.runs[0][0]}")
            self._case(case)
            self._left.remove(case)
        self._describe_again()
        return self.audit()

    def audit(self) -> Audit:
        """Say what was found so far."""
        findings = told.settle(self._findings)
        declared = {
            name: f"{each.width} wide, {each.dtype}, check: {each.check}"
            for name, each in sorted(self._description.declared.items())
        }
        return Audit(
            encoder=self._description.classes.get("encoder", "?"),
            declared=declared,
            steps=_joined(self._steps),
            groups=tuple(self._group(name, findings) for name in self._outcomes),
            verdicts=told.verdicts(findings, self._tested),
            notes=told.notes(findings),
            findings=findings,
            left=tuple(dict.fromkeys(case.group for case in self._left)),
            seconds=time.monotonic() - self._began,
        )

    def _cases(self, modality: str) -> Sequence[Case]:
        plan, rate = PLANS.get(modality), self._description.sampling_rate
        if modality == "audio" and rate is not None:
            return self._sounds(rate)
        if plan is None:
            # Said, not passed over: a modality that nobody swept is not good.
            return [Case(group=f"{modality} (no cases are known)", runs=())]
        self._progress(f"asking the processor for its steps ({modality})")
        geometry = self._geometry(modality)
        self._steps[modality] = in_words(geometry, modality)
        cases = plan(geometry, max_pixels=self._extent.max_pixels, quick=self._extent.quick)
        films = film_cases(geometry, self._wanted, max_pixels=self._extent.max_pixels) if modality == "video" else ()
        return (*cases, *films)

    def _wanted(self, frames: int, fps: float) -> Sequence[int]:
        """Ask which frames of a file are chosen; whatever is raised is found when the file is encoded."""
        watched = self._pipeline.watched
        try:
            return list(watched.frames_wanted(frames, fps)) if isinstance(watched, ChoosesFrames) else ()
        except Exception:
            return ()

    def _sounds(self, rate: int) -> Sequence[Case]:
        self._progress("asking the processor for its steps (audio)")
        plain = Specimen(modality="audio", rate=rate)
        steps = explore_samples(lambda counts: self._ask([replace(plain, samples=count) for count in counts]), rate)
        self._steps["audio"] = f"time: {steps_in_words(steps, 'samples')}"
        return sound_cases(steps, quick=self._extent.quick)

    def _geometry(self, modality: str) -> Geometry:
        plain = Specimen(modality=modality, width=_ASKED_SIDE, height=_ASKED_SIDE)
        if modality != "video":
            return explore(lambda sizes: self._ask([replace(plain, width=each[0], height=each[1]) for each in sizes]))
        few = replace(plain, frames=_ASKED_FRAMES)
        sides = explore(lambda sizes: self._ask([replace(few, width=each[0], height=each[1]) for each in sizes]))
        return replace(
            sides, time=explore_frames(lambda counts: self._ask([replace(plain, frames=count) for count in counts]))
        )

    def _ask(self, specimens: Sequence[Specimen]) -> list[Hashable]:
        grids: list[Hashable] = []
        for start in range(0, len(specimens), _SHEET):
            sheet = specimens[start : start + _SHEET]
            media = [_medium(at, specimen, blank(specimen)) for at, specimen in enumerate(sheet)]
            promises = {promise.index: promise for promise in self._pipeline.prepare(media).promises}
            grids += [(promises[at].tokens, promises[at].grid) if at in promises else None for at in range(len(sheet))]
        return grids

    def _case(self, case: Case) -> None:
        files = {specimen: draw(specimen) for run in case.runs for specimen in run}
        runs = []
        for batch in case.runs:
            if case.seeded:
                _seed()
            runs.append(self._run([(specimen, files[specimen]) for specimen in batch]))
            self._outcomes[case.group] += [
                (outcome.promised, outcome.produced, outcome.refused is not None) for outcome in runs[-1].outcomes
            ]
        tolerance = self._extent.tolerance or TOLERANCES.get(self._description.dtype, 1e-3)
        judged = judge(case, runs, self._description.declared, tolerance)
        self._findings += judged.findings
        self._tested.update(judged.tested)

    def _run(self, batch: Sequence[tuple[Specimen, tuple[bytes, ...]]]) -> Run:
        watched = self._pipeline.watched
        watched.forget()
        media = [_medium(at, specimen, files) for at, (specimen, files) in enumerate(batch)]
        prepared = self._pipeline.prepare(media)
        embeddings, failures = self._pipeline.encode(prepared)
        promised = {promise.index: promise.tokens for promise in prepared.promises}
        embedded = {embedding.index: embedding for embedding in embeddings}
        failed = {failure.index: failure for failure in (*prepared.failures, *failures)}
        outcomes = []
        for at, (specimen, _) in enumerate(batch):
            failure, embedding = failed.get(at), embedded.get(at)
            refused = failure is not None and failure.code == "bad_media"
            reason = "" if failure is None else failure.detail
            crash = watched.errors[-1] if watched.errors and len(batch) == 1 else reason
            outcomes.append(
                Outcome(
                    specimen=specimen,
                    promised=promised.get(at),
                    rows=None if embedding is None else embedding.rows.to(torch.float32).numpy(),
                    dtype=None if embedding is None else embedding.dtype,
                    refused=reason if refused else None,
                    crash=crash if failure is not None and not refused else None,
                )
            )
        # Places in the model's call are those among what was ready for it.
        at_call = [item.medium.index for item in prepared.ready]
        return Run(
            outcomes=tuple(outcomes),
            troubles=tuple(watched.troubles),
            shared=tuple((at_call[left], at_call[right]) for left, right in watched.shared),
            overwritten=watched.overwritten,
        )

    def _describe_again(self) -> None:
        if self._pipeline.watched.describe() != self._description:
            detail = "it describes itself otherwise after the sweep than before"
            self._findings.append(
                Finding(kind=Kind.DESCRIPTION, detail=detail, group="", batch=("the encoder",), index=0, pixels=0)
            )

    def _group(self, name: str, findings: Sequence[Finding]) -> Group:
        outcomes = self._outcomes[name]
        promised = [each for each, _, _ in outcomes if each is not None]
        produced = [each for _, each, _ in outcomes if each is not None]
        kinds = (finding.kind for finding in findings if finding.group == name and not finding.note)
        return Group(
            name=name,
            items=len(outcomes),
            refused=sum(refused for _, _, refused in outcomes),
            promised=(min(promised), max(promised)) if promised else None,
            produced=(min(produced), max(produced)) if produced else None,
            kinds=tuple(dict.fromkeys(kinds)),
        )


def _seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)
    random.seed(0)


def _medium(index: int, specimen: Specimen, files: tuple[bytes, ...]) -> Medium:
    if not specimen.frames or specimen.filed:
        return Medium(index=index, modality=specimen.modality, data=files[0])
    return Medium(index=index, modality=specimen.modality, frames=files, fps=specimen.fps or None)


def _joined(steps: Mapping[str, str]) -> str:
    if len(steps) < 2:
        return "".join(steps.values()) or "none asked for"
    return "\n".join(f"{modality}: {words}" for modality, words in steps.items())
