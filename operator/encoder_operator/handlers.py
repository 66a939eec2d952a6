"""Handlers: kopf's part. Its events wake pools; everything else is the operator's own.

Place: __main__ has them registered and runs kopf. Must never: register create or update handlers, timers or
daemons (they write annotations and finalizers), or watch pods through kopf (it has no selectors).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import kopf

from encoder_operator import vocabulary
from encoder_operator.operation import Operation


class _EndlessBackoff:
    """Delays between tries of one API request: for ever, since giving up would end the watch for good."""

    def __iter__(self) -> Iterator[float]:
        delay = 1.0
        while True:
            yield delay * random.uniform(0.5, 1.5)  # noqa: S311 - spreads load, guards nothing
            delay = min(delay * 2, 30.0)


def register(operation: Operation) -> kopf.OperatorRegistry:
    """A registry with this operator's few handlers."""
    registry = kopf.OperatorRegistry()
    generations: dict[tuple[str, str], int] = {}

    @kopf.on.login(registry=registry)
    def login(**kwargs: Any) -> kopf.ConnectionInfo | None:
        # The client takes the API server's address from the pod's environment: it needs no DNS.
        return kopf.login_via_client(**kwargs)

    # Where the start fails the process ends, and Kubernetes starts another: kopf would try again on half of it.
    @kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)
    async def startup(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure(settings)
        await operation.start()

    @kopf.on.cleanup(registry=registry)
    async def cleanup(**_: Any) -> None:
        await operation.stop()

    @kopf.on.event(vocabulary.GROUP, vocabulary.VERSION, vocabulary.PLURAL, registry=registry)
    async def changed(type: str | None, namespace: str | None, name: str, meta: kopf.Meta, **_: Any) -> None:  # noqa: A002
        if namespace is None:
            return
        generation = int(meta.get("generation", 0))
        leaving = type == "DELETED" or meta.get("deletionTimestamp") is not None
        # Our own status changes the object but not its generation: that is no news.
        if leaving or generations.get((namespace, name)) != generation:
            operation.wake(namespace, name)
        generations[(namespace, name)] = generation
        if type == "DELETED":
            del generations[(namespace, name)]

    return registry


def configure(settings: kopf.OperatorSettings) -> None:
    """kopf's settings: limits on every wait, and nothing written by kopf itself."""
    settings.networking.request_timeout = 30.0
    settings.networking.connect_timeout = 10.0
    settings.networking.error_backoffs = _EndlessBackoff()
    settings.networking.enforce_retry_after = True
    # A whole number: the API server refuses a watch whose timeout has a decimal point.
    settings.watching.server_timeout = 300
    settings.watching.client_timeout = 330.0
    settings.watching.connect_timeout = 10.0
    settings.watching.inactivity_timeout = 70.0
    settings.watching.reconnect_backoff = 1.0
    settings.scanning.disabled = True
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.execution.max_workers = 2
