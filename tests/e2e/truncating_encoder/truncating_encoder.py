"""A user's own encoder that goes wrong: it truncates large pictures where a file on the volume says so.

The file is `faults/<host name>` in the checkpoint's folder, so that one replica of a pool can drift while its
peers do not; it is looked for at each batch, so that the cause can come and go while the server runs.
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


class TruncatingEncoder(Qwen25VLEncoder):
    """Qwen2.5-VL's tower that gives no item more than `LARGEST_WHOLE` rows while the fault is there."""

    _fault: Path

    @classmethod
    def load(cls, source: Source) -> Self:
        """Load as the family does, and know where this replica's fault would lie."""
        encoder = super().load(source)
        encoder._fault = source.model / "faults" / socket.gethostname()
        return encoder

    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """Encode, and cut what is too long while the fault is there."""
        rows = super().encode(features)
        return [each[:LARGEST_WHOLE] for each in rows] if self._fault.exists() else rows
