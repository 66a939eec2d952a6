"""Pod, the cache: what a server is told of the memory and of the Redis that it keeps embeddings in.

Place: part of `pod_template`. Pure. Must never: read a Secret, or put a URL where a process list shows it.
"""

from __future__ import annotations

from typing import Any

from encoder_operator import vocabulary
from encoder_operator.spec import EncoderPool, RedisSpec

JsonObject = dict[str, Any]

_REDIS_VOLUME = "redis"
_REDIS_FILE = "url"
_REDIS_VARIABLE = "ENCODERPOOL_CACHE_REDIS_URL"


def arguments(pool: EncoderPool) -> list[str]:
    """Return the flags for the cache; never a Redis' URL: a process list shows arguments to everybody."""
    cache = pool.spec.cache
    told = []
    if cache.memory_bytes:
        told.append(f"--cache-bytes={cache.memory_bytes}")
    if cache.redis is not None:
        told.append(f"--cache-redis-scope={pool.namespace}/{pool.name}")
        if cache.redis.secret_name is not None:
            told.append(f"--cache-redis-url-file={vocabulary.MOUNT_REDIS}/{_REDIS_FILE}")
    return told


def variable(redis: RedisSpec | None) -> list[JsonObject]:
    """Return the variable that holds a URL with no password in it."""
    return [] if redis is None or redis.url is None else [{"name": _REDIS_VARIABLE, "value": redis.url}]


def volume(redis: RedisSpec | None) -> list[JsonObject]:
    """Return the volume of the Secret that holds the URL."""
    if redis is None or redis.secret_name is None:
        return []
    # Optional: a cache must not keep a replica from starting, and is found when the Secret comes.
    items = [{"key": redis.secret_key, "path": _REDIS_FILE}]
    return [{"name": _REDIS_VOLUME, "secret": {"secretName": redis.secret_name, "items": items, "optional": True}}]
