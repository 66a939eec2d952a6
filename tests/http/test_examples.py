"""The examples of calling a server: the README shows them as they are, and they do what it says."""

import asyncio
import base64
import os
import re
import sys
from pathlib import Path

import pytest
import safetensors.numpy

from tests.http.under_test import Start, picture

ROOT = Path(__file__).parents[2]
CALLING = ROOT / "examples" / "calling"
PRINTED = {
    "curl.sh": ['"tokens":391'],
    "with_httpx.py": ["391 rows of 64"],
    "with_client.py": ["promised: [391]", "item 0: 391 rows of 64, float32"],
    "with_async_client.py": ["tokens: 391 after tries: 1", "refused: items[0]: not a picture"],
}


def test_every_example_is_run() -> None:
    assert {path.name for path in CALLING.iterdir() if path.is_file()} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
async def test_an_example_does_what_it_says(start: Start, tmp_path: Path, name: str) -> None:
    server = await start()
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "picture.png").write_bytes(base64.b64decode(picture(640, 480)))
    (folder / name).write_text((CALLING / name).read_text().replace("http://127.0.0.1:8000", server.url))
    command = ["bash", "-euo", "pipefail", name] if name.endswith(".sh") else [sys.executable, name]
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    printed, wrong = await process.communicate()
    assert process.returncode == 0, wrong.decode()
    for text in PRINTED[name]:
        assert text in printed.decode()
    if name == "curl.sh":
        assert safetensors.numpy.load_file(folder / "rows.safetensors")["item.0"].shape == (391, 64)


@pytest.mark.parametrize(("name", "language"), [("curl.sh", "sh"), ("with_client.py", "python")])
def test_the_readme_shows_an_example_as_it_is(name: str, language: str) -> None:
    section = (ROOT / "README.md").read_text().partition("## Calling it")[2].partition("\n## ")[0]
    assert (CALLING / name).read_text() in re.findall(rf"```{language}\n(.*?)```", section, re.DOTALL)
    assert all(example in section for example in PRINTED)
