"""A small sound encoder, and the same with one thing wrong each. They need no checkpoint."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import torch

from encoder_server.encoders import Description, Features, Picture, Source, UnfitMediaError
from encoder_server.engine.messages import Declared

CELL, WIDTH, MOST_CELLS = 16, 8, 24


class Sound:
    """Scales a picture to whole cells of 16 pixels; one row for each cell, which knows of its item's other cells."""

    together = True

    def __init__(self) -> None:
        generator = torch.Generator().manual_seed(1)
        self._weight = torch.randn(WIDTH, 3 * CELL * CELL, generator=generator) / math.sqrt(3 * CELL * CELL)

    @classmethod
    def load(cls, source: Source) -> Self:
        return cls()

    def describe(self) -> Description:
        return Description(
            weights="00",
            processor={"cell": CELL},
            classes={"encoder": type(self).__name__, "model": "Linear", "processor": "Cells"},
            declared={"image": Declared(width=WIDTH, dtype="float32", check="promise")},
            together=self.together,
            dtype="float32",
            device="cpu",
        )

    def warm_up(self) -> None: ...

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        return [self._features(picture) for picture in media]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [self._rows(item) for item in features]

    def _features(self, picture: Picture) -> Features:
        height, width, _ = picture.pixels.shape
        if max(height, width) > 100 * min(height, width):
            raise UnfitMediaError("the sides differ by more than 100 to 1")
        down, across = (min(MOST_CELLS, max(1, round(side / CELL))) for side in (height, width))
        pixels = torch.from_numpy(picture.pixels).permute(2, 0, 1)[None].float() / 255
        scaled = torch.nn.functional.interpolate(pixels, size=(down * CELL, across * CELL), mode="nearest")
        cells = torch.nn.functional.unfold(scaled - 0.5, CELL, stride=CELL)[0].T
        grid, tokens = (1, down, across), down * across
        return Features(modality="image", tokens=tokens, grid=grid, cost=tokens, tensors={"cells": cells})

    def _rows(self, item: Features) -> torch.Tensor:
        rows = item.tensors["cells"] @ self._weight.T
        return torch.tanh(rows + 0.1 * rows.mean(dim=0))


class Truncates(Sound):
    """Gives no item more than 40 rows."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows[:40] for rows in super().encode(features)]


class PadsToMultiples(Sound):
    """Fills an item up to a multiple of 8 rows."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [torch.nn.functional.pad(rows, (0, 0, 0, -len(rows) % 8)) for rows in super().encode(features)]


class PadsToTheLongest(Sound):
    """Stacks a batch, and gives each item as many rows as the longest has."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return list(torch.nn.utils.rnn.pad_sequence(super().encode(features), batch_first=True))


class AddsAToken(Sound):
    """Gives the token of its class too, which nobody was promised."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [torch.cat([rows.mean(dim=0, keepdim=True), rows]) for rows in super().encode(features)]


class Permutes(Sound):
    """Sorts a batch by size and forgets to sort back: items of one size come in the other order."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        by_size = {
            item.tokens: [at for at, each in enumerate(features) if each.tokens == item.tokens] for item in features
        }
        swapped = {at: other for group in by_size.values() for at, other in zip(group, group[::-1], strict=True)}
        return [rows[swapped[at]] for at in range(len(rows))]


class ReversesInABatch(Sound):
    """Puts the rows of every second item back to front."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows.flip(0) if at % 2 else rows for at, rows in enumerate(super().encode(features))]


class ReadsBackwards(Sound):
    """Puts all rows back to front, alone too."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        return [rows.flip(0) for rows in super().encode(features)]


class Shuffles(Sound):
    """Leaves the rows of a batch in the order of its windows: even rows first."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        return rows if len(rows) == 1 else [torch.cat([each[::2], each[1::2]]) for each in rows]


class Interleaves(Sound):
    """Joins items of one size along the wrong axis, and splits them along the right one."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        if len({len(each) for each in rows}) > 1:
            return rows
        return list(torch.stack(rows, dim=1).flatten(0, 1).split(len(rows[0])))


class LaysSideBySide(Sound):
    """Joins items of one size along the width."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        return rows if len({len(each) for each in rows}) > 1 else [torch.cat(rows, dim=1) for _ in rows]


