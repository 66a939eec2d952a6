"""The command line: `encoder-server serve DIR`, `encoder-server check DIR`, `encoder-server make-checkpoint DIR`.

Place: the only reader of arguments and environment; makes Settings and starts `app`, or the process that sweeps an
encoder. Must never: import torch (make-checkpoint alone does, when it is called), or answer bad usage with a
traceback.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from encoder_server import app, cache_options, fetch_options, limit_options, logs, quota, tracing
from encoder_server.argument_types import count as _count
from encoder_server.argument_types import period as _period
from encoder_server.argument_types import port as _port
from encoder_server.argument_types import seconds as _seconds
from encoder_server.conformance import options as check_options
from encoder_server.layouts import FAMILIES
from encoder_server.settings import EngineSettings, Limits, Settings

ENGINE_COMMAND = (sys.executable, "-m", "encoder_server.engine")


def main(arguments: Sequence[str] | None = None, *, engine_command: Sequence[str] = ENGINE_COMMAND) -> int:
    """Run the program with `arguments` (default: the process's own); return its exit status.

    `engine_command` starts an engine program that speaks `engine.messages`.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command == "make-checkpoint":
        return _make_checkpoint(options.directory, options.seed, options.family)
    if options.command == "check":
        given = sys.argv[1:] if arguments is None else arguments
        return _check(given[given.index("check") + 1 :])
    settings = _settings(options, os.environ, parser)
    logs.to_stderr(settings.log_level)
    try:
        return app.serve(settings, engine_command)
    except app.ListenError as why:
        print(f"encoder-server: cannot listen on {settings.host}:{settings.port}: {why}", file=sys.stderr)
        return 1


def _make_checkpoint(directory: Path, seed: int, family: str) -> int:
    from encoder_server import checkpoint

    try:
        checkpoint.make(directory, seed=seed, family=family)
    except checkpoint.DirectoryInUseError as why:
        print(f"encoder-server: {why}", file=sys.stderr)
        return 1
    except OSError as why:
        print(f"encoder-server: {directory} cannot be written: {why.strerror}", file=sys.stderr)
        return 1
    return 0


def _check(arguments: Sequence[str]) -> int:
    """Sweep in a process of its own, as an engine is, so that an encoder that crashes is told of too."""
    with tempfile.TemporaryFile() as place:
        command = [sys.executable, "-m", "encoder_server.conformance", f"--place-fd={place.fileno()}", *arguments]
        try:
            done = subprocess.run(command, pass_fds=(place.fileno(),), check=False)  # noqa: S603 - our own program
        except KeyboardInterrupt:
            return 128 + signal.SIGINT
        if done.returncode >= 0:
            return done.returncode
        place.seek(0)
        where = place.read().decode(errors="replace") or "loading"
        name = signal.Signals(-done.returncode).name
        print(f"encoder-server: the encoder's process died of {name} at {where}", file=sys.stderr)
        return 1


def read_settings(arguments: Sequence[str], environment: Mapping[str, str]) -> Settings:
    """Return the settings that `arguments` (from `serve` on) name; bad usage exits with status 2 and one line."""
    parser = _parser()
    return _settings(parser.parse_args(arguments), environment, parser)


def _settings(options: argparse.Namespace, environment: Mapping[str, str], parser: argparse.ArgumentParser) -> Settings:
    refuse = parser.error
    _check_paths(options, refuse)
    limits = limit_options.read(options, refuse)
    return Settings(
        host=options.host,
        port=options.port,
        revision=options.revision,
        expected_identity=options.expected_identity,
        pod_directory=options.pod_directory,
        pod_name=environment.get("POD_NAME", ""),
        pod_uid=environment.get("POD_UID", ""),
        log_level=options.log_level,
        limits=limits,
        fetch=fetch_options.read(options),
        engines=_engine_settings(options, limits),
        batch_budget=options.batch_budget,
        cache_bytes=options.cache_bytes,
        redis=cache_options.read(options, environment, refuse),
        evidence_seconds=options.evidence_seconds,
        probe_period_seconds=options.probe_period_seconds,
        max_connections=options.max_connections,
        idle_seconds=options.idle_seconds,
        traces=tracing.asked_for(environment),
    )


def _engine_settings(options: argparse.Namespace, limits: Limits) -> EngineSettings:
    arguments = [f"--model={options.directory}", f"--encoder={options.encoder}"]
    if options.processor is not None:
        arguments.append(f"--processor={options.processor}")
    arguments += [
        "--threads=1",
        f"--device={options.device}",
        f"--dtype={options.dtype}",
        f"--max-pixels={limits.max_pixels}",
        f"--max-clip-pixels={limits.max_request_pixels}",
        f"--max-decoded-pixels={limits.max_decoded_pixels}",
        f"--max-frames={limits.max_frames}",
        f"--max-audio-seconds={limits.max_audio_seconds}",
        f"--max-video-seconds={limits.max_video_seconds}",
    ]
    default = quota.engines_for(quota.cpus()) if options.device == "cpu" else 1
    return EngineSettings(
        count=default if options.engines is None else options.engines,
        arguments=tuple(arguments),
        load_seconds=options.load_seconds,
        grace_seconds=options.grace_seconds,
        backoff_seconds=options.backoff_seconds,
        lost_seconds=options.lost_seconds,
    )


def _check_paths(options: argparse.Namespace, refuse: Callable[[str], object]) -> None:
    directories = {"DIR": options.directory, "--processor": options.processor, "--pod-directory": options.pod_directory}
    for name, path in directories.items():
        if path is not None and not path.is_dir():
            refuse(f"argument {name}: {path} is not a directory")
        if path is not None and not os.access(path, os.R_OK | os.X_OK):
            refuse(f"argument {name}: {path} cannot be read")
    expected = options.expected_identity
    # Absent is no error: the operator writes the file when it has learned what the replica must be.
    if expected is not None and expected.exists() and not (expected.is_file() and os.access(expected, os.R_OK)):
        refuse(f"argument --expected-identity: {expected} is not a file that can be read")


class _Help(argparse.HelpFormatter):
    """Says each option's default behind its help, where it has one and the help does not say it."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        text = action.help
        if not text or not action.option_strings or action.default in (None, False, argparse.SUPPRESS):
            return text
        return f"{text} (default: %(default)s)"


class _Parser(argparse.ArgumentParser):
    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=_Help, **settings)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line; `--help` has the rest."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="encoder-server", description="Serve a multimodal encoder.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {version('encoderpool')}")
    commands = parser.add_subparsers(dest="command", required=True)
    make = commands.add_parser("make-checkpoint", help="write a small random checkpoint")
    make.add_argument("directory", metavar="DIR", type=Path, help="a folder that is empty or not there yet")
    make.add_argument("--seed", type=int, default=0, help="another seed makes other weights")
    make.add_argument("--family", default="qwen2_5_vl", choices=sorted(FAMILIES), help="whose layout it has")
    check_options.add(commands.add_parser("check", help="audit an encoder before it is served"))
    _add_serving(commands.add_parser("serve", help="serve the encoder of a checkpoint directory"))
    return parser


def _add_serving(serve: argparse.ArgumentParser) -> None:
    add = serve.add_argument
    add("directory", metavar="DIR", type=Path, help="the checkpoint")
    add("--processor", type=Path, help="a directory with another processor than the checkpoint's own")
    add("--encoder", default="Auto", help="entry point of the encoder; Auto: by the checkpoint's model type")
    add("--engines", type=_count, help="engine processes (default: by CPU quota; 1 on an accelerator)")
    add("--device", default="cpu", help="as torch names it: cpu, cuda, cuda:1")
    add(
        "--dtype", default="auto", choices=["auto", "float32", "float16", "bfloat16"], help="auto: the checkpoint's own"
    )
    # Reachable from this machine alone unless told otherwise: nobody asks callers who they are.
    add("--host", default="127.0.0.1", help="address to listen on; 0.0.0.0: all")
    add("--port", type=_port, default=8000, help="0: any that is free")
    add("--revision", default="local", help="the pool's revision that this replica belongs to")
    add("--expected-identity", type=Path, help="file that says what this replica must be")
    add("--pod-directory", type=Path, help="downwardAPI volume with the pod's labels and annotations")
    limit_options.add(serve)
    fetch_options.add(serve)
    add("--max-connections", type=_count, default=512, help="connections open at a time")
    # Longer than proxies and clients keep an idle connection: who closes first should be the one who would send next.
    add("--idle-seconds", type=_seconds, default=120.0, help="for a connection to send a whole request head")
    add("--batch-budget", type=_count, help="pixels of one batch of several requests (default: as measured)")
    cache_options.add(serve)
    add("--evidence-seconds", type=_seconds, default=1.0, help="longest without encoding what could be recalled")
    add("--probe-period-seconds", type=_period, default=300.0, help="between golden probes; 0: none")
    add("--load-seconds", type=_seconds, default=1800.0, help="for an engine to load and probe the model")
    add("--grace-seconds", type=_seconds, default=5.0, help="beyond the deadline, before a stuck engine is killed")
    add("--backoff-seconds", type=_seconds, default=1.0, help="before the first restart of an engine")
    add("--lost-seconds", type=_seconds, default=120.0, help="without an engine that serves, before /healthz fails")
    add("--log-level", default="info", choices=["debug", "info", "warning", "error"], help="from which on")
