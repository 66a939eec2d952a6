"""An encoder that computes nothing, so that what is left is the server: every picture becomes the same four rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch

from encoder_server.encoders import Description, Features, Picture, Source
from encoder_server.engine.messages import Declared

_WIDTH = 16


class ConstantEncoder:
    """The `Encoder` of no model; its checkpoint is any folder."""

    def __init__(self) -> None:
        self._rows = torch.ones(4, _WIDTH)

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        return cls()

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        return Description(
            weights="0" * 64,
            processor={},
            classes={"model": "Constant"},
            declared={"image": Declared(width=_WIDTH, dtype="float32", check="promise")},
            together=True,
            dtype="float32",
            device="cpu",
            batch_budget=2**26,
        )

    def warm_up(self) -> None:
        """See `Encoder.warm_up`."""

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`."""
        return [Features(modality="image", tokens=4, grid=(1, 2, 2), cost=1, tensors={}) for _ in media]

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`."""
        return [self._rows.clone() for _ in features]
