"""Packed attention: what each sequence would have been alone, bit for bit, and nothing where a patch is left out."""

from __future__ import annotations

import itertools
import random

import pytest
import torch

from encoder_server.encoders import LayoutError
from encoder_server.encoders.packed_attention import attend

HEADS, DEPTH = 3, 16


def states(patches: int) -> list[torch.Tensor]:
    """Queries, keys and values as the library gives them: views of one projection, heads before patches."""
    made = torch.randn(patches, 3, HEADS, DEPTH, generator=torch.Generator().manual_seed(patches))
    return [part.transpose(0, 1).unsqueeze(0) for part in made.permute(1, 0, 2, 3).unbind(0)]


def attended(lengths: list[int]) -> torch.Tensor:
    query, key, value = states(sum(lengths))
    bounds = torch.tensor([0, *itertools.accumulate(lengths)], dtype=torch.int32)
    rows, weights = attend(
        torch.nn.Identity(), query, key, value, None, scaling=0.25, dropout=0.0, cu_seq_lens_q=bounds, is_causal=False
    )
    assert weights is None
    return rows


def one_by_one(lengths: list[int]) -> torch.Tensor:
    parts = zip(*(torch.split(each, lengths, dim=2) for each in states(sum(lengths))), strict=True)
    made = [torch.nn.functional.scaled_dot_product_attention(q, k, v, scale=0.25) for q, k, v in parts]
    return torch.cat(made, dim=2).transpose(1, 2)


@pytest.mark.parametrize("lengths", [[7], [16] * 9, [64, 64, 32, 64], [1, 2, 3], [300, 300, 4, 4, 4, 900]])
def test_every_sequence_is_what_it_would_be_alone(lengths: list[int]) -> None:
    assert torch.equal(attended(lengths), one_by_one(lengths))


def test_any_mix_of_lengths_keeps_its_order() -> None:
    draw = random.Random(5)
    for _ in range(30):
        lengths = [draw.choice([1, 4, 16, 64, 100]) for _ in range(draw.randint(1, 40))]
        assert torch.equal(attended(lengths), one_by_one(lengths)), lengths


@pytest.mark.parametrize("bounds", [[0, 4, 8], [1, 4, 10], [0, 4, 12]])
def test_sequences_that_do_not_cover_the_patches_are_a_layout_that_is_wrong(bounds: list[int]) -> None:
    query, key, value = states(10)
    with pytest.raises(LayoutError, match=f"cover patches {bounds[0]} to {bounds[-1]} of 10"):
        attend(torch.nn.Identity(), query, key, value, None, scaling=0.25, cu_seq_lens_q=torch.tensor(bounds))
