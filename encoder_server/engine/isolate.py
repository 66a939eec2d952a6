"""Run a stage on a batch so that one bad item fails alone.

Place: around the processor (in `preprocess`) and the model (in `encode`).

Must never: swallow an error that leaves the device unusable, let a library's text into a fault, or run an item a
second time as a failed run left it.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

import torch

from encoder_server.encoders import LayoutError, UnfitMediaError
from encoder_server.engine.misfit import is_misfit

Code = Literal["bad_media", "layout", "out_of_memory", "internal"]
T = TypeVar("T")
R = TypeVar("R")

_NO_MEMORY_ON_CPU = "DefaultCPUAllocator"
_LONGEST_DETAIL = 500
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why one item failed; `detail` is our own text."""

    code: Code
    detail: str


def isolate(
    stage: str, run: Callable[[list[T]], Sequence[R]], items: Sequence[T], renew: Callable[[T], T]
) -> list[R | Fault]:
    """Give one result or fault for each of `items`, in order.

    A batch that fails is run again item by item; one that runs out of memory is halved. Each item of it is made
    anew by `renew` before that, because an encoder may have written to what it was given. A lost device
    (torch.AcceleratorError) is raised: only a new process helps.
    """
    return _isolate(stage, run, list(items), renew, again=False)


def _isolate(
    stage: str, run: Callable[[list[T]], Sequence[R]], items: list[T], renew: Callable[[T], T], *, again: bool
) -> list[R | Fault]:
    if not items:
        return []
    try:
        results = run([renew(item) for item in items] if again else list(items))
        if len(results) != len(items):
            raise LayoutError(f"{len(items)} items, {len(results)} results")
        return list(results)
    # An encoder that calls for an exit, or interrupts itself, gets its item's end, not the engine's.
    except BaseException as error:
        fault = _fault(stage, error, last=len(items) == 1)
    # Outside the handler: the error's traceback holds the tensors of the failed run.
    if len(items) == 1:
        return [fault]
    if fault.code == "out_of_memory":
        _free()
        middle = len(items) // 2
        parts = [items[:middle], items[middle:]]
    else:
        parts = [[item] for item in items]
    return [outcome for part in parts for outcome in _isolate(stage, run, part, renew, again=True)]


def _fault(stage: str, error: BaseException, *, last: bool) -> Fault:
    if isinstance(error, UnfitMediaError):
        # What cannot travel is replaced, and what is no sentence cut.
        return Fault(code="bad_media", detail=str(error)[:_LONGEST_DETAIL].encode(errors="replace").decode())
    if _is_out_of_memory(error):
        return Fault(code="out_of_memory", detail=f"out of memory in the {stage}")
    if isinstance(error, getattr(torch, "AcceleratorError", ())):
        raise error
    if last:
        _log.warning("an item failed in the %s", stage, exc_info=error)
    if is_misfit(error):
        return Fault(code="layout", detail=f"shapes or positions do not fit in the {stage}")
    return Fault(code="internal", detail=f"the {stage} failed")


def _is_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and _NO_MEMORY_ON_CPU in str(error)


def _free() -> None:
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()
