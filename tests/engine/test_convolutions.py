"""Half precision on a CPU: what the library's kernels for convolutions get wrong, the encoders do not."""

from __future__ import annotations

from pathlib import Path

import numpy
import pytest
import torch

from encoder_server.encoders.convolutions import widen
from tests.support import sounds
from tests.support.checkpoints import Published

HALF = [torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize(("rows", "columns"), [(40, 1), (1, 40), (1, 1), (3, 2)])
def test_a_picture_one_patch_wide_is_embedded_as_in_whole_precision(
    dtype: torch.dtype, rows: int, columns: int
) -> None:
    torch.manual_seed(0)
    convolution = torch.nn.Conv2d(3, 1024, kernel_size=16, stride=16, bias=False)
    pixels = torch.randn(1, 3, 16 * rows, 16 * columns)
    truth = convolution(pixels).detach()
    widen(convolution)
    made = convolution.to(dtype)(pixels.to(dtype)).detach()
    assert made.dtype == dtype
    assert (made.float() - truth).abs().max() < 0.05


def test_a_sound_of_some_milliseconds_has_the_rows_that_it_has_in_whole_precision(tmp_path: Path) -> None:
    folder = Published("qwen3_omni_30b_a3b_captioner").write(tmp_path / "checkpoint")
    half, whole = sounds.load(folder), sounds.load(folder, "float32")
    for samples in (201, 321, 480, 800, 1600, 8000, 16_100):
        for seed in range(3):
            sound = sounds.speech(samples, seed)
            apart = numpy.abs(sounds.rows(half, sound)[0] - sounds.rows(whole, sound)[0])
            assert apart.mean() < 0.05, samples
