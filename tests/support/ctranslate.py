"""A Whisper model in CTranslate2's layout, its encoder made into a checkpoint folder as transformers reads one.

model.bin is a list of named arrays: a version, the model's name and revision, then for each array its name, shape,
type and bytes, all little endian; a name has its length before it and a zero behind it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy
from numpy.typing import NDArray
from safetensors.numpy import save_file

Arrays = dict[str, NDArray[Any]]
_TYPES = (numpy.float32, numpy.int8, numpy.int16, numpy.int32, numpy.float16)
_NORMS = {"self_attention/layer_norm": "self_attn_layer_norm", "ffn/layer_norm": "final_layer_norm"}


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, kind: str) -> int:
        (value,) = struct.unpack_from(f"<{kind}", self._data, self._at)
        self._at += struct.calcsize(f"<{kind}")
        return int(value)

    def text(self) -> str:
        return self.raw(self.number("H"))[:-1].decode()

    def raw(self, size: int) -> bytes:
        self._at += size
        return self._data[self._at - size : self._at]


def read_arrays(file: Path) -> Arrays:
    """The arrays of a model.bin by name."""
    reader = _Reader(file.read_bytes())
    assert (reader.number("I"), reader.text(), reader.number("I")) == (6, "WhisperSpec", 3)
    arrays: Arrays = {}
    for _ in range(reader.number("I")):
        name = reader.text()
        shape = [reader.number("I") for _ in range(reader.number("B"))]
        kind = _TYPES[reader.number("B")]
        arrays[name] = numpy.frombuffer(reader.raw(reader.number("I")), kind).reshape(shape)
    return arrays


def write_checkpoint(arrays: Mapping[str, NDArray[Any]], folder: Path) -> None:
    """Write the encoder among `arrays` as a checkpoint folder of Whisper's, in their own half precision."""
    layers = len({name.split("/")[1] for name in arrays if name.startswith("encoder/layer_") and "ffn" in name})
    tensors = {
        "embed_positions.weight": arrays["encoder/position_encodings/encodings"],
        **_norm(arrays, "encoder/layer_norm", "layer_norm"),
        **{f"conv{at}.{part}": arrays[f"encoder/conv{at}/{part}"] for at in (1, 2) for part in ("weight", "bias")},
    }
    for layer in range(layers):
        tensors |= _layer(arrays, f"encoder/layer_{layer}", f"layers.{layer}")
    inner, width = arrays["encoder/layer_0/ffn/linear_0/weight"].shape
    config = {
        "architectures": ["WhisperModel"],
        "model_type": "whisper",
        "activation_function": "gelu",
        "d_model": width,
        "encoder_attention_heads": int(arrays["encoder/num_heads"]),
        "encoder_ffn_dim": inner,
        "encoder_layers": layers,
        "max_source_positions": len(tensors["embed_positions.weight"]),
        "num_mel_bins": tensors["conv1.weight"].shape[1],
        "torch_dtype": "float16",
    }
    processor = {
        "chunk_length": 30,
        "feature_extractor_type": "WhisperFeatureExtractor",
        "feature_size": config["num_mel_bins"],
        "hop_length": 160,
        "n_fft": 400,
        "padding_side": "right",
        "padding_value": 0.0,
        "processor_class": "WhisperProcessor",
        "sampling_rate": 16_000,
    }
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "preprocessor_config.json").write_text(json.dumps(processor))
    own = {f"encoder.{name}": numpy.ascontiguousarray(tensor) for name, tensor in tensors.items()}
    save_file(own, folder / "model.safetensors", metadata={"format": "pt"})


def _layer(arrays: Mapping[str, NDArray[Any]], of: str, to: str) -> Arrays:
    tensors: Arrays = {}
    for norm, name in _NORMS.items():
        tensors |= _norm(arrays, f"{of}/{norm}", f"{to}.{name}")
    for part in ("weight", "bias"):
        joined = arrays[f"{of}/self_attention/linear_0/{part}"]
        for name, own in zip(("q_proj", "k_proj", "v_proj"), numpy.split(joined, 3), strict=True):
            if (name, part) != ("k_proj", "bias"):  # zeros here: the model has none
                tensors[f"{to}.self_attn.{name}.{part}"] = own
        tensors[f"{to}.self_attn.out_proj.{part}"] = arrays[f"{of}/self_attention/linear_1/{part}"]
        for at in (0, 1):
            tensors[f"{to}.fc{at + 1}.{part}"] = arrays[f"{of}/ffn/linear_{at}/{part}"]
    return tensors


def _norm(arrays: Mapping[str, NDArray[Any]], of: str, to: str) -> Arrays:
    return {f"{to}.weight": arrays[f"{of}/gamma"], f"{to}.bias": arrays[f"{of}/beta"]}
