"""The replica's state, as a pure function of the facts: one ordered table.

Place: asked by `replica` whenever a fact changes; drives /readyz, the gate of admission and encoder_ready.
Must never: hold state, read a clock or a file.

    STARTING → WARMING → HELD → READY → CORDONED / DRAINING / FAILED
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from encoder_server import errors
from encoder_server.identity import Verdict


class State(StrEnum):
    """Where a replica stands; READY alone serves."""

    STARTING = "STARTING"
    WARMING = "WARMING"
    HELD = "HELD"
    READY = "READY"
    CORDONED = "CORDONED"
    DRAINING = "DRAINING"
    FAILED = "FAILED"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Why no engine serves: reason LoadFailed (never loaded) or EngineLost (was there, and is gone)."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that decides the state. `verdict` is None until the identity was compared; `draining` says why."""

    draining: str | None
    engine_ready: bool
    fault: Fault | None
    cordoned: bool
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A state with its reason (of the contract's closed set) and a sentence for people."""

    state: State
    reason: str
    message: str


def stand(facts: Facts) -> Standing:
    """Return where a replica with these facts stands; the first line of the table that applies wins.

    A missing engine comes before the cordon, because a cordoned replica that restarted must still show
    when it has loaded; the cordon comes before held, because it stays whatever a probe finds.
    """
    verdict = facts.verdict
    if facts.draining is not None:
        return Standing(state=State.DRAINING, reason="Draining", message=facts.draining)
    if not facts.engine_ready and facts.fault is not None:
        return Standing(state=State.FAILED, reason=facts.fault.reason, message=facts.fault.message)
    if not facts.engine_ready:
        return Standing(state=State.STARTING, reason="Loading", message="an engine is loading the model")
    if facts.cordoned:
        return Standing(state=State.CORDONED, reason="Cordoned", message="label encoderpool.io/serving is false")
    if verdict is None:
        return Standing(
            state=State.WARMING, reason="Probing", message="the identity is not compared with what it must be yet"
        )
    state = State.READY if verdict.admitted else State.HELD
    return Standing(state=state, reason=verdict.reason, message=verdict.message)


_REFUSALS: dict[State, type[errors.UnavailableError]] = {
    State.STARTING: errors.StartingError,
    State.WARMING: errors.StartingError,
    State.HELD: errors.HeldError,
    State.CORDONED: errors.CordonedError,
    State.DRAINING: errors.DrainingError,
    State.FAILED: errors.EngineLostError,
}


def refusal(standing: Standing) -> errors.UnavailableError | None:
    """Return the error that a request meets in this state, or None where it is served."""
    kind = _REFUSALS.get(standing.state)
    return None if kind is None else kind(f"this replica does not serve: {standing.reason}: {standing.message}")
