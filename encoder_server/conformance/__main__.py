"""`python -m encoder_server.conformance`: the process that loads the encoder, sweeps it and prints the report.

Place: started by `encoder-server check`, as a server's front starts an engine, with an engine's environment.

Must never: reach for a network, outlast its time by more than a minute, or let a library write into the report: what
the encoder prints goes to stderr. Exit status: 0 where all is good, 1 where it is not, 2 where the checkpoint was
refused or the arguments are wrong.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from encoder_server.conformance import options

if TYPE_CHECKING:
    from encoder_server.conformance.sweep import Sweep

_QUIET = 2.0  # seconds between two lines of progress
_GRACE = 60.0  # seconds beyond its time that a case may take


def main(arguments: list[str] | None = None) -> int:
    """Parse `arguments`, sweep and print; returns the exit status."""
    parser = argparse.ArgumentParser(prog="encoder-server check")
    options.add(parser)
    parser.add_argument("--place-fd", type=int, help="inherited file that always says how far the sweep is")
    chosen = parser.parse_args(arguments)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    # The sweep looks for failures: each is in the report, once.
    logging.basicConfig(stream=sys.stderr, level=logging.CRITICAL)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as out:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        return _sweep(chosen, out)


def _sweep(chosen: argparse.Namespace, out: TextIO) -> int:
    _say("loading")
    # Imported here: torch takes seconds, and its libraries read the environment that is set above.
    import torch

    from encoder_server.conformance.sweep import Extent, Sweep
    from encoder_server.conformance.watch import Watching
    from encoder_server.encoders import RefusedError
    from encoder_server.engine.bounds import Bounds

    torch.set_num_threads(1)
    try:
        pipeline = Watching.load(
            chosen.directory,
            processor=chosen.processor,
            encoder=chosen.encoder,
            device=chosen.device,
            dtype=chosen.dtype,
            bounds=Bounds(max_pixels=chosen.max_pixels),
        )
    except RefusedError as refusal:
        reason = refusal.__cause__
        cause = "" if reason is None else f" ({type(reason).__name__}: {reason})"
        _say(f"refused: {refusal}{cause}")
        return 2
    extent = Extent(
        max_pixels=chosen.max_pixels, quick=chosen.quick, seconds=chosen.seconds, tolerance=chosen.tolerance
    )
    return _run(Sweep(pipeline, extent, _Progress(chosen.place_fd)), chosen, out)


def _run(sweep: Sweep, chosen: argparse.Namespace, out: TextIO) -> int:
    from encoder_server.conformance import report

    def tell() -> int:
        audit = sweep.audit()
        print(report.as_json(audit) if chosen.json else report.as_text(audit), file=out, flush=True)
        return 0 if audit.good else 1

    def give_up() -> None:
        _say("stopped: a case takes too long")
        tell()
        os._exit(1)

    watch = threading.Timer(chosen.seconds + _GRACE, give_up)
    watch.daemon = True
    watch.start()
    sweep.run()
    watch.cancel()
    watch.join()
    return tell()


class _Progress:
    """Says a line at most every two seconds, so that a short sweep says little and a long one is seen to live; and
    writes every line over the last in the file `place`, for who is left when this process dies."""

    def __init__(self, place: int | None) -> None:
        self._said = 0.0
        self._place = place

    def __call__(self, text: str) -> None:
        if self._place is not None:
            os.ftruncate(self._place, 0)
            os.pwrite(self._place, text.encode(), 0)
        if time.monotonic() - self._said >= _QUIET:
            self._said = time.monotonic()
            _say(text)


def _say(text: str) -> None:
    print(f"check: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    status = main()
    sys.stderr.flush()
    # All is told. How a library's threads take the end of the interpreter is no matter of the audit.
    os._exit(status)
