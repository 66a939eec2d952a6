"""The kit: checkpoints and bodies that the scenarios share, made once in a folder."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.bench import bodies
from tests.bench.processes import ROOT


@dataclass(frozen=True)
class Kit:
    """Where things are; what costs time is made when it is first asked for. `peers` has the peers' environments."""

    folder: Path
    peers: Path

    @cached_property
    def checkpoint(self) -> Path:
        """A tiny Qwen2.5-VL."""
        folder = self.folder / "checkpoint"
        if not folder.exists():
            subprocess.run(
                [sys.executable, "-m", "encoder_server", "make-checkpoint", str(folder)], cwd=ROOT, check=True
            )
        return folder

    @cached_property
    def clip(self) -> Path:
        """A tiny CLIP with its text tower."""
        folder = self.folder / "clip"
        if not folder.exists():
            program = ROOT / "tests" / "bench" / "programs" / "clip_checkpoint.py"
            subprocess.run([str(self.python("bench-infinity")), str(program), str(folder)], check=True)
        return folder

    def python(self, environment: str) -> Path:
        """The interpreter of one of the peers' environments."""
        return self.peers / environment / "bin" / "python"

    @cached_property
    def small(self) -> Path:
        """A JPEG of 224x224, 15 kB."""
        return self._file("small.jpg", bodies.of_bytes(224, 224, 15_000))

    @cached_property
    def large(self) -> Path:
        """A JPEG of 1024x768, 231 kB."""
        return self._file("large.jpg", bodies.of_bytes(1024, 768, 231_000))

    @cached_property
    def tiny(self) -> Path:
        """A JPEG of 56x56."""
        return self._file("tiny.jpg", bodies.noise(56, 56))

    def form(self, picture: Path) -> Path:
        """A form's body with this picture."""
        return self._file(f"{picture.stem}.form", bodies.form([picture.read_bytes()]))

    def written(self, name: str, content: bytes) -> Path:
        """A file with this content."""
        return self._file(name, content)

    def _file(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path
