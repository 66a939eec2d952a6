"""Repair: which running engine is to be ended and started anew.

Place: asked by `replica` when an engine has answered a probe; the engine that is started in its place loads everything
again, and is refused where that measures another identity. Pure. Must never: have an engine started anew for what it
measured at its start, or for sizes that somebody named: another one would do the same.
"""

from __future__ import annotations

from collections.abc import Collection

from encoder_server import identity
from encoder_server.engine.messages import Measured, Probed

_ALONE = identity.Reference(named=False)


def strayed(measured: Measured, probed: Probed) -> str | None:
    """Say in what a running engine is no longer what this server measured at its start; None where it still is."""
    if not identity.judge(measured, identity.begin(measured), _ALONE).admitted:
        return None
    _, golden = identity.gather(measured, [probed])
    verdict = identity.judge(measured, golden, _ALONE)
    return None if verdict.admitted else f"{verdict.reason}: {verdict.message}"


class Showings:
    """What each engine that serves showed when it was probed last."""

    def __init__(self) -> None:
        self._by_engine: dict[int, Probed] = {}

    def begin(self, engine: int, measured: Measured) -> None:
        """Take in an engine that came up."""
        self._by_engine[engine] = Probed(batch=0, items=measured.probe, signature=measured.signature)

    def add(self, engine: int, probed: Probed) -> None:
        """Take in what an engine answered."""
        self._by_engine[engine] = probed

    def keep(self, engines: Collection[int]) -> None:
        """Forget the others: of an engine that is gone, nothing is true any more."""
        self._by_engine = {engine: probed for engine, probed in self._by_engine.items() if engine in engines}

    def golden(self, measured: Measured | None) -> identity.Golden | None:
        """Return the golden probe as it fared worst, or as it was measured first where no engine serves."""
        if measured is None or not self._by_engine:
            return None if measured is None else identity.begin(measured)
        return identity.gather(measured, list(self._by_engine.values()))[1]
