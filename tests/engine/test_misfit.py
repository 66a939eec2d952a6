"""Which errors of the libraries say that processor and model do not fit, and which are plain bugs."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import torch
from torch.nn import functional
from transformers.image_transforms import normalize

from encoder_server.encoders import LayoutError
from encoder_server.engine.misfit import is_misfit

# Of a type that no type checker looks into: the errors are to be raised when the tests run.
ANYTHING: Any = "a"


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(*shape)


def fail(error: BaseException) -> Any:
    raise error


def torchvision() -> Any:
    return importlib.import_module("torchvision.transforms.v2.functional")


def unpack(*values: int) -> None:
    _time, _height, _width = values


MISFITS: dict[str, Callable[[], Any]] = {
    "an encoder that says so": lambda: fail(LayoutError("the model made 3 rows")),
    "a product": lambda: zeros(2, 3) @ zeros(4, 5),
    "a linear layer": lambda: functional.linear(zeros(2, 3), zeros(4, 5)),
    "a convolution's channels": lambda: functional.conv2d(zeros(1, 3, 4, 4), zeros(2, 4, 2, 2)),
    "a convolution's dimensions": lambda: functional.conv3d(zeros(4, 4), zeros(2, 3, 2, 2, 2)),
    "a sum": lambda: zeros(2, 3) + zeros(4),
    "a view": lambda: zeros(6).view(4, 2),
    "a view of what is transposed": lambda: zeros(4, 3).t().view(12),
    "a reshape": lambda: zeros(6).reshape(4, -1),
    "a concatenation": lambda: torch.cat([zeros(2, 3), zeros(2, 4)]),
    "a stack": lambda: torch.stack([zeros(2), zeros(3)]),
    "a split": lambda: zeros(5).split([2, 2]),
    "an expansion": lambda: zeros(2, 3).expand(4, 3),
    "a norm": lambda: functional.layer_norm(zeros(2, 3), (4,)),
    "an attention": lambda: functional.scaled_dot_product_attention(zeros(1, 2, 4), zeros(1, 3, 5), zeros(1, 3, 4)),
    "an attention's own assertion": lambda: torch.nn.MultiheadAttention(8, 2)(
        zeros(2, 1, 4), zeros(2, 1, 4), zeros(2, 1, 4)
    ),
    "an embedding": lambda: functional.embedding(torch.tensor([7]), zeros(3, 2)),
    "a position": lambda: zeros(3)[5],
    "positions": lambda: zeros(3)[torch.tensor([7])],
    "a selection": lambda: zeros(3).select(0, 5),
    "a dimension": lambda: zeros(3).unsqueeze(4),
    "too many positions": lambda: zeros(3)[0, 0],
    "NumPy's reshape": lambda: numpy.zeros(6).reshape(4, 2),
    "NumPy's broadcast": lambda: numpy.zeros(3) + numpy.zeros(4),
    "NumPy's position": lambda: numpy.zeros(3)[5],
    "NumPy's concatenation": lambda: numpy.concatenate([numpy.zeros((2, 3)), numpy.zeros((2, 4))]),
    "torchvision's normalisation": lambda: torchvision().normalize(zeros(4, 2, 2), [0.5] * 3, [1.0] * 3),
    "transformers' normalisation": lambda: normalize(numpy.zeros((3, 4, 4)), mean=[0.5], std=[0.5]),
    "transformers' positions": lambda: fail(ValueError("position_ids do not match the attention input")),
    "transformers' counts": lambda: fail(
        ValueError("Image features and image tokens do not match, tokens: 4, features: 16")
    ),
    "fewer values than a grid has": lambda: unpack(1, 2),
    "more grids than items": lambda: list(zip([1], [1, 2], strict=True)),
}

PLAIN: dict[str, Callable[[], Any]] = {
    "a key": lambda: dict[str, int]()["pixel_values"],
    "a place in a list": lambda: [][0],
    "an attribute": lambda: getattr(zeros(1), "pixels"),  # noqa: B009 - it is the error that is wanted
    "a type": lambda: zeros(2) + ANYTHING,
    "an argument": lambda: functional.linear(zeros(2, 3)),  # type: ignore[call-arg]
    "a division": lambda: 1 / 0,
    "a number's text": lambda: int("x"),
    "a bare assertion": lambda: fail(AssertionError()),
    "a text of one's own": lambda: fail(RuntimeError("the service did not answer")),
    "a dtype": lambda: functional.linear(zeros(2, 3), zeros(4, 3).half()),
    "a file": lambda: open("/nowhere/at/all"),  # noqa: SIM115 - it is the error that is wanted
    "a module": lambda: __import__("nowhere_at_all"),
    "a dictionary that is written while it is read": lambda: [
        mapping.pop(key) for mapping in [{1: 2, 3: 4}] for key in mapping
    ],
    "a recursion": lambda: fail(RecursionError("maximum recursion depth exceeded")),
    "a library of the device": lambda: fail(
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling cublasSgemm with sizes 3")
    ),
    "an exit": lambda: fail(SystemExit("wrong shape")),
    "an interrupt": lambda: fail(KeyboardInterrupt("wrong shape")),
}


@pytest.mark.parametrize("run", MISFITS.values(), ids=MISFITS.keys())
def test_an_error_about_shapes_or_positions_is_a_misfit(run: Callable[[], Any]) -> None:
    with pytest.raises(Exception) as raised:  # noqa: PT011 - whichever the library raises
        run()
    assert is_misfit(raised.value), repr(raised.value)


@pytest.mark.parametrize("run", PLAIN.values(), ids=PLAIN.keys())
def test_a_plain_bug_or_a_broken_machine_is_no_misfit(run: Callable[[], Any]) -> None:
    with pytest.raises(BaseException) as raised:  # noqa: PT011 - whichever is raised
        run()
    assert not is_misfit(raised.value), repr(raised.value)
