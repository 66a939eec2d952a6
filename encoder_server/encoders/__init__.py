"""Encoder families: the Protocol that each fulfils, and the values it exchanges.

Place: the engine's stages (`preprocess`, `promise`, `encode`) drive an Encoder; a family is one small module,
here or in a user's own package, registered under the entry point group `encoder_server.encoders` (`registry`).

Must never: import torch at run time (the exceptions are used where no model is loaded), or know of HTTP, batches in
flight, or the cache.

An encoder of one's own is a class with the five methods of `Encoder` and one line in its package's metadata. One of
video that looks at some frames alone may have a sixth, `ChoosesFrames`, so that the others are not kept:

    [project.entry-points."encoder_server.encoders"]
    my_encoder = "my_package:MyEncoder"
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from encoder_server.encoders.absence import why_missing
from encoder_server.encoders.decoded import Clip as Clip
from encoder_server.encoders.decoded import Decoded as Decoded
from encoder_server.encoders.decoded import Picture as Picture
from encoder_server.encoders.decoded import Sound as Sound
from encoder_server.engine.messages import Declared

if TYPE_CHECKING:
    import torch

# Sixteen pictures of 512x512: whatever an engine measures, a larger batch would keep its first caller waiting.
BATCH_BUDGET = 4 * 2**20


class RefusedError(Exception):
    """This checkpoint cannot be served. The text is ours, and names the file or key."""


class LayoutError(Exception):
    """Processor and model do not fit together: an encoder raises it where it can tell so itself."""


class UnfitMediaError(Exception):
    """This medium is outside what the encoder takes: the caller's fault. The text is ours, and names the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """What to load: checkpoint folder, folder of the processor's settings, torch device, dtype name or `auto`."""

    model: Path
    processor: Path
    device: str
    dtype: str


DecodedT_contra = TypeVar("DecodedT_contra", bound=Decoded, contravariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """One item as the processor left it, and its promise.

    `tokens` is the number of rows promised and `grid` the processor's own (time, height, width or the like):
    both from what the processor really produced. `cost` is the item's share of a batch (patches or frames).
    `tensors` is the family's own.
    """

    modality: str
    tokens: int
    grid: tuple[int, ...]
    cost: int
    tensors: Mapping[str, torch.Tensor]


@dataclass(frozen=True, slots=True, kw_only=True)
class Description:
    """What an encoder is, as really loaded.

    `weights`: hex digest of the tensors before any cast or move (see `encoders.weights`). `processor`: the
    effective settings that can change the output. `config`: the tower's, as the loaded model uses them beside its
    weights (numbers of heads, windows, rope parameters, activation, epsilons), in values that JSON can hold; the same
    on every machine, for every dtype and from every path. `classes`: class names by role. `declared`: by modality;
    what lasts longer than is declared is refused before it is decoded. `together`: whether several items may share one
    call of `encode`; False where the model cannot say which rows belong to which item. `batch_budget`: pixels of media
    (as their headers say) that a batch of several callers' items never exceeds; how many pay off, an engine measures
    when it starts. `sampling_rate`: of the audio that it takes, in samples a second; None where it takes none.
    """

    weights: str
    processor: Mapping[str, object]
    classes: Mapping[str, str]
    declared: Mapping[str, Declared]
    together: bool
    dtype: str
    device: str
    batch_budget: int = BATCH_BUDGET
    config: Mapping[str, object] = field(default_factory=dict)
    sampling_rate: int | None = None


class Encoder(Protocol[DecodedT_contra]):
    """A family's tower and processor. One engine drives one encoder, from one thread.

    One call of `preprocess` or `encode` has items of one modality, which the encoder declares: `Encoder[Picture]` is
    one for pictures alone, `Encoder[Picture | Clip]` one for video too.

    What `preprocess` or `encode` raises fails the item that it is raised for, and its batch mates are run without it.
    It counts against the replica, as a failed check (502 `layout`), where it says that processor and model do not
    fit: `LayoutError`, and a RuntimeError, ValueError, IndexError or AssertionError whose text speaks of shapes, sizes
    or positions, as those of torch and transformers do (`engine.misfit` has the words). UnfitMediaError is the caller's
    (400), an out-of-memory error is tried again in halves, and anything else, an exit included, is a plain fault of
    the encoder: 500 for its item alone, and no evidence against anybody.
    """

    @classmethod
    def load(cls, source: Source) -> Self:
        """Load offline from the folders of `source`; raises RefusedError naming the file or key at fault."""
        ...

    def describe(self) -> Description:
        """Say what was loaded; cheap, and the same at every call."""
        ...

    def warm_up(self) -> None:
        """Run the model once, so that the first request does not pay for lazy set-up."""
        ...

    def preprocess(self, media: Sequence[DecodedT_contra]) -> Sequence[Features]:
        """Run the processor on `media`, features in the same order, one for each.

        Raises UnfitMediaError for a medium that the family does not take. Any other error of several media is
        tried again one by one.
        """
        ...

    def encode(self, features: Sequence[Features]) -> Sequence[torch.Tensor]:
        """Run the model: one tensor (rows, width) for each item, in order.

        Rows are split by the model's own geometry, never by `Features.tokens`: else the check of rows against
        promise compares a number with itself.
        """
        ...


@runtime_checkable
class ChoosesFrames(Protocol):
    """What an `Encoder` of video may have beside the rest: it is asked which frames of a video file it wants, and its
    clips of files then hold those alone (`Clip.indices`). Without it they hold all, within the limits."""

    def frames_wanted(self, total: int, fps: float | None) -> Sequence[int]:
        """Give the indices, each from 0 to `total` - 1, of the frames wanted of a video file of so many, shown at `fps`
        (None: not known), in the order in which `preprocess` is to have them; one may come again.

        The same for the same numbers at every call: a file may be asked about more than once. Errors count as those
        of `preprocess` do; UnfitMediaError is for a file that has too few or too many.
        """
        ...


def refuse_own_code(content: Mapping[str, object], file: str) -> None:
    """Raise RefusedError where the `content` of `file` names code that comes with the checkpoint: what it would compute
    is not known, and it is never run."""
    if content.get("auto_map"):
        raise RefusedError(f"{file}: auto_map names code of the checkpoint's own, which is never run")


def read_json(folder: Path, name: str) -> dict[str, object]:
    """Read the JSON object in `folder`/`name`; raises RefusedError naming the file."""
    try:
        content = json.loads((folder / name).read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise RefusedError(f"{name}: missing{why_missing(folder, name)}") from error
    except OSError as error:
        raise RefusedError(f"{name}: unreadable") from error
    except (ValueError, RecursionError) as error:
        raise RefusedError(f"{name}: not JSON") from error
    if not isinstance(content, dict):
        raise RefusedError(f"{name}: not a JSON object")
    return content
