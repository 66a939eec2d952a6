"""Every way in which a request can fail, with its code, status and log level: the one error table.

Place: raised by every stage, turned into an answer by `answering` alone. Must never: carry a library's text, a
payload, a path or a traceback, because all of it reaches the caller.

    EncoderServerError
    ├── CallerError                     the request itself is at fault: never evidence against the replica
    │   ├── BadRequestError             400 bad_request
    │   ├── BadMediaError               400 bad_media
    │   ├── LimitExceededError          400 limit_exceeded
    │   ├── UnsupportedModalityError    400 unsupported_modality
    │   ├── NotAcceptableError          406 not_acceptable
    │   ├── NotFoundError               404 not_found
    │   ├── MethodNotAllowedError       405 method_not_allowed
    │   ├── RequestTimeoutError         408 request_timeout
    │   └── PromiseMismatchError        422 promise_mismatch
    ├── CheckFailedError                the encoder did not produce what was promised
    │   ├── TokenMismatchError          502 token_mismatch
    │   ├── WidthMismatchError          502 width_mismatch
    │   ├── DtypeMismatchError          502 dtype_mismatch
    │   ├── NonfiniteError              502 nonfinite
    │   └── LayoutError                 502 layout
    ├── UnavailableError                not now, or not here: retry
    │   ├── OverloadedError             429 overloaded
    │   │   └── CrowdedError            429 overloaded: too many connections; this one closes
    │   ├── EngineLostError             503 engine_lost
    │   ├── PromiseTimeoutError         504 promise_timeout
    │   └── RefusedError                the replica's state refuses: the connection closes too
    │       ├── StartingError           503 starting
    │       ├── HeldError               503 held
    │       ├── CordonedError           503 cordoned
    │       └── DrainingError           503 draining
    └── InternalError                   500 internal
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """One item that made a request fail, and what is known of why (digests are hex; None: nothing, or none here)."""

    index: int
    modality: str | None
    grid: tuple[int, ...] | None = None
    promised: int | None = None
    produced: int | None = None
    model_revision: str | None = None
    processor_revision: str | None = None


class EncoderServerError(Exception):
    """A failed request. `message` is our own text; `items` are the culprits, where there are any.

    `retry_after` is in seconds; `closes` says that the connection must not be used again.
    """

    code: ClassVar[str] = "internal"
    status: ClassVar[int] = 500
    level: ClassVar[int] = logging.ERROR
    retry_after: ClassVar[int | None] = None
    closes: ClassVar[bool] = False

    def __init__(self, message: str, items: tuple[Culprit, ...] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.items = items


class CallerError(EncoderServerError):
    """The request is at fault."""

    status = 400
    level = logging.INFO

    def of_item(self, index: int, modality: str | None = None) -> Self:
        """Name the item that the message is about."""
        self.items = (Culprit(index=index, modality=modality),)
        return self


class BadRequestError(CallerError):
    """The body is not a request; the message names the field."""

    code = "bad_request"


class BadMediaError(CallerError):
    """An item's medium cannot be read; the message names the item."""

    code = "bad_media"


class LimitExceededError(CallerError):
    """The request is larger than this server accepts; the message names the item and the limit."""

    code = "limit_exceeded"


class UnsupportedModalityError(CallerError):
    """The encoder has no such modality."""

    code = "unsupported_modality"


class NotAcceptableError(CallerError):
    """None of the media types in Accept can be produced."""

    code = "not_acceptable"
    status = 406


class NotFoundError(CallerError):
    """No such path."""

    code = "not_found"
    status = 404


class MethodNotAllowedError(CallerError):
    """The path exists, but not with this method."""

    code = "method_not_allowed"
    status = 405


class RequestTimeoutError(CallerError):
    """The request's body did not come in time."""

    code = "request_timeout"
    status = 408
    closes = True


class PromiseMismatchError(CallerError):
    """The caller's own expected_tokens differs from the promise."""

    code = "promise_mismatch"
    status = 422


class CheckFailedError(EncoderServerError):
    """What was encoded is not what was promised or declared."""

    status = 502


class TokenMismatchError(CheckFailedError):
    """Rows differ from the promise."""

    code = "token_mismatch"


class WidthMismatchError(CheckFailedError):
    """Rows are wider or narrower than declared."""

    code = "width_mismatch"


class DtypeMismatchError(CheckFailedError):
    """The rows' dtype is not the declared one."""

    code = "dtype_mismatch"


class NonfiniteError(CheckFailedError):
    """A value is NaN or infinite."""

    code = "nonfinite"


class LayoutError(CheckFailedError):
    """Processor and model disagree about shapes or positions."""

    code = "layout"


class UnavailableError(EncoderServerError):
    """The request is fine, but is not served now, or not here."""

    status = 503
    level = logging.WARNING
    retry_after: ClassVar[int | None] = 1


class OverloadedError(UnavailableError):
    """Every permit is taken."""

    code = "overloaded"
    status = 429
    level = logging.INFO


class CrowdedError(OverloadedError):
    """More connections are open than are served; another request of this client may find its connection open."""

    closes = True


class EngineLostError(UnavailableError):
    """No engine survived to encode the request."""

    code = "engine_lost"


class PromiseTimeoutError(UnavailableError):
    """The deadline passed before the promise, or the rows, were ready."""

    code = "promise_timeout"
    status = 504
    retry_after = None


class RefusedError(UnavailableError):
    """The replica's state refuses requests."""

    level = logging.INFO
    closes = True


class StartingError(RefusedError):
    """No engine has loaded and probed the model yet."""

    code = "starting"


class HeldError(RefusedError):
    """The replica's identity is not admitted."""

    code = "held"


class CordonedError(RefusedError):
    """The replica is taken out of its Service."""

    code = "cordoned"


class DrainingError(RefusedError):
    """The replica is leaving."""

    code = "draining"


class InternalError(EncoderServerError):
    """A fault of ours; the log has more."""
