"""An engine program as the server starts it, around the encoder of `tests.support.media_encoder`."""

import os
import socket
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import argparse

from encoder_server.engine import process
from encoder_server.engine.bounds import Bounds
from encoder_server.engine.pipeline import Pipeline
from tests.support.media_encoder import MediaEncoder

NAMES = ("max-pixels", "max-clip-pixels", "max-decoded-pixels", "max-frames", "max-audio-seconds", "max-video-seconds")

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--fd", type=int)
    for name in NAMES:
        parser.add_argument(f"--{name}", type=float)
    options, _ = parser.parse_known_args()
    limits = {name.replace("-", "_"): getattr(options, name.replace("-", "_")) for name in NAMES}
    bounds = Bounds(**{name: value if "seconds" in name else int(value) for name, value in limits.items()})
    with socket.socket(fileno=options.fd) as sock:
        status = process.run(sock, lambda: Pipeline(MediaEncoder(), bounds=bounds), threads=1)
    os._exit(status)
