"""The replica's state, as a pure function of the facts: one ordered table.

Place: asked by `replica` whenever a fact changes; drives /readyz, the gate of admission and encoder_ready.
Must never: hold state, read a clock or a file.

    STARTING → WARMING → HELD → READY → CORDONED / DRAINING / FAILED

The first row of TABLE that applies wins, and its order is the precedence:

| state | when | reason |
|---|---|---|
| DRAINING | the server leaves; nothing changes that any more | Draining |
| FAILED | no engine serves, and the last one's end is known | EngineLost, LoadFailed |
| WARMING | no engine serves yet; one has its model, and tries it | WarmingUp, Probing, Measuring |
| STARTING | no engine serves yet | Loading |
| CORDONED | the label says so; whatever a probe finds | Cordoned |
| WARMING | an engine serves; its identity was not compared yet | Probing |
| HELD | the probe failed, or the identity is not, or not yet, the expected one | the verdict's |
| READY | otherwise | AsExpected |

A missing engine comes before the cordon, because a cordoned replica that restarted must still show when it has loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from encoder_server import errors
from encoder_server.engine.asides import Stage
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
    """All that decides the state. `verdict` is None until the identity was compared; `draining` says why; `stage` is
    how far the start of an engine has come, None where nothing was heard of one."""

    draining: str | None
    engine_ready: bool
    stage: Stage | None
    fault: Fault | None
    cordoned: bool
    verdict: Verdict | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A state with its reason (of the contract's closed set) and a sentence for people."""

    state: State
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A line of the table: in which state a replica is whose facts it applies to, with reason and message."""

    state: State
    applies: Callable[[Facts], bool]
    says: Callable[[Facts], tuple[str, str]]


_WARMING: dict[Stage | None, tuple[str, str]] = {
    "warming": ("WarmingUp", "an engine runs the model for the first time"),
    "probing": ("Probing", "an engine runs the golden probe"),
    "measuring": ("Measuring", "an engine measures up to which cost a batch pays off"),
}
_LOADING: dict[Stage | None, str] = {
    "starting": "an engine loads its libraries",
    "loading": "an engine reads the weights",
    "building": "an engine builds the model",
}
_NOT_COMPARED = "the identity is not compared with what it must be yet"


def _of_fault(facts: Facts) -> tuple[str, str]:
    return ("EngineLost", "") if facts.fault is None else (facts.fault.reason, facts.fault.message)


def _of_verdict(facts: Facts) -> tuple[str, str]:
    return ("Probing", _NOT_COMPARED) if facts.verdict is None else (facts.verdict.reason, facts.verdict.message)


TABLE = (
    Row(
        state=State.DRAINING,
        applies=lambda facts: facts.draining is not None,
        says=lambda facts: ("Draining", facts.draining or ""),
    ),
    Row(
        state=State.FAILED,
        applies=lambda facts: not facts.engine_ready and facts.fault is not None,
        says=_of_fault,
    ),
    Row(
        state=State.WARMING,
        applies=lambda facts: not facts.engine_ready and facts.stage in _WARMING,
        says=lambda facts: _WARMING[facts.stage],
    ),
    Row(
        state=State.STARTING,
        applies=lambda facts: not facts.engine_ready,
        says=lambda facts: ("Loading", _LOADING.get(facts.stage, "an engine is loading the model")),
    ),
    Row(
        state=State.CORDONED,
        applies=lambda facts: facts.cordoned,
        says=lambda _: ("Cordoned", "label encoderpool.io/serving is false"),
    ),
    Row(state=State.WARMING, applies=lambda facts: facts.verdict is None, says=_of_verdict),
    Row(
        state=State.HELD,
        applies=lambda facts: facts.verdict is not None and not facts.verdict.admitted,
        says=_of_verdict,
    ),
    Row(state=State.READY, applies=lambda _: True, says=_of_verdict),
)


def stand(facts: Facts) -> Standing:
    """Return where a replica with these facts stands."""
    row = next(row for row in TABLE if row.applies(facts))
    reason, message = row.says(facts)
    return Standing(state=row.state, reason=reason, message=message)


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
