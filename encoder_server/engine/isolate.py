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
from typing import Final, Generic, Literal, TypeVar

import torch

from encoder_server.encoders import LayoutError, UnfitMediaError
from encoder_server.engine.misfit import is_misfit

Code = Literal["bad_media", "layout", "out_of_memory", "internal"]
T = TypeVar("T")
R = TypeVar("R")

_NO_MEMORY: Final = "out_of_memory"
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

    A batch that fails is halved, and the half that fails again; where both do there are several culprits, and each
    item of them is run alone. With n items, one culprit costs at most 2 log2(n) + 1 runs, any number of them
    n + 2 log2(n) + 1, and no more than 3 n + log2(n) items are run in all. A batch that runs out of memory is run in
    parts half as large, and nothing as large is tried again: log2(n) runs fail beside those of items too large alone.

    Each item of a second run is made anew by `renew`, because an encoder may have written to what it was given. A
    lost device (torch.AcceleratorError) is raised: only a new process helps.
    """
    if not items:
        return []
    trial = _Trial(stage, run, renew)
    ended = trial.run(list(items))
    return trial.apart(list(items), ended) if isinstance(ended, Fault) else ended


class _Trial(Generic[T, R]):
    """A stage that is tried on smaller and smaller parts of a batch."""

    def __init__(self, stage: str, run: Callable[[list[T]], Sequence[R]], renew: Callable[[T], T]) -> None:
        self._stage = stage
        self._run = run
        self._renew = renew

    def run(self, items: list[T], *, again: bool = False) -> list[R | Fault] | Fault:
        """Run `items` together: the results, or why there are none."""
        try:
            results = self._run([self._renew(item) for item in items] if again else list(items))
            if len(results) != len(items):
                raise LayoutError(f"{len(items)} items, {len(results)} results")
            return list(results)
        # An encoder that calls for an exit, or interrupts itself, gets its item's end, not the engine's.
        except BaseException as error:
            ended = fault(self._stage, error, last=len(items) == 1)
        # Outside the handler: the error's traceback holds the tensors of the failed run.
        if ended.code == _NO_MEMORY:
            _free()
        return ended

    def apart(self, items: list[T], ended: Fault) -> list[R | Fault]:
        """Tell apart `items`, whose run together ended as `ended`."""
        if len(items) == 1:
            return [ended]
        middle = len(items) // 2
        if ended.code == _NO_MEMORY:
            return self._in_parts(items, middle)
        halves = (items[:middle], items[middle:])
        ends = [self.run(half, again=True) for half in halves]
        several = all(isinstance(end, Fault) for end in ends)
        outcomes: list[R | Fault] = []
        for half, end in zip(halves, ends, strict=True):
            if not isinstance(end, Fault):
                outcomes += end
            elif several and len(half) > 1:
                outcomes += [outcome for item in half for outcome in self._alone(item)]
            else:
                outcomes += self.apart(half, end)
        return outcomes

    def _alone(self, item: T) -> list[R | Fault]:
        end = self.run([item], again=True)
        return [end] if isinstance(end, Fault) else end

    def _in_parts(self, items: list[T], size: int) -> list[R | Fault]:
        outcomes: list[R | Fault] = []
        while items:
            part = items[:size]
            end = self.run(part, again=True)
            if isinstance(end, Fault) and end.code == _NO_MEMORY and len(part) > 1:
                size = len(part) // 2
                continue
            outcomes += self.apart(part, end) if isinstance(end, Fault) else end
            items = items[size:]
        return outcomes


def fault(stage: str, error: BaseException, *, last: bool = True) -> Fault:
    """Say why an item failed whose `stage` raised `error`; the `last` failure of an item goes to the log, too."""
    if isinstance(error, UnfitMediaError):
        # What cannot travel is replaced, and what is no sentence cut.
        return Fault(code="bad_media", detail=str(error)[:_LONGEST_DETAIL].encode(errors="replace").decode())
    if _is_out_of_memory(error):
        return Fault(code=_NO_MEMORY, detail=f"out of memory in the {stage}")
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
