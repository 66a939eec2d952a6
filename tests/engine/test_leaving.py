"""An engine leaves when it is told to, with the status that says why, whatever its encoder left running."""

from __future__ import annotations

from pathlib import Path

import pytest

from encoder_server.engine import messages
from encoder_server.engine.process import REFUSED
from tests.support.spawned import Engine

LEAVING_SECONDS = 60.0
PLUG_IN = '''
"""Encoders that leave a thread running which nobody will ever end."""
import threading

from encoder_server.encoders import RefusedError
from tests.conformance.encoders import Sound

class Lingers(Sound):
    @classmethod
    def load(cls, source):
        threading.Thread(target=threading.Event().wait).start()
        return cls()

class Refuses(Lingers):
    def __init__(self):
        raise RefusedError("config.json: no")
'''


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that holds these encoders as an installed package would register them."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "lingering.py").write_text(PLUG_IN)
    metadata = folder / "lingering-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: lingering\nVersion: 1\n")
    names = "lingers = lingering:Lingers\nrefuses = lingering:Refuses\n"
    (metadata / "entry_points.txt").write_text(f"[encoder_server.encoders]\n{names}")
    return folder


def test_an_engine_that_is_told_to_stop_waits_for_no_thread_of_its_encoder(site: Path) -> None:
    engine = Engine(f"--model={site}", "--encoder=lingers", python_path=[site])
    try:
        assert isinstance(engine.greeting(), messages.Hello)
        messages.send(engine.sock, messages.Stop())
        assert engine.process.wait(LEAVING_SECONDS) == 0
    finally:
        engine.close()


def test_an_engine_that_refused_leaves_with_that_status_all_the_same(site: Path) -> None:
    engine = Engine(f"--model={site}", "--encoder=refuses", python_path=[site])
    try:
        refused = engine.greeting()
        assert isinstance(refused, messages.Refused)
        assert refused.detail == "config.json: no"
        assert engine.process.wait(LEAVING_SECONDS) == REFUSED
    finally:
        engine.close()
