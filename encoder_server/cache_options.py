"""The command line's part about the cache, and the URL of a shared one.

Place: read by `cli`. Must never: show a URL, or take one as an argument: it may hold a password, and a process list
shows arguments to everybody.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from encoder_server.argument_types import byte_count, count, seconds
from encoder_server.settings import RedisSettings

URL_VARIABLE = "ENCODERPOOL_CACHE_REDIS_URL"
_URL = re.compile(r"(rediss?|unix)://\S+")
_SCOPE = re.compile(r"[A-Za-z0-9._/-]{1,200}")


def add(parser: argparse.ArgumentParser) -> None:
    """Add the options about the cache to `parser`."""
    option = parser.add_argument
    option("--cache-bytes", type=byte_count, default=0, help="bytes of embeddings kept in memory; 0: none")
    option(
        "--cache-redis-url-file",
        type=Path,
        help=f"file with the URL of a Redis that replicas share, read anew at each connect (or: {URL_VARIABLE})",
    )
    option("--cache-redis-scope", type=_scope, default="local", help="what all keys there begin with: a pool's own")
    option("--cache-redis-timeout-seconds", type=seconds, default=0.05, help="longest wait of a request for it")
    option("--cache-redis-ttl-seconds", type=_life, default=86400.0, help="how long an entry lives there")
    option("--cache-redis-max-entry-bytes", type=count, default=4 * 2**20, help="larger ones are not shared")


def read(
    options: argparse.Namespace, environment: Mapping[str, str], refuse: Callable[[str], object]
) -> RedisSettings | None:
    """Return the shared cache that is asked for, if any; calls `refuse` with one line that shows no URL."""
    file, url = options.cache_redis_url_file, environment.get(URL_VARIABLE) or None
    if file is None and url is None:
        return None
    if file is not None and url is not None:
        refuse(f"argument --cache-redis-url-file: the environment has {URL_VARIABLE} too; only one of them")
    # Whether it is there, and what is in it, may change, and is judged at each connect: a cache must not keep a server
    # from starting.
    if file is not None and file.exists() and not (file.is_file() and os.access(file, os.R_OK)):
        refuse(f"argument --cache-redis-url-file: {file} is not a file that can be read")
    if url is not None and not _URL.fullmatch(url):
        refuse(f"environment variable {URL_VARIABLE}: it is no redis://, rediss:// or unix:// URL")
    return RedisSettings(
        url=url,
        url_file=file,
        scope=options.cache_redis_scope,
        timeout_seconds=options.cache_redis_timeout_seconds,
        ttl_seconds=options.cache_redis_ttl_seconds,
        most_entry_bytes=options.cache_redis_max_entry_bytes,
    )


def _scope(text: str) -> str:
    if not _SCOPE.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 to 200 letters, digits or ._/-")
    return text


def _life(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0.001 <= value <= 10**8:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds from 0.001 to 100000000")
    return value
