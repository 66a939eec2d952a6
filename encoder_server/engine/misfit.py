"""Misfits: which errors say that processor and model do not fit together, and are no plain bug or broken machine.

Place: asked by `isolate`. A misfit is a failed check, and counts against the replica; anything else fails its item
alone, as an internal fault. The rule, which `encoders.Encoder` states for those who write one:

- `LayoutError` always is one: an encoder raises it where it can tell so itself.
- `RuntimeError`, `ValueError`, `IndexError` and `AssertionError` are, where their text speaks of shapes, sizes or
  positions as torch, torchvision, NumPy and transformers do: none of them has a class of its own for it.
- Nothing else is: an attribute, a key, a type, a division or a name that is wrong is wrong on every replica alike,
  and a device that fails says nothing of tokens.

Must never: let a text that it reads out of the engine.
"""

from __future__ import annotations

import re

from encoder_server.encoders import LayoutError

_KINDS = (RuntimeError, ValueError, IndexError, AssertionError)
_WORDS = re.compile(
    r"""
    \b shapes? \b | \b sizes? \b | \b dim(s|ension|ensions|ensional)? \b | \b [1-6]-?d \b | \b strides? \b
    | \b broadcast | \b reshaped? \b | \b numel \b | \b elements? \b
    | \b channels? \b | \b lengths? \b | \b patch(es)? \b | \b grids? \b | \b position (s|_ids)? \b | \b tokens? \b
    | \b index \s (-?\d+ \s)? (is \s)? out \s of \s (range \s in \s self | bounds) \b
    | \b values \s to \s unpack \b | \b zip\(\) \s argument
    """,
    re.VERBOSE | re.IGNORECASE,
)
# A library or a device that fails, and Python's own words for a plain bug, may speak of sizes too.
_OTHERS = re.compile(
    r"CUDA error|CUBLAS_|CUDNN_|cuDNN error|NCCL|HIP error|changed size during iteration|unexpected keyword", re.I
)


def is_misfit(error: BaseException) -> bool:
    """Return whether `error` is about shapes, positions or outputs that do not fit."""
    if isinstance(error, LayoutError):
        return True
    text = str(error)
    return isinstance(error, _KINDS) and _WORDS.search(text) is not None and _OTHERS.search(text) is None
