"""Convolutions in half precision on a CPU, computed in whole precision: the library's own kernels get some wrong.

oneDNN's for bfloat16 (with AMX) give numbers that have nothing to do with the input, or none at all, where what they
make is one column wide: a picture one patch wide, a sound of some milliseconds (torch 2.15, oneDNN 3.13; PyTorch issue
163347). Towers spend next to nothing of their time in convolutions, so all are widened.

Place: called by `loading` when a tower is built.

Must never: touch what runs on another device, or change a tower's own dtype.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_KINDS = (torch.nn.Conv1d, torch.nn.Conv2d)


def widen(model: torch.nn.Module) -> None:
    """Have each convolution of `model` compute in float32, and give what it is given: the dtype of its input."""
    for module in model.modules():
        if isinstance(module, _KINDS):
            module.forward = functools.partial(_forward, module)  # type: ignore[method-assign]


def _forward(convolution: Any, given: torch.Tensor) -> torch.Tensor:
    bias = convolution.bias
    made: torch.Tensor = convolution._conv_forward(
        given.float(), convolution.weight.float(), None if bias is None else bias.float()
    )
    return made.to(given.dtype)