class SplitsOneRowLate(Sound):
    """Counts a row too few of the first item, which is its neighbour's then."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        if len(rows) < 2 or len(rows[0]) < 2:
            return rows
        return [rows[0][:-1], torch.cat([rows[0][-1:], rows[1]]), *rows[2:]]


class ReusesItsBuffer(Sound):
    """Writes each item's rows over those of the item before."""

    def __init__(self) -> None:
        super().__init__()
        self._buffer = torch.zeros(MOST_CELLS**2, WIDTH)

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        given = []
        for rows in super().encode(features):
            self._buffer[: len(rows)] = rows
            given.append(self._buffer[: len(rows)])
        return given


class ReusesItsBufferAlone(ReusesItsBuffer):
    """As before, one item at a time: an engine copies the rows before it asks for the next."""

    together = False


class NormalisesTheBatch(Sound):
    """Takes its statistics over all items that are there."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        rows = super().encode(features)
        mean = torch.cat(rows).mean(dim=0)
        return [each - mean for each in rows]


class KeepsState(Sound):
    """Takes its statistics over all that it has seen."""

    def __init__(self) -> None:
        super().__init__()
        self._mean = torch.zeros(WIDTH)

    def _rows(self, item: Features) -> torch.Tensor:
        rows = super()._rows(item)
        self._mean = 0.9 * self._mean + 0.1 * rows.mean(dim=0)
        return rows - self._mean


class AnswersLate(Sound):
    """Gives what it had for a grid the time before."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[tuple[int, ...], torch.Tensor] = {}

    def _rows(self, item: Features) -> torch.Tensor:
        rows = super()._rows(item)
        late = self._last.get(item.grid, rows)
        self._last[item.grid] = rows
        return late


class DropsOut(Sound):
    """Was left in training mode."""

    def _rows(self, item: Features) -> torch.Tensor:
        return torch.nn.functional.dropout(super()._rows(item), 0.1)


class Blind(Sound):
    """Gives the same rows for all pictures of a size."""

    def _rows(self, item: Features) -> torch.Tensor:
        return torch.sin(torch.arange(item.tokens * WIDTH).float()).reshape(-1, WIDTH)


class Narrow(Sound):
    """Declares another width than its rows have."""

    def describe(self) -> Description:
        return replace(super().describe(), declared={"image": Declared(width=9, dtype="float32", check="promise")})


class Half(Sound):
    """Declares another dtype than its rows have."""

    def _rows(self, item: Features) -> torch.Tensor:
        return super()._rows(item).to(torch.bfloat16)


class Overflows(Sound):
    """Loses a value where an item is long."""

    def _rows(self, item: Features) -> torch.Tensor:
        rows = super()._rows(item)
        return rows if len(rows) < 50 else rows.index_fill(0, torch.tensor([3]), float("nan"))


class Raises(Sound):
    """Breaks on pictures one pixel high, in place of refusing them."""

    def _features(self, picture: Picture) -> Features:
        if picture.pixels.shape[0] == 1:
            raise ValueError("mean must have 1 elements if it is an iterable, got 3")
        return super()._features(picture)


class OneAtATime(Sound):
    """Cannot take items of two sizes at once, and does not say so."""

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        torch.stack([item.tensors["cells"] for item in features])
        return super().encode(features)


class NoRows(Sound):
    """Gives rows with one dimension too many."""

    def encode(self, features: Sequence[Features]) -> list[Any]:
        return [rows[None] for rows in super().encode(features)]


class Dies(Sound):
    """Takes its process with it at an item of 35 rows."""

    def _rows(self, item: Features) -> torch.Tensor:
        if item.tokens == 35:
            os.kill(os.getpid(), signal.SIGKILL)
        return super()._rows(item)


class Fixed(Sound):
    """Scales every picture to 4x4 cells."""

    def _features(self, picture: Picture) -> Features:
        item = super()._features(picture)
        _, down, across = item.grid
        pixels = torch.nn.functional.fold(
            item.tensors["cells"].T[None], (down * CELL, across * CELL), CELL, stride=CELL
        )
        scaled = torch.nn.functional.interpolate(pixels, size=(4 * CELL, 4 * CELL), mode="nearest")
        cells = torch.nn.functional.unfold(scaled, CELL, stride=CELL)[0].T
        return replace(item, tokens=16, grid=(1, 4, 4), cost=16, tensors={"cells": cells})
