"""The same checkpoint on another machine is the same identity: real engines, with all that differs between machines.

What is exact (digests, classes, widths, counts and grids) is equal; the signature, which kernels change, is near.
"""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from encoder_server.engine.messages import Measured
from encoder_server.identity import Expected, Reference, begin, difference, distance_per_mille, fingerprint, judge
from tests.support.spawned import Engine

MACHINES: dict[str, tuple[list[str], dict[str, str]]] = {
    "another place and hour, more threads and older vector instructions": (
        ["--threads=2"],
        {
            "LANG": "tr_TR.UTF-8",
            "TZ": "Pacific/Chatham",
            "PYTHONHASHSEED": "4711",
            "HF_HOME": "/nowhere/hub",
            "OMP_NUM_THREADS": "2",
            "ATEN_CPU_CAPABILITY": "avx2",
            "ONEDNN_MAX_CPU_ISA": "AVX2",
            "MKL_ENABLE_INSTRUCTIONS": "AVX2",
        },
    ),
    "no vector instructions": (
        ["--threads=1"],
        {"ATEN_CPU_CAPABILITY": "default", "ONEDNN_MAX_CPU_ISA": "SSE41", "MKL_ENABLE_INSTRUCTIONS": "SSE4_2"},
    ),
}


def elsewhere(checkpoint: Path, folder: Path) -> Path:
    """The checkpoint under another path, of another age, in two files with its tensors in the other order."""
    shutil.copytree(checkpoint, folder)
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    names, place = sorted(tensors, reverse=True), {}
    for part, keys in enumerate((names[::2], names[1::2])):
        file = f"model-{2 - part}-of-2.safetensors"
        save_file({key: tensors[key] for key in keys}, folder / file)
        place.update(dict.fromkeys(keys, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": place}))
    for file in ("config.json", "preprocessor_config.json"):
        content = json.loads((folder / file).read_text())
        (folder / file).write_text(json.dumps(dict(reversed(content.items())), indent=4))
    for path in folder.iterdir():
        os.utime(path, (1, 1))
    return folder


@pytest.fixture(scope="module")
def machines(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Measured]:
    """What an engine measures on each of the machines, one after the other."""
    folder = elsewhere(checkpoint, tmp_path_factory.mktemp("another machine") / "weights of mine")
    measured = {}
    for name, (arguments, environment) in MACHINES.items():
        engine = Engine(f"--model={folder}", *arguments, environment=environment)
        try:
            measured[name] = engine.measured()
        finally:
            engine.close()
    return measured


@pytest.mark.parametrize("name", MACHINES)
def test_the_same_checkpoint_on_another_machine_has_the_same_fingerprint_and_a_signature_within_the_tolerance(
    engine: Engine, machines: dict[str, Measured], name: str
) -> None:
    here, there = engine.measured(), machines[name]
    assert fingerprint(there) == fingerprint(here)
    assert difference(here, there) is None
    assert distance_per_mille(there.signature or "", here.signature or "") < 1
    assert admits(here, there)


def admits(learned: Measured, found: Measured) -> bool:
    expected = Expected(
        policy="Learn",
        revision="r",
        fingerprint=fingerprint(learned),
        signature=learned.signature,
        maxSignatureDistancePerMille=10,
    )
    return judge(found, begin(found), Reference(named=True, expected=expected)).admitted


def test_other_kernels_change_the_signature_itself_so_that_it_cannot_be_an_exact_part(
    engine: Engine, machines: dict[str, Measured]
) -> None:
    assert machines["no vector instructions"].signature != engine.measured().signature
