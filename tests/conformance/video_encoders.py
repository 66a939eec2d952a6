"""A small sound encoder of videos, and the same with one thing wrong each. They need no checkpoint."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

import torch

from encoder_server.encoders import Clip, Description, Features, Source, UnfitMediaError
from encoder_server.engine.messages import Declared

CELL, STEP, WIDTH, MOST_CELLS = 16, 2, 8, 6


class Films:
    """Scales frames to whole cells of 16 pixels and takes two at a time, the last again where one is missing; one row
    for each cell of each step, which knows of its item's other cells. Of a video with a rate it takes 4 a second."""

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        size = 3 * STEP * CELL * CELL
        self._weight = torch.randn(WIDTH, size, generator=generator) / math.sqrt(size)

    @classmethod
    def load(cls, source: Source) -> Self:
        return cls()

    def describe(self) -> Description:
        return Description(
            weights="00",
            processor={"cell": CELL},
            classes={"encoder": type(self).__name__, "model": "Linear", "processor": "Cells"},
            declared={"video": Declared(width=WIDTH, dtype="float32", check="promise")},
            together=True,
            dtype="float32",
            device="cpu",
        )

    def warm_up(self) -> None: ...

    def preprocess(self, media: Sequence[Clip]) -> list[Features]:
        return [self._features(clip) for clip in media]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [self._steps(item).flatten(0, 1) for item in features]

    def _frames(self, clip: Clip) -> torch.Tensor:
        frames = torch.from_numpy(clip.frames)
        return frames if clip.fps is None else frames[:: max(1, round(clip.fps / 4))]

    def _features(self, clip: Clip) -> Features:
        _, height, width, _ = clip.frames.shape
        if max(height, width) > 100 * min(height, width):
            raise UnfitMediaError("the sides differ by more than 100 to 1")
        frames = self._frames(clip).permute(0, 3, 1, 2).float() / 255 - 0.5
        down, across = (min(MOST_CELLS, max(1, round(side / CELL))) for side in (height, width))
        scaled = torch.nn.functional.interpolate(frames, size=(down * CELL, across * CELL), mode="nearest")
        filled = torch.cat([scaled, scaled[-1:].expand(-len(scaled) % STEP, -1, -1, -1)])
        cells = torch.nn.functional.unfold(filled.unflatten(0, (-1, STEP)).flatten(1, 2), CELL, stride=CELL)
        grid = (len(cells), down, across)
        tokens = math.prod(grid)
        return Features(modality="video", tokens=tokens, grid=grid, cost=tokens, tensors={"cells": cells.mT})

    def _steps(self, item: Features) -> torch.Tensor:
        """Rows by step in time: (steps, cells, width)."""
        rows = item.tensors["cells"] @ self._weight.T
        return torch.tanh(rows + 0.1 * rows.mean(dim=(0, 1)))


class Chooses(Films):
    """Is given the 4 frames a second of a file that it asks for, and takes them as they are."""

    def frames_wanted(self, total: int, fps: float | None) -> Sequence[int]:
        return range(0, total, max(1, round(fps / 4)) if fps else 1)

    def _frames(self, clip: Clip) -> torch.Tensor:
        return super()._frames(clip if clip.indices is None else replace(clip, fps=None))


class ChoosesTwice(Chooses):
    """Asks for 4 frames a second of a file, and takes 4 a second of those by the rate of the file."""

    def _frames(self, clip: Clip) -> torch.Tensor:
        return super()._frames(replace(clip, indices=None))


class ChoosesToThrowAway(Chooses):
    """Takes every other frame of those that it asked for."""

    def _frames(self, clip: Clip) -> torch.Tensor:
        frames = super()._frames(clip)
        return frames if clip.indices is None else frames[::2]


class PadsTheTime(Films):
    """Fills up to a multiple of four steps."""

    def _steps(self, item: Features) -> torch.Tensor:
        return torch.nn.functional.pad(super()._steps(item), (0, 0, 0, 0, 0, -item.grid[0] % 4))


class CutsTheTime(Films):
    """Takes no more than eight steps, whatever was promised."""

    def _steps(self, item: Features) -> torch.Tensor:
        return super()._steps(item)[:8]


class CountsWholeStepsAlone(Films):
    """Rounds an odd number of frames down where its processor rounds it up."""

    def _steps(self, item: Features) -> torch.Tensor:
        steps = super()._steps(item)
        one, other = item.tensors["cells"][-1].unflatten(1, (STEP, -1)).unbind(1)
        return steps[:-1] if len(steps) > 1 and torch.equal(one, other) else steps


class TurnsTheTime(Films):
    """Puts the last step first."""

    def _steps(self, item: Features) -> torch.Tensor:
        return super()._steps(item).flip(0)


class ShufflesTheTime(Films):
    """Leaves steps in the order of its windows: even ones first."""

    def _steps(self, item: Features) -> torch.Tensor:
        steps = super()._steps(item)
        return torch.cat([steps[::2], steps[1::2]])


class PadsToTheLongest(Films):
    """Stacks a batch, and gives each video as many rows as the longest has."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return list(torch.nn.utils.rnn.pad_sequence(super().encode(features), batch_first=True))


class Permutes(Films):
    """Sorts a batch by size and forgets to sort back: videos of one size come in the other order."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        alike = {item.grid: [at for at, each in enumerate(features) if each.grid == item.grid] for item in features}
        swapped = {at: other for group in alike.values() for at, other in zip(group, group[::-1], strict=True)}
        return [rows[swapped[at]] for at in range(len(rows))]


class InterleavesSteps(Films):
    """Joins videos of one size step by step, and splits them one after the other."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        if len({item.grid for item in features}) > 1:
            return super().encode(features)
        steps = torch.stack([self._steps(item) for item in features], dim=1)
        return list(steps.flatten(0, 2).split(features[0].tokens))


class SplitsOneStepLate(Films):
    """Counts a step too few of the first video, which is its neighbour's then."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        if len(rows) < 2 or features[0].grid[0] < 2:
            return rows
        cells = features[0].grid[1] * features[0].grid[2]
        return [rows[0][:-cells], torch.cat([rows[0][-cells:], rows[1]]), *rows[2:]]


class MasksByTheBatch(Films):
    """Takes its statistics over the frames of all videos that are there."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        mean = torch.cat(rows).mean(dim=0)
        return [each - mean for each in rows]


class LooksAtTheBeginning(Films):
    """Gives every step, and looks at the first four."""

    def _steps(self, item: Features) -> torch.Tensor:
        steps = super()._steps(replace(item, tensors={"cells": item.tensors["cells"][:4]}))
        return torch.cat([steps, steps[-1:].expand(item.grid[0] - len(steps), -1, -1)])


class LeavesTheOddFrame(Films):
    """Takes whole steps alone, and promises no more."""

    def _frames(self, clip: Clip) -> torch.Tensor:
        frames = super()._frames(clip)
        return frames[: max(1, len(frames) // STEP * STEP)]


class KnowsNoRate(Films):
    """Breaks on a rate that it cannot divide by."""

    def _frames(self, clip: Clip) -> torch.Tensor:
        return super()._frames(clip)[:: int(2 / clip.fps) if clip.fps else 1]
