"""Towers that take pictures of one size and make a row of each patch, class token and the like included.

Place: what CLIP, SigLIP and DINOv2 share, and LLaVA builds upon; a family states its model, how many extra
rows it makes, and whether it takes one size alone.

What is independent here: height and width come from the processor's output tensor, the rows from what the model's
own convolution made of it, one picture to an entry of the batch, never split by a count. The patch size in the
promise is config.json's, for these processors know none: it is the model's too, so a wrong one shows as a tensor
that does not fit. A model that takes one size alone contradicts a processor that gives another: `check` is
`promise`. A model that takes any size agrees with whatever it is given: `check` is `self`, as for a pooled row.

Must never: resize what the processor gave, or count rows by the promise.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Literal

import torch

from encoder_server.encoders import Description, Features, LayoutError, Picture, processors
from encoder_server.encoders.loading import TOGETHER, describe


class PatchEncoder:
    """The `Encoder` around such a tower; a family adds `load`, and `run` where its rows are not all there are."""

    extra: int
    """Rows beside those of the patches, before them: a class token."""
    one_size: ClassVar[bool]
    """Whether the model takes pictures of its own image_size alone."""
    pooled: ClassVar[bool] = False
    """Whether a picture becomes one row."""
    joined: Any = None
    """The whole model's configuration, where rows are more than the tower's own."""

    def __init__(self, *, model: Any, processor: Any, weights: str, width: int | None = None) -> None:
        self._model = model
        self._processor = processor
        self._weights = weights
        self._width = model.config.hidden_size if width is None else width
        self._side = sides(model.config.image_size)
        self._patch = sides(model.config.patch_size)

    def describe(self) -> Description:
        """See `Encoder.describe`."""
        check: Literal["promise", "self"] = "promise" if self.one_size and not self.pooled else "self"
        return describe(
            self,
            self._model,
            self._processor,
            weights=self._weights,
            settings=self.settings(),
            width=self._width,
            check=check,
            joined=self.joined,
        )

    def settings(self) -> Mapping[str, object]:
        """Give the effective settings that decide what comes out."""
        return processors.effective(self._processor)

    def warm_up(self) -> None:
        """Encode one blank picture of the model's own size, so that no processor can make it fail."""
        blank = torch.zeros(3, *self._side)
        self.encode([Features(modality="image", tokens=1, grid=(1, 1), cost=1, tensors={"pixel_values": blank})])

    def preprocess(self, media: Sequence[Picture]) -> list[Features]:
        """See `Encoder.preprocess`; `grid` is (height, width) in patches."""
        if self._processor.do_resize and self._processor.size.shortest_edge:
            processors.refuse_thin(media)
        # As a list: pictures that a processor leaves unequal are no matter of each other's.
        batch = processors.run(self._processor, media, gives=["pixel_values"], return_tensors=None)
        return [self._features(pixels) for pixels in batch["pixel_values"]]

    def _features(self, pixels: torch.Tensor) -> Features:
        _, height, width = pixels.shape
        grid = (height // self._patch[0], width // self._patch[1])
        return Features(
            modality="image",
            tokens=1 if self.pooled else self.promise(height, width),
            grid=grid,
            cost=grid[0] * grid[1],
            tensors={"pixel_values": pixels},
        )

    def promise(self, height: int, width: int) -> int:
        """Give the rows that a tensor of this size in pixels will become, by the declared formula."""
        return (height // self._patch[0]) * (width // self._patch[1]) + self.extra

    @torch.inference_mode()
    def encode(self, features: Sequence[Features]) -> list[torch.Tensor]:
        """See `Encoder.encode`; rows are (patches and extra ones, width), or (1, width)."""
        rows: dict[int, torch.Tensor] = {}
        pixels = [item.tensors["pixel_values"] for item in features]
        for batch in of_one_shape(pixels):
            made = self.run(torch.stack([pixels[at] for at in batch]).to(self._model.device))
            if made.shape[0] != len(batch):
                raise LayoutError(f"{len(batch)} pictures, {made.shape[0]} of them in the model's output")
            rows |= dict(zip(batch, made, strict=True))
        return [rows[at] for at in range(len(features))]

    def run(self, pixels: torch.Tensor) -> torch.Tensor:
        """Run the tower on `pixels` (n, 3, height, width): (n, rows, width)."""
        output = self.tower(pixels)
        made: torch.Tensor = output.pooler_output[:, None] if self.pooled else output.last_hidden_state
        return made

    def tower(self, pixels: torch.Tensor, **options: object) -> Any:
        """Give the tower's output; raises LayoutError for a size that the model was not made for."""
        size = tuple(pixels.shape[-2:])
        if self.one_size and size != self._side:
            raise LayoutError(f"the processor gave {size}, the model takes {self._side}")
        return self._model(pixel_values=pixels, **options)


def sides(value: Any) -> tuple[int, int]:
    """Give (height, width) of what a configuration states as one number or as two."""
    return (value, value) if isinstance(value, int) else (value[0], value[1])


def of_one_shape(tensors: Sequence[torch.Tensor]) -> Iterator[list[int]]:
    """Give the places of tensors that may be stacked, at most TOGETHER of them at a time."""
    by_shape: dict[tuple[int, ...], list[int]] = {}
    for at, tensor in enumerate(tensors):
        by_shape.setdefault(tuple(tensor.shape), []).append(at)
    for places in by_shape.values():
        for start in range(0, len(places), TOGETHER):
            yield places[start : start + TOGETHER]
