"""The arguments of `encoder-server check`, said once for the command and for the process that it starts.

Place: `cli` adds them to its parser, `__main__` reads them in the process that loads the encoder.

Must never: import torch.
"""

from __future__ import annotations

import argparse
from pathlib import Path

SECONDS = 900.0
MAX_PIXELS = 16_777_216


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to `parser`."""
    add = parser.add_argument
    add("directory", metavar="DIR", type=_folder, help="the checkpoint")
    add("--processor", type=_folder, help="a directory with another processor than the checkpoint's own")
    add("--encoder", default="Auto", help="entry point of the encoder; Auto: by the checkpoint's model type")
    add("--device", default="cpu", help="as torch names it: cpu, cuda, cuda:1")
    add(
        "--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"], help="auto: the checkpoint's own"
    )
    add("--max-pixels", type=_positive(int), default=MAX_PIXELS, help="pixels of the largest picture encoded")
    add("--quick", action="store_true", help="fewer sizes, none of them large")
    add("--seconds", type=_positive(float), default=SECONDS, help="after which no further case is begun")
    add("--tolerance", type=_positive(float), help="distance of rows, as a share of their length, that is none")
    add("--json", action="store_true", help="the report as JSON, with every finding")


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is not a directory")
    return path


class _positive:  # noqa: N801 - reads as a function of argparse
    def __init__(self, kind: type[int] | type[float]) -> None:
        self._kind = kind

    def __call__(self, text: str) -> int | float:
        try:
            value = self._kind(text)
        except ValueError:
            value = self._kind(0)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
        return value
