"""`python -m encoder_server.engine`: start one engine on a socket inherited from the front.

Place: spawned by the front's `engines`, never by a person; exits 0 when told to stop or when the front is
gone, 3 when the checkpoint was refused, 1 after an error of its own.

Must never: reach for a network, act on a signal (the front decides when an engine ends), or write to stdout.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import select
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import NoReturn

from encoder_server import logs
from encoder_server.engine import heap
from encoder_server.engine.bounds import DEFAULTS, Bounds


def main(arguments: list[str] | None = None) -> int:
    """Parse `arguments` and run the engine; returns the exit status."""
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TRANSFORMERS_OFFLINE"] = "1"
    logs.to_stderr("info")
    heap.keep()
    sock = socket.socket(fileno=options.fd)
    sock.setblocking(True)
    _leave_with(sock)
    _tell_that_it_starts(sock)
    # Imported here: torch takes seconds, and its libraries read the environment that is set above.
    from encoder_server.engine import process
    from encoder_server.engine.pipeline import Pipeline

    load = functools.partial(
        Pipeline.load,
        options.model,
        processor=options.processor,
        encoder=options.encoder,
        device=options.device,
        dtype=options.dtype,
        bounds=Bounds(
            max_pixels=options.max_pixels,
            max_clip_pixels=options.max_clip_pixels,
            max_decoded_pixels=options.max_decoded_pixels,
            max_frames=options.max_frames,
            max_audio_seconds=options.max_audio_seconds,
            max_video_seconds=options.max_video_seconds,
        ),
    )
    try:
        return process.run(sock, load, threads=options.threads)
    except Exception:
        logging.getLogger(__name__).exception("the engine failed")
        return 1


def _tell_that_it_starts(sock: socket.socket) -> None:
    from encoder_server.engine import asides, messages

    with contextlib.suppress(messages.ConnectionLostError):
        messages.send(sock, asides.Progress(stage="starting"))


def _leave(status: int) -> NoReturn:
    """End this process with `status`, without the interpreter's own end: that waits for threads that an encoder or a
    library left running, and where it ends them by force, they may abort the process and change its status."""
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(status)


def _leave_with(sock: socket.socket) -> None:
    """End this process when the other end of `sock` closes, even while torch loads or the model runs.

    A parent-death signal would not do: it follows the thread that spawned this process, not the front.
    """
    poll = select.poll()
    poll.register(sock.fileno(), 0)  # a hang-up is always reported; asking for no more reads nothing

    def watch() -> None:
        poll.poll()
        os._exit(0)

    threading.Thread(target=watch, name="front-watch", daemon=True).start()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="encoder_server.engine")
    parser.add_argument("--fd", type=int, required=True, help="the inherited end of the socket pair")
    parser.add_argument("--model", type=Path, required=True, help="the checkpoint's folder")
    parser.add_argument("--processor", type=Path, help="the processor's folder, where it is another")
    parser.add_argument("--encoder", default="Auto", help="an entry point's name, or Auto")
    parser.add_argument("--threads", type=int, default=1, help="intra-op threads")
    parser.add_argument("--device", default="cpu", help="torch device")
    parser.add_argument("--dtype", default="auto", help="torch dtype, or auto: as the checkpoint has it")
    parser.add_argument("--max-pixels", type=int, default=DEFAULTS.max_pixels, help="of a picture or frame")
    parser.add_argument("--max-clip-pixels", type=int, default=DEFAULTS.max_clip_pixels, help="of a video's frames")
    parser.add_argument(
        "--max-decoded-pixels", type=int, default=DEFAULTS.max_decoded_pixels, help="of all frames in a video file"
    )
    parser.add_argument("--max-frames", type=int, default=DEFAULTS.max_frames, help="of a video")
    parser.add_argument("--max-audio-seconds", type=float, default=DEFAULTS.max_audio_seconds, help="of a sound")
    parser.add_argument("--max-video-seconds", type=float, default=DEFAULTS.max_video_seconds, help="of a video")
    return parser


if __name__ == "__main__":
    _leave(main())
