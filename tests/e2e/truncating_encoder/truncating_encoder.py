"""A user's own encoder that goes wrong in two ways, each where a file on the volume says so.

`faults/<host name>` in the checkpoint's folder makes it truncate large pictures; it is looked for at each batch, so
that the cause can come and go while the server runs. `faults/<host name>.scaled`, looked for once at load, makes all
rows a little longer: other arithmetic, with every count, width and weight as before. The files are named after the
host so that one replica of a pool can drift while its peers do not.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import torch

from encoder_server.encoders import Features, Source
from encoder_server.encoders.qwen2_5_vl import Qwen25VLEncoder

LARGEST_WHOLE = 120
LONGER = 1.05


class TruncatingEncoder(Qwen25VLEncoder):
    """Qwen2.5-VL's tower that gives no item more than `LARGEST_WHOLE` rows, or rows too long, as its faults say."""

    _fault: Path
    _scale: float

    @classmethod
    def load(cls, source: Source) -> Self:
        """Load as the family does, and know where this replica's faults would lie."""
        encoder = super().load(source)
        encoder._fault = source.model / "faults" / socket.gethostname()
        scaled = encoder._fault.with_name(f"{encoder._fault.name}.scaled")
        encoder._scale = LONGER if scaled.exists() else 1.0
        return encoder

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """Encode, and cut what is too long while the fault is there."""
        rows = [each * self._scale for each in super().encode(features)]
        return [each[:LARGEST_WHOLE] for each in rows] if self._fault.exists() else rows
