"""Whisper: the encoder of a checkpoint of both halves, or of an encoder alone; a row of each fiftieth of a second.

Rows are the encoder's last hidden states, after its last norm, those of the sound without the silence behind it. That
silence was attended to, as Whisper is trained: its rows alone are cut off.

Place: driven by the engine's stages through the `Encoder` Protocol; what it does is in `audio_towers`.

Must never: anything that `audio_towers` must never; read the decoder's weights.
"""

from __future__ import annotations

from typing import Self

from transformers import WhisperConfig
from transformers.models.whisper import modeling_whisper

from encoder_server.encoders import Source
from encoder_server.encoders.audio_towers import WindowEncoder, load_extractor
from encoder_server.encoders.loading import build, read_config
from encoder_server.encoders.weights import read_tower


class WhisperEncoder(WindowEncoder):
    """The `Encoder` for Whisper checkpoints."""

    @classmethod
    def load(cls, source: Source) -> Self:
        """See `Encoder.load`."""
        extractor = load_extractor(source)
        config = read_config(source.model, WhisperConfig, bare=["whisper"], name="Whisper")
        tower = read_tower(source.model, ["model.encoder.", "encoder."])
        model = build(modeling_whisper.WhisperEncoder, config, tower, source)
        return cls(model=model, extractor=extractor, weights=tower.digest)

    def promise(self, frames: int) -> int:
        """See `WindowEncoder.promise`: a row of two frames, the last one may be half."""
        return (frames - 1) // 2 + 1
