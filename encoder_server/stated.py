"""Stated: what GET /v1/limits says.

Place: asked by `routes`; `media` holds each request to the same. Pure. Must never: repeat a number that a limit, a
reader of headers or the encoder says itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from encoder_server import clips, pictures, sounds, wire
from encoder_server.engine.messages import Declared
from encoder_server.settings import Limits


def stated(limits: Limits, declared: Mapping[str, Declared], *, fetches: bool) -> dict[str, Any]:
    """Return the document: the limits of a request, and of one item of each modality that is accepted; none is before
    the encoder has `declared` any."""
    held = limits.within(declared)
    modalities = sorted(held.modalities or ())
    return {
        "modalities": modalities,
        "urls": ["data", "http", "https"] if fetches else ["data"],
        "maxItems": held.max_items,
        "maxPixels": held.max_pixels,
        "maxRequestPixels": held.max_request_pixels,
        "maxBodyBytes": held.max_body_bytes,
        "maxInFlight": held.max_in_flight,
        "deadlineSeconds": held.deadline_seconds,
        "byModality": {modality: _of(modality, held) for modality in modalities},
    }


def _of(modality: str, limits: Limits) -> dict[str, Any]:
    """Return what one item of a modality may be: formats, and the most (and least) that it may have."""
    match modality:
        case "image":
            return {"formats": list(pictures.FORMATS), "maxPixels": limits.max_pixels}
        case "video":
            return {
                "formats": list(clips.FORMATS),
                "codecs": list(clips.CODECS),
                "frameFormats": list(pictures.FORMATS),
                "maxPixels": limits.max_pixels,
                "maxDecodedPixels": limits.max_decoded_pixels,
                "maxFrames": limits.max_frames,
                "maxSeconds": limits.max_video_seconds,
                "minFps": wire.LEAST_FPS,
                "maxFps": wire.MOST_FPS,
            }
        case "audio":
            return {
                "formats": list(sounds.FORMATS),
                "minRate": sounds.LOWEST_RATE,
                "maxRate": sounds.HIGHEST_RATE,
                "maxChannels": sounds.MOST_CHANNELS,
                "maxSeconds": limits.max_audio_seconds,
            }
    return {}
