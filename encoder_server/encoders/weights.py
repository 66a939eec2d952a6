"""Read a tower's weights, and nothing else, from a Hugging Face checkpoint folder.

Place: called by a family's `load`. The digest taken here is the exact part `weights` of the identity.

Must never: read a tensor of the language model, unpickle, or leave a tensor mapped on the file (the volume may
change underneath a running engine).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import blake3
import torch
from safetensors import SafetensorError, safe_open

from encoder_server.encoders import RefusedError, absence, progress, read_json

_SINGLE = "model.safetensors"
_INDEX = "model.safetensors.index.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """The tower's tensors by name (prefix taken off), and the hex digest over names, dtypes, shapes and bytes."""

    tensors: Mapping[str, torch.Tensor]
    digest: str


def read_tower(folder: Path, prefixes: Sequence[str], *, bare: bool = True, passed_by: Collection[str] = ()) -> Tower:
    """Read the tensors under the first of `prefixes` that occurs, but for those that `passed_by` names.

    Where none occurs, all of them are the tower's (`bare`), or the checkpoint is refused. Raises RefusedError
    naming the file or key.
    """
    place = _places(folder)
    prefix = next((p for p in prefixes if any(key.startswith(p) for key in place)), None)
    if prefix is None and not bare:
        raise RefusedError(f"weights: {prefixes[-1]}* is missing")
    prefix = prefix or ""
    hasher = blake3.blake3()
    tensors = {}
    files: dict[str, safe_open] = {}
    keys = sorted(key for key in place if key.startswith(prefix))
    for read, key in enumerate(keys):
        progress.tell("loading", read, len(keys))
        name = key.removeprefix(prefix)
        if name in passed_by:
            continue
        file = place[key]
        if file not in files:
            files[file] = _open(folder, file)
        tensor = _tensor(files[file], file, key)
        dtype = str(tensor.dtype).removeprefix("torch.")
        hasher.update(f"{name}\n{dtype}\n{','.join(map(str, tensor.shape))}\n".encode())
        hasher.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
        tensors[name] = tensor
    return Tower(tensors=tensors, digest=hasher.hexdigest())


def joint_digest(*digests: str) -> str:
    """Give one digest of those of a tower and of what is read beside it, a projector or the like."""
    return blake3.blake3("\n".join(digests).encode()).hexdigest()


def require(tower: Tower, expected: Mapping[str, torch.Tensor], prefix: str = "") -> None:
    """Raise RefusedError naming the first key that is missing, not of the model, of another shape or quantised."""
    mismatched = [
        (name, tower.tensors[name].shape, tensor.shape)
        for name, tensor in expected.items()
        if name in tower.tensors and tower.tensors[name].shape != tensor.shape
    ]
    refuse(expected.keys() - tower.tensors.keys(), tower.tensors.keys() - expected.keys(), mismatched, prefix)
    refuse_quantised(tower, prefix)


def refuse(
    missing: Collection[str],
    unexpected: Collection[str],
    mismatched: Collection[tuple[str, Sequence[int], Sequence[int]]],
    prefix: str = "",
) -> None:
    """Raise RefusedError naming the first key that is missing, not of the model, or of another shape."""
    for name in sorted(missing):
        raise RefusedError(f"weights: {prefix}{name} is missing")
    for name in sorted(unexpected):
        raise RefusedError(f"weights: {prefix}{name} is not a tensor of this model")
    for name, found, wanted in sorted(mismatched):
        raise RefusedError(f"weights: {prefix}{name} has shape {tuple(found)}, config.json asks for {tuple(wanted)}")


def refuse_quantised(tower: Tower, prefix: str = "") -> None:
    """Raise RefusedError naming the first tensor that holds no floating point numbers of at least 16 bits."""
    for name, tensor in sorted(tower.tensors.items()):
        dtype = str(tensor.dtype).removeprefix("torch.")
        if not tensor.is_floating_point():
            raise RefusedError(f"weights: {prefix}{name} has dtype {dtype}, which is not a floating point type")
        if tensor.dtype.itemsize < 2:
            raise RefusedError(f"weights: {prefix}{name} has dtype {dtype}, which is quantised")


def _places(folder: Path) -> dict[str, str]:
    if (folder / _SINGLE).is_file():
        file = _open(folder, _SINGLE)
        return dict.fromkeys(file.keys(), _SINGLE)
    if not (folder / _INDEX).is_file():
        why = absence.why_missing(folder, _SINGLE) or absence.other_weights(folder)
        raise RefusedError(f"{_SINGLE}: missing, and {_INDEX} too{why}")
    listed = read_json(folder, _INDEX).get("weight_map")
    if not isinstance(listed, dict):
        raise RefusedError(f"{_INDEX}: weight_map is missing")
    for key, file in listed.items():
        if not isinstance(file, str) or Path(file).name != file:
            raise RefusedError(f"{_INDEX}: the file of {key} is not a plain file name")
    return listed


def _open(folder: Path, name: str) -> safe_open:
    if not (folder / name).is_file():
        raise RefusedError(f"{name}: missing{absence.why_missing(folder, name)}")
    try:
        return safe_open(folder / name, framework="pt", device="cpu")
    except (SafetensorError, OSError) as error:
        if absence.is_pointer(folder / name):
            raise RefusedError(f"{name}: a Git LFS pointer in the place of the file itself: git lfs pull") from error
        raise RefusedError(f"{name}: damaged, or not a safetensors file") from error


def _tensor(file: safe_open, name: str, key: str) -> torch.Tensor:
    try:
        tensor: torch.Tensor = file.get_tensor(key)
    except SafetensorError as error:
        raise RefusedError(f"{name}: {key} is missing or damaged") from error
    return tensor.clone(memory_format=torch.contiguous_format)
