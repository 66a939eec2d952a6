"""Where the end-to-end tests run, read once from the environment; without it, the project's own cluster.

The tests install a chart with cluster roles and delete namespaces, so a context must be allowed by name.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
from functools import cache
from pathlib import Path

ALLOWED = "ENCODERPOOL_E2E_CONTEXTS"
OWN = "encoderpool"

# By default the tests' KUBECONFIG says which context; it must be one of those that ALLOWED lists.
_context = os.environ.get("ENCODERPOOL_E2E_CONTEXT", "")
_allowed = [name.strip() for name in os.environ.get(ALLOWED, OWN).split(",") if name.strip()]
_images = os.environ.get("ENCODERPOOL_E2E_IMAGES", "localhost/encoderpool").rstrip("/")
IMAGE_TAG = os.environ.get("ENCODERPOOL_E2E_IMAGE_TAG", "dev")
PULL_POLICY = os.environ.get("ENCODERPOOL_E2E_PULL_POLICY", "Never")

# As the tests reach it, and as a pod does.
PROMETHEUS = os.environ.get("ENCODERPOOL_E2E_PROMETHEUS", "http://10.96.0.90:9090")
PROMETHEUS_INSIDE = os.environ.get("ENCODERPOOL_E2E_PROMETHEUS_INSIDE", "http://prometheus.monitoring:9090")

# Where the tests write the checkpoints that pods read, and where the node sees that folder.
FOLDER = Path(os.environ.get("ENCODERPOOL_E2E_FOLDER") or tempfile.gettempdir())
_node_folder = Path(os.environ.get("ENCODERPOOL_E2E_NODE_FOLDER") or FOLDER)

# What ends the API server and its store without a word, so that both are started again.
_restart = f"{Path(__file__).parents[1] / 'cluster' / 'cluster'} restart etcd kube-apiserver"
RESTART_CONTROL_PLANE = shlex.split(os.environ.get("ENCODERPOOL_E2E_RESTART") or _restart)


@cache
def context() -> str:
    """The context that every call names; PermissionError for one that is not allowed."""
    name = _context or _current()
    if name not in _allowed:
        raise PermissionError(
            f"the end-to-end tests do not touch the context {name or '(none)'}: {ALLOWED} allows {', '.join(_allowed)}"
        )
    return name


def repository(name: str) -> str:
    """An image's name without its tag."""
    return f"{_images}/{name}"


def image(name: str) -> str:
    """An image's name."""
    return f"{repository(name)}:{IMAGE_TAG}"


def seen_by_node(folder: Path) -> Path:
    """What a hostPath volume must say for a folder that was made here."""
    return _node_folder / folder.relative_to(FOLDER)


def _current() -> str:
    command = ["kubectl", "config", "current-context"]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False).stdout.strip()
