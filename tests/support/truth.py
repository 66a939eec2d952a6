"""The truth that answers are held against: the same model, encoded in this process, without server or operator."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray

from tests.support.pictures import Picture
from tests.support.router import Call

SEED = 7
# float32 on one CPU differs only by the order of sums; wrong rows differ by the size of an embedding's values.
TOLERANCE = 1e-4


def make_checkpoint(folder: Path) -> None:
    """Write the tiny seeded checkpoint, readable for the servers' user."""
    from encoder_server.checkpoint import make

    make(folder, seed=SEED)
    for file in folder.iterdir():
        file.chmod(0o644)
    folder.chmod(0o755)


class Truth:
    """Embeddings of pictures by the checkpoint in a folder; each is computed once."""

    def __init__(self, folder: Path) -> None:
        from encoder_server.engine.pipeline import Pipeline

        self._pipeline = Pipeline.load(folder)
        self._known: dict[str, NDArray[Any]] = {}

    def rows(self, picture: Picture) -> NDArray[Any]:
        """The true rows (tokens by width)."""
        if picture.name not in self._known:
            self._known[picture.name] = self._pipeline.rows(picture.data)
        return self._known[picture.name]

    def check(self, calls: Iterable[Call]) -> int:
        """Every embedding that these calls accepted is the true one; returns how many were compared."""
        compared = 0
        for call in calls:
            items: Any = (call.answer or {}).get("items", [])
            for picture, item in zip(call.pictures, items, strict=True):
                rows = numpy.frombuffer(base64.b64decode(item["data"]), item["dtype"]).reshape(item["shape"])
                true = self.rows(picture)
                assert rows.shape == true.shape, f"{picture.name}: {rows.shape}, the model gives {true.shape}"
                worst = float(numpy.abs(rows - true).max())
                assert worst <= TOLERANCE, f"{picture.name}: differs by {worst:.2e} from the model in this process"
                compared += 1
        return compared
