"""The arguments of `encoder-server serve` that say what a request may cost.

Place: `cli` adds them to its parser and reads them. Must never: let two limits contradict each other.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from encoder_server.argument_types import count, names, seconds
from encoder_server.settings import Limits

# Sixteen pictures of 2048x2048 by default. A decoded pixel costs some 30 bytes on its way to the model.
_PICTURES_OF_MOST_PIXELS = 4
# Half a minute of 1920x1080 at 30 a second by default. A frame that is not taken costs its decoding alone, about a
# second of a core for 300 million pixels, and no memory.
_DECODED_PER_TAKEN = 32


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to `parser`."""
    add = parser.add_argument
    add("--max-in-flight", type=count, default=64, help="requests admitted at a time")
    add("--max-in-flight-bytes", type=count, default=512 * 2**20, help="their bodies' bytes together")
    add("--max-body-bytes", type=count, default=64 * 2**20, help="bytes of one request's body")
    add("--modalities", type=names, help="which are accepted, as image,video (default: all that the encoder has)")
    add("--max-items", type=count, default=16, help="items in one request")
    add("--max-pixels", type=count, default=16_777_216, help="pixels of one picture or frame")
    add("--max-request-pixels", type=count, help="of a request in all (default: 4 times --max-pixels)")
    add(
        "--max-decoded-pixels",
        type=count,
        help="of all frames in a video file, taken or not (default: 32 times --max-request-pixels)",
    )
    add("--max-frames", type=count, default=2048, help="frames of one video that the encoder takes")
    add("--max-video-seconds", type=seconds, default=600.0, help="of one video")
    add("--max-audio-seconds", type=seconds, default=300.0, help="of one sound")
    add("--deadline-seconds", type=seconds, default=60.0, help="from admission to the answer")


def read(options: argparse.Namespace, refuse: Callable[[str], object]) -> Limits:
    """Return the limits; `refuse` is told of those that contradict each other."""
    if options.max_body_bytes > options.max_in_flight_bytes:
        refuse("argument --max-body-bytes: must not be more than --max-in-flight-bytes")
    request_pixels = options.max_request_pixels or _PICTURES_OF_MOST_PIXELS * options.max_pixels
    if request_pixels < options.max_pixels:
        refuse("argument --max-request-pixels: must not be less than --max-pixels")
    decoded_pixels = options.max_decoded_pixels or _DECODED_PER_TAKEN * request_pixels
    if decoded_pixels < request_pixels:
        refuse("argument --max-decoded-pixels: must not be less than --max-request-pixels")
    return Limits(
        max_in_flight=options.max_in_flight,
        max_in_flight_bytes=options.max_in_flight_bytes,
        max_body_bytes=options.max_body_bytes,
        max_items=options.max_items,
        max_pixels=options.max_pixels,
        max_request_pixels=request_pixels,
        max_decoded_pixels=decoded_pixels,
        max_frames=options.max_frames,
        max_audio_seconds=options.max_audio_seconds,
        max_video_seconds=options.max_video_seconds,
        deadline_seconds=options.deadline_seconds,
        modalities=options.modalities,
    )
