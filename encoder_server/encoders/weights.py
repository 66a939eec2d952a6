"""Read a tower's weights, and nothing else, from a Hugging Face checkpoint folder.

Place: called by a family's `load`. The digest taken here is the exact part `weights` of the identity.

Must never: read a tensor of the language model, unpickle, or leave a tensor mapped on the file (the volume may
change underneath a running engine).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3
import torch
from safetensors import SafetensorError, safe_open

from encoder_server.encoders import RefusedError, read_json

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """The tower's tensors by name (prefix taken off), and the hex digest over names, dtypes, shapes and bytes."""

    tensors: Mapping[str, torch.Tensor]
    digest: str


def read_tower(folder: Path, prefixes: Sequence[str]) -> Tower:
    """Read the tensors under the first of `prefixes` that occurs; all of them where none does (a bare tower).

    Raises RefusedError naming the file or key.
    """
    place = _places(folder)
    prefix = next((p for p in prefixes if any(key.startswith(p) for key in place)), "")
    hasher = blake3.blake3()
    tensors = {}
    files: dict[str, safe_open] = {}
    for key in sorted(key for key in place if key.startswith(prefix)):
        file = place[key]
        if file not in files:
            files[file] = _open(folder, file)
        tensor = _tensor(files[file], file, key)
        name = key.removeprefix(prefix)
        dtype = str(tensor.dtype).removeprefix("torch.")
        hasher.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        hasher.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        tensors[name] = tensor
    return Tower(tensors=tensors, digest=hasher.hexdigest())


def require(tower: Tower, expected: Mapping[str, torch.Tensor]) -> None:
    """Raise RefusedError naming the first key that is missing, not of the model, or of another shape."""
    for name in sorted(expected.keys() - tower.tensors.keys()):
        raise RefusedError(f"weights: {name} is missing")
    for name in sorted(tower.tensors.keys() - expected.keys()):
        raise RefusedError(f"weights: {name} is not a tensor of this model")
    for name, tensor in sorted(expected.items()):
        found = tower.tensors[name]
        if found.shape != tensor.shape:
            raise RefusedError(
                f"weights: {name} has shape {tuple(found.shape)}, config.json asks for {tuple(tensor.shape)}"
            )
        if not found.is_floating_point():
            dtype = str(found.dtype).removeprefix("torch.")
            raise RefusedError(f"weights: {name} has dtype {dtype}, which is not a floating point type")


def _places(folder: Path) -> dict[str, str]:
    if (folder / _SINGLE).is_file():
        file = _open(folder, _SINGLE)
        return dict.fromkeys(file.keys(), _SINGLE)
    if not (folder / _INDEX).is_file():
        raise RefusedError(f"{_SINGLE}: missing, and {_INDEX} too")
    listed = read_json(folder, _INDEX).get("weight_map")
    if not isinstance(listed, dict):
        raise RefusedError(f"{_INDEX}: weight_map is missing")
    for key, file in listed.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise RefusedError(f"{_INDEX}: the file of {key} is not a plain file name")
    return listed


def _open(folder: Path, name: str) -> safe_open:
    if not (folder / name).is_file():
        raise RefusedError(f"{name}: missing")
    try:
        return safe_open(folder / name, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        raise RefusedError(f"{name}: damaged, or not a safetensors file") from error


def _tensor(file: safe_open, name: str, key: str) -> torch.Tensor:
    try:
        tensor: torch.Tensor = file.get_tensor(key)
    except SafetensorError as error:
        raise RefusedError(f"{name}: {key} is missing or damaged") from error
    return tensor.clone(memory_format=torch.contiguous_format)
