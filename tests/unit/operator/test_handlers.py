"""Handlers: kopf wakes pools and writes nothing of its own."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, cast

import kopf

from encoder_operator.handlers import configure, register
from encoder_operator.operation import Operation
from encoder_operator.settings import Settings


class Wakes(Operation):
    """An operation that only remembers whom it was to wake."""

    def __init__(self) -> None:
        super().__init__(Settings.from_environment({}), lambda: None)
        self.woken: list[str] = []

    def wake(self, namespace: str, name: str) -> None:
        self.woken.append(f"{namespace}/{name}")


async def happened(registry: kopf.OperatorRegistry, kind: str | None, **meta: Any) -> None:
    (handler,) = registry._watching.get_all_handlers()
    happens = cast(Callable[..., Awaitable[None]], handler.fn)
    await happens(type=kind, namespace="models", name="vision", meta=meta)


async def test_a_status_of_our_own_wakes_nobody() -> None:
    operation = Wakes()
    registry = register(operation)
    await happened(registry, None, generation=1)
    await happened(registry, "MODIFIED", generation=1)
    assert operation.woken == ["models/vision"]
    await happened(registry, "MODIFIED", generation=2)
    await happened(registry, "MODIFIED", generation=2, deletionTimestamp="2026-11-30T12:00:00Z")
    await happened(registry, "DELETED", generation=2)
    await happened(registry, "ADDED", generation=2)
    assert len(operation.woken) == 5


def test_kopf_has_no_handler_that_needs_a_finalizer_or_an_annotation() -> None:
    registry = register(Wakes())
    assert not registry._changing.get_all_handlers()
    assert not registry._spawning.get_all_handlers()
    assert not registry._indexing.get_all_handlers()


def test_every_wait_of_kopf_has_a_limit() -> None:
    settings = kopf.OperatorSettings()
    configure(settings)
    assert settings.networking.request_timeout == 30.0
    assert isinstance(settings.watching.server_timeout, int), "the API server refuses a decimal point"
    assert settings.watching.client_timeout is not None
    assert settings.watching.client_timeout > settings.watching.server_timeout
    assert settings.peering.standalone
    assert settings.scanning.disabled
    assert not settings.posting.enabled
