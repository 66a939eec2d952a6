"""The end-to-end tests begin only on a cluster that is allowed by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def ask(expression: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Evaluate an expression on the settings as a new process reads them."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("ENCODERPOOL_E2E_")}
    command = [sys.executable, "-c", f"from pathlib import Path; from tests.support import ground; print({expression})"]
    return subprocess.run(
        command, cwd=ROOT, env={**environment, **settings}, capture_output=True, text=True, timeout=60, check=False
    )


def test_any_other_context_is_refused_by_its_name_and_the_variable_that_would_allow_it() -> None:
    refused = ask("ground.context()", ENCODERPOOL_E2E_CONTEXT="production")
    assert refused.returncode
    assert "production" in refused.stderr
    assert "ENCODERPOOL_E2E_CONTEXTS" in refused.stderr


def test_a_context_that_the_list_names_is_taken() -> None:
    taken = ask("ground.context()", ENCODERPOOL_E2E_CONTEXT="kind-x", ENCODERPOOL_E2E_CONTEXTS="encoderpool, kind-x")
    assert taken.stdout.strip() == "kind-x", taken.stderr


def test_the_own_cluster_is_refused_where_only_another_is_allowed() -> None:
    refused = ask("ground.context()", ENCODERPOOL_E2E_CONTEXT="encoderpool", ENCODERPOOL_E2E_CONTEXTS="kind-x")
    assert refused.returncode
    assert "encoderpool" in refused.stderr


def test_a_volume_says_the_path_as_the_node_sees_it() -> None:
    folders = {"ENCODERPOOL_E2E_FOLDER": "/here", "ENCODERPOOL_E2E_NODE_FOLDER": "/there"}
    assert ask("ground.seen_by_node(Path('/here/a/b'))", **folders).stdout.strip() == "/there/a/b"
    assert ask("ground.seen_by_node(Path('/elsewhere'))", **folders).returncode


def test_image_names_follow_the_prefix_and_the_tag() -> None:
    images = {"ENCODERPOOL_E2E_IMAGES": "example/pool/", "ENCODERPOOL_E2E_IMAGE_TAG": "v2"}
    assert ask("ground.image('server')", **images).stdout.strip() == "example/pool/server:v2"
