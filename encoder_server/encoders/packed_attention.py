"""Attention of a tower that packs many short sequences into one: those of one length are attended to together.

Place: given by `grid_towers` to the library's model. Without it the library calls the kernel once for each window of
each picture, in each layer; the rows are the same, bit for bit on CPU.

Must never: let one sequence see another, or leave a patch out.
"""

from __future__ import annotations

import itertools
from typing import Any

import torch
from transformers import AttentionInterface, PreTrainedModel

from encoder_server.encoders import LayoutError

# The library hands packed sequences to a function of such a name, and cuts them up for any other.
_NAME = "encoderpool_flash"


def use(model: PreTrainedModel) -> None:
    """Have `model` attend so."""
    AttentionInterface.register(_NAME, attend)
    model.config._attn_implementation = _NAME


def attend(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: None,
    *,
    scaling: float,
    cu_seq_lens_q: torch.Tensor,
    **_: Any,
) -> tuple[torch.Tensor, None]:
    """Return what `query`, `key` and `value` (1, heads, n, depth) make as (1, n, heads, depth), no weights.

    `cu_seq_lens_q` (sequences + 1) is where each sequence begins and, last, n; raises LayoutError where it is not.
    """
    bounds = cu_seq_lens_q.tolist()
    if bounds[0] != 0 or bounds[-1] != query.shape[2]:
        raise LayoutError(f"the grids cover patches {bounds[0]} to {bounds[-1]} of {query.shape[2]}")
    parts, start = [], 0
    for length, alike in itertools.groupby(end - begin for begin, end in itertools.pairwise(bounds)):
        stop = start + length * len(list(alike))
        if length:
            q, k, v = (_cut(each, start, stop, length) for each in (query, key, value))
            made = torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=scaling)
            parts.append(made.transpose(1, 2).flatten(0, 1))
        start = stop
    return (parts[0] if len(parts) == 1 else torch.cat(parts)).unsqueeze(0), None


def _cut(states: torch.Tensor, start: int, stop: int, length: int) -> torch.Tensor:
    """Give the states from `start` to `stop` as (sequences, heads, length, depth)."""
    heads, depth = states.shape[1], states.shape[3]
    return states[0, :, start:stop].view(heads, -1, length, depth).transpose(0, 1)
