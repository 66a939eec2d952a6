"""Faults: which one error a request fails with, when items of it failed.

Place: after the check, before the error leaves the pipeline. Pure.
Must never: leave a failed item without an error, or blame the replica for what the caller sent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from encoder_server import errors
from encoder_server.check import Result, Violation
from encoder_server.engine.messages import Failure


@dataclass(frozen=True, slots=True, kw_only=True)
class Bearings:
    """What is named beside a failed item: the request, and the revisions that may disagree (digests)."""

    request_id: str
    model_revision: str
    processor_revision: str


_BY_RESULT: dict[Result, type[errors.CheckFailedError]] = {
    Result.COUNT: errors.TokenMismatchError,
    Result.WIDTH: errors.WidthMismatchError,
    Result.DTYPE: errors.DtypeMismatchError,
    Result.NONFINITE: errors.NonfiniteError,
    Result.LAYOUT: errors.LayoutError,
}


def blame(
    failures: Sequence[Failure], violations: Sequence[Violation], bearings: Bearings
) -> errors.EncoderServerError | None:
    """Return the error for a request with these failed items, or None where there are none.

    The caller's own faults come first: a retry elsewhere, which a 502 invites, would meet them again.
    """
    bad = [failure for failure in failures if failure.code == "bad_media"]
    drifted = [failure for failure in failures if failure.code == "promise_mismatch"]
    if bad:
        return errors.BadMediaError(_detail(bad), _culprits(bad, bearings))
    if drifted:
        return errors.PromiseMismatchError(_detail(drifted), _culprits(drifted, bearings))
    if violations:
        kind = _BY_RESULT[violations[0].result]
        more = f"; {len(violations)} items failed" if len(violations) > 1 else ""
        return kind(violations[0].message + more, _culprits(violations, bearings))
    others = [failure for failure in failures if failure.code != "layout"]
    return errors.InternalError(_detail(others), _culprits(others, bearings)) if others else None


def _detail(failures: Sequence[Failure]) -> str:
    first = min(failures, key=lambda failure: failure.index)
    frame = "" if first.frame is None else f".frames[{first.frame}]"
    return f"items[{first.index}]{frame}: {first.detail}"


def _culprits(found: Sequence[Failure | Violation], bearings: Bearings) -> tuple[errors.Culprit, ...]:
    return tuple(
        errors.Culprit(
            index=item.index,
            modality=item.modality,
            grid=item.grid,
            promised=item.promised,
            produced=item.produced if isinstance(item, Violation) else None,
            model_revision=bearings.model_revision,
            processor_revision=bearings.processor_revision,
        )
        for item in sorted(found, key=lambda item: item.index)
    )
