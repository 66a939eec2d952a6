"""Why a checkpoint's file is not there or not itself, as somebody would find out by looking into the folder.

Place: asked by whoever refuses a checkpoint for a file, for the end of that refusal.

Must never: tell a path, or open what may be pickled.
"""

from __future__ import annotations

from pathlib import Path

_LFS = b"version https://git-lfs.github.com/spec/"
_OTHER_WEIGHTS = {
    ".bin": "pickled weights, which are never opened: save them as safetensors",
    ".pt": "pickled weights, which are never opened: save them as safetensors",
    ".pth": "pickled weights, which are never opened: save them as safetensors",
    ".gguf": "weights in another program's form",
    ".safetensors": "a file of weights that is not read by this name",
}
_OTHER_CONFIG = {
    "params.json": "Mistral's own form of a checkpoint, which is not read: take the one that the library reads",
    "adapter_config.json": "an adapter alone: merge it into the checkpoint that it is for",
    "snapshots": "a hub's cache of a checkpoint: take a folder in it",
}


def why_missing(folder: Path, name: str) -> str:
    """Say, after "NAME: missing", why that may be; nothing where there is nothing to say."""
    if not folder.is_dir():
        return ", and so is the folder"
    if (folder / name).is_symlink():
        return ": it is a link to a file that is not there"
    try:
        present = sorted(file.name for file in folder.iterdir())
    except PermissionError:
        return ", and the folder may not be listed"
    if not present:
        return ": the folder is empty"
    if name == "config.json":
        return _first(present, _OTHER_CONFIG)
    return ""


def other_weights(folder: Path) -> str:
    """Say what weights there are beside those that are read; nothing where there are none."""
    kinds = {file.name: _OTHER_WEIGHTS.get(file.suffix, "") for file in sorted(folder.iterdir())}
    return _first(sorted(kinds), {name: kind for name, kind in kinds.items() if kind})


def is_pointer(file: Path) -> bool:
    """Say whether `file` is the few words that Git LFS leaves in a large file's place; one that nobody can read is
    not."""
    try:
        with file.open("rb") as opened:
            return opened.read(len(_LFS)) == _LFS
    except OSError:
        return False


def _first(present: list[str], known: dict[str, str]) -> str:
    return next((f"; {name} is there: {known[name]}" for name in present if name in known), "")
