"""Video processors: the settings in a checkpoint folder, made into the library's own processor, and clips run on it.

Place: called by a family's `load`, `frames_wanted` and `preprocess`, beside `processors`, which does the same for
pictures. A video processor is one of its own: its sizes, its merge and its frames are read from its own settings.

Which frames a processor sees: of a clip with a rate (from a file) those that its own `sample_frames` chooses, where
its settings say `do_sample_frames`, else all; of bare frames (no rate) all, for who sent them has chosen. Of a file
they are chosen before it is decoded (`wanted`), by the same call. Fewer than one temporal patch, and a rest, are filled
up by the processor's own rule, with the last frame again. That several frames may fall on one time step of the language
model (a high rate) changes no row: a tower knows of no seconds.

Must never: take pictures' settings for a video's where the folder does not say that they are, or bring a setting into
line with the model's geometry.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.video_processing_utils import BaseVideoProcessor
from transformers.video_utils import VideoMetadata

from encoder_server.encoders import Clip, LayoutError, RefusedError, UnfitMediaError, read_json
from encoder_server.encoders.processors import Settings, as_settings, read_settings, read_whole

_VIDEO = "video_preprocessor_config.json"
_PIXELS, _GRIDS = "pixel_values_videos", "video_grid_thw"
# Longer than any sampler's limit: what cannot be sampled from this can be sampled from nothing.
_LONG = VideoMetadata(total_num_frames=1_000_000, fps=25.0, duration=40_000.0)
_log = logging.getLogger(__name__)


def read(folder: Path, own: str) -> Settings | None:
    """Read the video processor's settings, or give None where `folder` has none: its encoder takes no video.

    They are a section of processor_config.json, or video_preprocessor_config.json, or, as the first published
    checkpoints have it, preprocessor_config.json for pictures and video both: where it names the video processor, or
    a picture's whose sibling is `own`, the family's. Raises RefusedError naming the file.
    """
    whole = read_whole(folder)
    nested = whole.content.get("video_processor")
    if isinstance(nested, dict):
        return as_settings(whole.file, nested)
    if (folder / _VIDEO).is_file():
        return as_settings(_VIDEO, read_json(folder, _VIDEO))
    shared = read_settings(folder)
    if shared.file == whole.file:
        return None
    name = shared.content.get("video_processor_type") or _sibling(shared.content)
    if name != own:
        return None
    content = {key: value for key, value in shared.content.items() if key != "image_processor_type"}
    return Settings(file=shared.file, content={**content, "video_processor_type": own})


def make(settings: Settings) -> Any:
    """Make the processor that `settings` name, whose class must give patches with grids; raises RefusedError."""
    name = str(settings.content.get("video_processor_type"))
    family = getattr(transformers, name, None)
    if not isinstance(family, type) or not issubclass(family, BaseVideoProcessor):
        raise RefusedError(f"{settings.file}: video_processor_type {name!r} is not known")
    if not {_PIXELS, _GRIDS} <= set(getattr(family, "model_input_names", ())):
        raise RefusedError(f"{settings.file}: video_processor_type {name!r} gives no grids")
    try:
        processor = family.from_dict(settings.taken())
    except Exception as error:
        _log.exception("%s was not taken", settings.file)
        raise RefusedError(f"{settings.file}: the settings are not ones of {name}") from error
    _require_sampling(processor, settings)
    return processor


def wanted(processor: Any, total: int, fps: float | None) -> Sequence[int]:
    """Give which of `total` frames `processor` looks at, by its own rule, where `fps` of them are shown in a second.

    Raises UnfitMediaError for too few or too many.
    """
    if not total:
        raise UnfitMediaError("a video of no frames")
    # Of less than one temporal patch nothing can be left out.
    if fps is not None and processor.do_sample_frames and total > processor.temporal_patch_size:
        try:
            return _sample(processor, VideoMetadata(total_num_frames=total, fps=fps, duration=total / fps))
        # From a long clip it can: `make` has tried.
        except Exception as error:
            _log.info("the processor sampled nothing of %d frames at %g a second", total, fps, exc_info=True)
            raise UnfitMediaError(
                f"{total} frames at {fps:g} a second: fewer than the processor's settings sample"
            ) from error
    most = most_frames(processor)
    if most is not None and total > most:
        why = "" if fps is None or processor.do_sample_frames else ", and its settings sample none of them"
        raise UnfitMediaError(f"{total} frames: the processor takes at most {most}{why}")
    return range(total)


def run(processor: Any, clip: Clip) -> tuple[torch.Tensor, torch.Tensor]:
    """Run `processor` on one clip: patches (n, values of one patch), and grids (1, 3): time, height, width.

    Raises UnfitMediaError for a clip with too few or too many frames.
    """
    total = len(clip.frames) if clip.total is None else clip.total
    indices, frames = clip.indices, torch.from_numpy(clip.frames)
    if indices is None:
        indices = tuple(wanted(processor, total, clip.fps))
        frames = frames if len(indices) == total else frames[list(indices)]
    metadata = VideoMetadata(
        total_num_frames=total,
        fps=clip.fps,
        duration=total / clip.fps if clip.fps else None,
        frames_indices=list(indices),
    )
    # All said, nothing guessed: a frame three pixels high would else pass for one with its channels first.
    result: Mapping[str, Any] = processor(
        videos=[_filled(processor, frames)],
        video_metadata=[metadata],
        do_sample_frames=False,
        input_data_format="channels_last",
        return_tensors="pt",
    )
    for key in (_PIXELS, _GRIDS):
        if key not in result:
            raise LayoutError(f"the processor gave no {key}")
    return result[_PIXELS], result[_GRIDS]


def most_frames(processor: Any) -> int | None:
    """Give how many frames the processor's own settings let it take, or None where they have no such limit."""
    most = getattr(processor, "max_frames", None)
    if most is not None:
        return int(most)
    seconds, rate = getattr(processor, "max_duration", None), getattr(processor, "fps", None)
    return None if not seconds or not rate else int(seconds * rate)


def _filled(processor: Any, frames: torch.Tensor) -> torch.Tensor:
    """Fill up to one temporal patch with the last frame: some processors refuse less, before they fill up the rest."""
    missing = processor.temporal_patch_size - len(frames)
    return frames if missing <= 0 else torch.cat([frames, frames[-1:].expand(missing, -1, -1, -1)])


def _sample(processor: Any, metadata: VideoMetadata) -> list[int]:
    # As the library calls it: some samplers read these two from the call alone.
    at = processor.sample_frames(
        metadata=metadata, num_frames=getattr(processor, "num_frames", None), fps=getattr(processor, "fps", None)
    )
    indices: list[int] = torch.as_tensor(at, dtype=torch.long).tolist()
    if not indices:
        raise ValueError("no frame was sampled")
    return indices


def _require_sampling(processor: Any, settings: Settings) -> None:
    if not processor.do_sample_frames:
        return
    try:
        _sample(processor, _LONG)
    except Exception as error:
        _log.exception("%s: the sampler raised", settings.file)
        raise RefusedError(
            f"{settings.file}: do_sample_frames cannot be done with fps and num_frames as set"
        ) from error


def _sibling(content: Mapping[str, Any]) -> str:
    return str(content.get("image_processor_type")).removesuffix("Fast").replace("ImageProcessor", "VideoProcessor")
