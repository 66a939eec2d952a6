"""Errors: one tree, and the one place that says what each class means to its handler.

    OperatorError
    ├── InvalidSpecError       the spec cannot be honoured: names the field, says what to do
    ├── ForeignObjectError     a child's name is taken by an object of somebody else
    └── ClusterError           the API server did not do what was asked
        ├── RejectedError      400, 405, 413, 415, 422: it will not take this object
        ├── ForbiddenError     401, 403: the operator's rights do not reach, or a quota is used up
        ├── ConflictError      409: the object changed, or is another of the same name
        ├── EvictionBlockedError  403, 429, 500 to an eviction: a disruption budget is in the way, or rights are
        ├── GoneError          410: a watch or a page starts too far back
        ├── ThrottledError     429: asked to wait
        └── UnavailableError   5xx, no answer in time, no connection

404 is no error here: it is an absent object (None) or a deletion already done.

Place: raised by spec, apply and cluster; mapped by reconcile and handlers through the class attributes below:
`reason` goes into the pool's condition (None: nothing to tell the pool's user), `retryable` says whether
looking again soon can help (else only a changed object does), `metric_label` is the metrics' label.
Must never: carry an object's data other than names, or import what raises them.
"""

from __future__ import annotations

from typing import ClassVar

from encoder_operator import vocabulary


class OperatorError(Exception):
    """Everything that this program raises on purpose."""

    reason: ClassVar[str | None] = None
    retryable: ClassVar[bool] = True


class InvalidSpecError(OperatorError):
    """A spec that cannot be honoured; `path` names the field."""

    reason = vocabulary.INVALID_SPEC
    retryable = False

    def __init__(self, path: str, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = path
        self.message = message


class ForeignObjectError(OperatorError):
    """A wanted object's name is taken by one that is not this pool's. It is left alone."""

    reason = vocabulary.INVALID_SPEC

    def __init__(self, kind: str, namespace: str, name: str) -> None:
        super().__init__(
            f"{kind} {namespace}/{name} exists and does not belong to this pool: "
            f"delete it, or give the pool another name"
        )
        self.kind = kind
        self.namespace = namespace
        self.name = name


class ClusterError(OperatorError):
    """The API server did not do what was asked; `status` is the HTTP status, 0 where there was no answer."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class RejectedError(ClusterError):
    """The API server will not take this object, now or later."""

    reason = vocabulary.INVALID_SPEC
    retryable = False


class ForbiddenError(ClusterError):
    """The operator's own rights do not reach, or a quota is used up."""

    reason = vocabulary.DEADLINE_EXCEEDED


class ConflictError(ClusterError):
    """The object changed meanwhile, or is another one of the same name."""


class EvictionBlockedError(ClusterError):
    """The pod may not be evicted now: a PodDisruptionBudget forbids it, more than one covers it, or rights lack."""


class GoneError(ClusterError):
    """A watch or a page starts further back than the API server remembers: list again."""


class ThrottledError(ClusterError):
    """Asked to wait `retry_after` seconds."""

    def __init__(self, status: int, message: str, retry_after: float) -> None:
        super().__init__(status, message)
        self.retry_after = retry_after


class UnavailableError(ClusterError):
    """No answer, or none in time, or a fault of the API server's own."""


def metric_label(error: BaseException) -> str:
    """The label under which metrics count this error: a closed set, whatever a library raises."""
    return type(error).__name__ if isinstance(error, OperatorError) else "Unexpected"
