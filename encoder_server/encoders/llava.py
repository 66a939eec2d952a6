"""LLaVA: CLIP's or SigLIP's tower, the layers and rows of it that config.json selects, and the projector.

Rows are what the language model takes in a picture's place: the tower's hidden states of `vision_feature_layer`,
without the class token where `vision_feature_select_strategy` is `default`, projected to the language model's width.
Who wants the tower's own rows saves it as a checkpoint of its own.

The promise is the LLaVA processor's own count, by which it expands a prompt: from its `patch_size`,
`num_additional_image_tokens` and `vision_feature_select_strategy` in processor_config.json, for the picture that the
image processor really made. The rows come from the model's own patches and config.json's selection. The two files
are written apart, and where they differ, the check sees it.

Place: driven by the engine's stages through the `Encoder` Protocol; on top of `patch_towers`.

Must never: anything that `patch_towers` must never; take a number for one file from the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self

import torch
from transformers import CLIPVisionModel, LlavaConfig, SiglipVisionModel
from transformers.models.llava.modeling_llava import LlavaMultiModalProjector

from encoder_server.encoders import Picture, RefusedError, Source, UnfitMediaError, clip, processors
from encoder_server.encoders.loading import build, fill, read_full_config
from encoder_server.encoders.patch_towers import PatchEncoder
from encoder_server.encoders.weights import joint_digest, read_tower

TOWER = ("model.vision_tower.vision_model.", "vision_tower.vision_model.", "model.vision_tower.", "vision_tower.")
PROJECTOR = ("model.multi_modal_projector.", "multi_modal_projector.")
_TOWERS = {"clip_vision_model": CLIPVisionModel, "siglip_vision_model": SiglipVisionModel}
_PADDED_SIDE = 8192  # a picture padded to a square takes the square of its longer side


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """What the LLaVA processor, text and pictures together, expands a prompt by."""

    patch_size: int
    num_additional_image_tokens: int
    vision_feature_select_strategy: Literal["default", "full"]

    @property
    def extra(self) -> int:
        """Tokens of a picture beside those of its patches."""
        return self.num_additional_image_tokens - (self.vision_feature_select_strategy == "default")


class LlavaEncoder(PatchEncoder):
    """The `Encoder` for LLaVA checkpoints."""

    one_size = True

    def __init__(
        self, *, model: Any, projector: torch.nn.Module, config: Any, processor: Any, whole: Whole, weights: str
    ) -> None:
        super().__init__(model=model, processor=processor, weights=weights, width=config.text_config.hidden_size)
        self.extra = whole.extra
        self._patch = (whole.patch_size, whole.patch_size)
        self._projector = projector
        self._selection = Selection(config)
        self._whole = whole
        self.joined = config

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        processor = processors.make_fixed(processors.read_settings(source.processor))
        whole = read_whole(source)
        config = read_full_config(source.model, LlavaConfig, name="LLaVA")
        family = _TOWERS.get(config.vision_config.model_type)
        if family is None:
            known = " or ".join(_TOWERS)
            raise RefusedError(f"config.json: vision_config.model_type is not {known}")
        tower = read_tower(source.model, TOWER, bare=False, passed_by=clip.LEFT_OVER)
        model = build(family, config.vision_config, tower, source)
        projector, digest = load_projector(config, source, model.dtype)
        weights = joint_digest(tower.digest, digest)
        return cls(model=model, projector=projector, config=config, processor=processor, whole=whole, weights=weights)

    def settings(self) -> Mapping[str, object]:
        """See `PatchEncoder.settings`; with what expands a prompt."""
        return {**super().settings(), "whole": asdict(self._whole)}

    def preprocess(self, media: Sequence[Picture]) -> list[Any]:
        """See `Encoder.preprocess`; `grid` is (height, width) in the processor's patches."""
        for picture in media:
            if getattr(self._processor, "do_pad", False) and max(picture.pixels.shape) > _PADDED_SIDE:
                raise UnfitMediaError(f"a side of more than {_PADDED_SIDE} pixels")
        return super().preprocess(media)

    def run(self, pixels: torch.Tensor) -> torch.Tensor:
        """See `PatchEncoder.run`."""
        made: torch.Tensor = self._projector(self._selection.of(self.tower(pixels, output_hidden_states=True)))
        return made


class Selection:
    """Which hidden states of a tower the projector takes, as config.json says."""

    def __init__(self, config: Any) -> None:
        layers = config.vision_feature_layer
        self._layers = [layers] if isinstance(layers, int) else list(layers)
        self._from = 1 if config.vision_feature_select_strategy == "default" else 0

    def of(self, output: Any) -> torch.Tensor:
        """Give them side by side: (n, rows, width times the layers)."""
        return torch.cat([output.hidden_states[layer][:, self._from :] for layer in self._layers], dim=-1)


def read_whole(source: Source) -> Whole:
    """Read processor_config.json; raises RefusedError naming what is missing."""
    whole = processors.read_whole(source.processor, needed=True)
    strategy = whole.content.get("vision_feature_select_strategy")
    if strategy not in ("default", "full"):
        raise RefusedError(f"{whole.file}: vision_feature_select_strategy is missing, or not default or full")
    extra = "num_additional_image_tokens"
    return Whole(
        patch_size=whole.whole("patch_size"),
        # The processor's own default: a tower without a class token need not say it.
        num_additional_image_tokens=whole.whole(extra, least=0) if extra in whole.content else 0,
        vision_feature_select_strategy=strategy,
    )


def load_projector(config: Any, source: Source, dtype: torch.dtype) -> tuple[torch.nn.Module, str]:
    """Load the projector that `config` describes; with the digest of its weights."""
    tensors = read_tower(source.model, PROJECTOR, bare=False)
    return fill(LlavaMultiModalProjector(config), tensors, source, dtype, prefix=PROJECTOR[-1]), tensors.digest
