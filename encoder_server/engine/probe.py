"""The golden probe: fixed synthetic media, and how each fared on its way through the whole pipeline.

Place: run once before an engine says hello and again on order; its counts and grids are exact parts of the
identity, its embeddings make the signature.

Must never: differ between two runs, processes or machines, or judge by other rules than the front's check.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from PIL import Image

from encoder_server.engine.encode import Embedding
from encoder_server.engine.integers import scatter
from encoder_server.engine.messages import Declared, ProbeItem, Promise, Size

Result = Literal["ok", "count", "width", "dtype", "nonfinite", "layout"]

# With patches of 14 merged by 2: merged grids of 2x2, 4x4, 3x5 (odd), 2x6 (turned by another factor), 5x7.
GOLDEN = (
    Size(modality="image", width=56, height=56),
    Size(modality="image", width=112, height=112),
    Size(modality="image", width=140, height=84),
    Size(modality="image", width=61, height=173),
    Size(modality="image", width=200, height=150),
)

# Never encoded, for a large picture costs what a hundred small ones do: what the processor alone promises for them. A
# limit of pixels, a rule of rounding or a number of tiles that the code has, and no setting tells, shows in these.
PROMISED = (
    Size(modality="image", width=20, height=28),
    Size(modality="image", width=1111, height=37),
    Size(modality="image", width=777, height=1001),
    Size(modality="image", width=1600, height=1200),
    Size(modality="image", width=2048, height=2048),
)


def plain(size: Size) -> bytes:
    """Draw a black picture of this size, as a PNG file: for what depends on the size alone."""
    file = io.BytesIO()
    Image.new("RGB", (size.width, size.height)).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def synthetic(size: Size) -> bytes:
    """Draw the picture of this size: two ramps and noise in blocks of 4, as a PNG file."""
    y, x = np.mgrid[0 : size.height, 0 : size.width].astype(np.uint64)
    across = x * np.uint64(63) // np.uint64(max(size.width - 1, 1))
    down = y * np.uint64(63) // np.uint64(max(size.height - 1, 1))
    block = (y // np.uint64(4)) * np.uint64(size.width) + x // np.uint64(4)
    channels = [
        across + down + (scatter(size.width * 65536 + size.height + channel, block) >> np.uint64(57))
        for channel in range(3)
    ]
    file = io.BytesIO()
    Image.fromarray(np.stack(channels, axis=-1).astype(np.uint8)).save(file, format="PNG", compress_level=1)
    return file.getvalue()


def judge(
    sizes: Sequence[Size],
    promises: Sequence[Promise],
    embeddings: Sequence[Embedding],
    declared: Mapping[str, Declared],
) -> tuple[ProbeItem, ...]:
    """Give a ProbeItem for each of `sizes`; promises and embeddings refer to them by index."""
    promised = {promise.index: promise for promise in promises}
    produced = {embedding.index: embedding for embedding in embeddings}
    items = []
    for index, size in enumerate(sizes):
        promise, embedding = promised.get(index), produced.get(index)
        items.append(
            ProbeItem(
                index=index,
                modality=size.modality,
                width=size.width,
                height=size.height,
                grid=None if promise is None else promise.grid,
                promised=None if promise is None else promise.tokens,
                produced=None if embedding is None else embedding.rows.shape[0],
                result=_result(promise, embedding, declared[size.modality]),
            )
        )
    return tuple(items)


def _result(promise: Promise | None, embedding: Embedding | None, declared: Declared) -> Result:
    if promise is None or embedding is None:
        return "layout"
    rows, width = embedding.rows.shape
    if rows != promise.tokens:
        return "count"
    if width != declared.width:
        return "width"
    if embedding.dtype != declared.dtype:
        return "dtype"
    return "ok" if embedding.finite else "nonfinite"
