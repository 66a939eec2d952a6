"""The spec's cache: what replicas keep of what they encoded, and where they share it; values and reading.

Place: part of spec. Must never: hold a password (a Secret is named, and never read), or guess a value that the schema
did not default.
"""

from __future__ import annotations

from dataclasses import dataclass

from encoder_operator.fields import Fields

_URL = r"rediss?://([A-Za-z0-9.-]+|\[[0-9A-Fa-f:]+\])(:[0-9]{1,5})?(/[0-9]{1,3})?"
_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_KEY = r"[-._A-Za-z0-9]{1,253}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RedisSpec:
    """spec.cache.redis: a URL without a password, or the Secret and its key that hold a URL."""

    url: str | None
    secret_name: str | None
    secret_key: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CacheSpec:
    """spec.cache: bytes of embeddings that each replica keeps in memory (0: none), and the Redis that all share."""

    memory_bytes: int
    redis: RedisSpec | None


def parse_cache(cache: Fields) -> CacheSpec:
    """The cache that `spec.cache` says."""
    redis = _redis(cache, cache.object("redis")) if cache.has("redis") else None
    return CacheSpec(memory_bytes=cache.byte_count("memory"), redis=redis)


def _redis(cache: Fields, redis: Fields) -> RedisSpec:
    if redis.has("url") == redis.has("secretRef"):
        raise cache.error("redis", "must have exactly one of url and secretRef")
    if redis.has("secretRef"):
        secret = redis.object("secretRef")
        name = secret.text("name", _NAME, "a Secret's name")
        return RedisSpec(url=None, secret_name=name, secret_key=secret.text("key", _KEY, "a key of the Secret"))
    if "@" in redis.text("url"):
        raise redis.error("url", "must name no user and no password: put the URL into a Secret and use secretRef")
    url = redis.text("url", _URL, "redis://HOST:PORT/DB or rediss://HOST:PORT/DB")
    return RedisSpec(url=url, secret_name=None, secret_key=None)
