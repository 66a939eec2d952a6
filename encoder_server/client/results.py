"""Results: embeddings as a caller gets them, read from safetensors and held to what was asked and promised.

Place: the end of `reading`. Pure. Must never: unpickle, trust a length that was sent, or hand over rows whose count is
not their promise's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy
import numpy.typing
import pydantic
import pydantic_core

from encoder_server.answers import PromisedItem
from encoder_server.client.media import Item

# What says of rows what they are grows with the items that were asked for, and with nothing that is sent.
_HEAD_BYTES, _HEAD_BYTES_OF_AN_ITEM = 2**16, 2**12
_MOST = 2**31
_DTYPES = {"F32": ("float32", 4), "F16": ("float16", 2), "BF16": ("bfloat16", 2), "F64": ("float64", 8)}


class UnfitError(ValueError):
    """The answer does not hold together; the message says where."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """One item's embedding: `rows` is (tokens, width) and cannot be written to.

    `dtype` is what the encoder made and `raw` its bytes, little endian and row major. numpy knows no bfloat16: such
    rows are widened to float32, which loses nothing.
    """

    index: int
    modality: str
    grid: tuple[int, ...]
    tokens: int
    dtype: str
    rows: numpy.typing.NDArray[Any] = field(repr=False)
    raw: memoryview = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Embeddings:
    """The embeddings of one call, in the order of its items, by which identity, and after how many tries."""

    request_id: str
    fingerprint: str
    revision: str
    items: tuple[Embedding, ...]
    tries: int = 1

    def after(self, tries: int) -> Embeddings:
        """Return the same, after so many tries."""
        return replace(self, tries=tries)


class _Tensor(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    dtype: str
    shape: list[Annotated[int, pydantic.Field(ge=0, le=_MOST)]] = pydantic.Field(min_length=2, max_length=2)
    data_offsets: list[Annotated[int, pydantic.Field(ge=0)]] = pydantic.Field(min_length=2, max_length=2)


class _About(pydantic.BaseModel):
    request_id: str
    fingerprint: str
    revision: str
    items: pydantic.Json[tuple[PromisedItem, ...]]


def most_head(asked: Sequence[Item]) -> int:
    """Return the bytes of JSON that may say of these items what became of them."""
    return _HEAD_BYTES + _HEAD_BYTES_OF_AN_ITEM * len(asked)


def fit(promised: Sequence[PromisedItem], asked: Sequence[Item]) -> None:
    """Raise UnfitError where promises are not those of what was asked, each for its item and in order."""
    if len(promised) != len(asked):
        raise UnfitError(f"{len(promised)} items came for {len(asked)} that were asked for")
    for place, (item, medium) in enumerate(zip(promised, asked, strict=True)):
        if item.index != place or item.modality != medium.modality or item.tokens < 0:
            raise UnfitError(f"items[{place}] is not the item that was asked for")
        if medium.expected_tokens not in (None, item.tokens):
            raise UnfitError(f"items[{place}] has {item.tokens} tokens, {medium.expected_tokens} were expected")


def read(body: bytes, asked: Sequence[Item]) -> Embeddings:
    """Return the embeddings in a safetensors body; UnfitError where it is not exactly what was asked for."""
    head, values = _split(body, most_head(asked))
    try:
        about = _About.model_validate(head.pop("__metadata__", None))
        tensors = {name: _Tensor.model_validate(tensor) for name, tensor in head.items()}
    except pydantic.ValidationError:
        raise UnfitError("the head of the tensors is not what it should be") from None
    fit(about.items, asked)
    if tensors.keys() != {f"item.{place}" for place in range(len(asked))}:
        raise UnfitError("the tensors are not those of the items")
    end = 0
    for start, stop in sorted(tensor.data_offsets for tensor in tensors.values()):
        if start != end:
            raise UnfitError("a tensor does not begin where another ends")
        end = stop
    if end != len(values):
        raise UnfitError("the tensors are not as long as the body")
    items = tuple(_embedding(item, tensors[f"item.{item.index}"], values) for item in about.items)
    return Embeddings(request_id=about.request_id, fingerprint=about.fingerprint, revision=about.revision, items=items)


def _split(body: bytes, most: int) -> tuple[dict[str, Any], memoryview]:
    length = int.from_bytes(body[:8], "little")
    if len(body) < 8 or length > len(body) - 8:
        raise UnfitError("the body is shorter than its head")
    if length > most:
        raise UnfitError("the head of the tensors is longer than that of so few")
    try:
        head = pydantic_core.from_json(body[8 : 8 + length])
    except ValueError:
        raise UnfitError("the head of the tensors is not JSON") from None
    if not isinstance(head, dict):
        raise UnfitError("the head of the tensors is not an object")
    return head, memoryview(body)[8 + length :]


def _embedding(item: PromisedItem, tensor: _Tensor, values: memoryview) -> Embedding:
    if tensor.dtype not in _DTYPES:
        raise UnfitError(f"item.{item.index} is of a dtype that is not known here")
    dtype, size = _DTYPES[tensor.dtype]
    start, end = tensor.data_offsets
    if tensor.shape[0] != item.tokens:
        raise UnfitError(f"item.{item.index} has {tensor.shape[0]} rows, {item.tokens} were promised")
    if tensor.shape[1] == 0:
        raise UnfitError(f"item.{item.index} has rows without a width")
    if end > len(values) or end - start != math.prod(tensor.shape) * size:
        raise UnfitError(f"item.{item.index}: its bytes do not fill its shape")
    raw = values[start:end]
    return Embedding(
        index=item.index,
        modality=item.modality,
        grid=item.grid,
        tokens=item.tokens,
        dtype=dtype,
        rows=_rows(raw, dtype).reshape(tensor.shape),
        raw=raw,
    )


def _rows(raw: memoryview, dtype: str) -> numpy.typing.NDArray[Any]:
    if dtype != "bfloat16":
        return numpy.frombuffer(raw, numpy.dtype(dtype).newbyteorder("<"))
    # A bfloat16 is the upper half of a float32.
    rows = (numpy.frombuffer(raw, "<u2").astype(numpy.uint32) << 16).view(numpy.float32)
    rows.flags.writeable = False
    return rows
