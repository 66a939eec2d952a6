"""Failures: every way in which a call can fail, as one tree, made from the server's error bodies.

Place: raised by the client alone. Pure. Must never: hold a payload.

    EncoderPoolError
    ├── CallerError                400, 404, 405, 406, 408, 422: the request itself is at fault
    │   └── PromiseMismatchError   422: expected_tokens is not what the processor makes
    ├── CheckFailedError           502: rows were not what was promised; `items` says which     tried again
    ├── UnavailableError           not now, or not there: 503 (tried again), 504 (not)
    │   └── OverloadedError        429                                                          tried again
    ├── ServerFaultError           500 and all else
    ├── ConnectionFailedError      no answer, or only a part of one        tried again before an answer has begun
    ├── DeadlineError              the call's own deadline passed
    └── InvalidAnswerError         the answer is not what was asked for, or contradicts its promise

Tried again are 429, 502 and 503, over a new connection: through a Service that is likely another replica. A 504 is not:
its deadline is spent, and so, likely, is its caller's; nor is a 500: the same bytes would meet the same fault.
"""

from __future__ import annotations

import pydantic

from encoder_server.answers import Culprit, ErrorAnswer

_AGAIN = (429, 502, 503)
# Of an error's body, and of one that says what a server is. Any server's own are far below it.
MOST_JSON_BYTES = 2**18


class EncoderPoolError(Exception):
    """A call that failed. `code` is the server's, or the client's own word; `status` None: there was no answer.

    `request_id` stands in the server's log, `tries` says how often it was tried, `retry_after` is in seconds.
    """

    again = False

    def __init__(
        self,
        message: str,
        *,
        code: str,
        request_id: str,
        status: int | None = None,
        items: tuple[Culprit, ...] = (),
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.request_id = request_id
        self.status = status
        self.items = items
        self.retry_after = retry_after
        self.tries = 1
        if status is not None:
            self.again = status in _AGAIN

    def __str__(self) -> str:
        return f"{self.code}: {self.message} (request {self.request_id}, tries: {self.tries})"


class CallerError(EncoderPoolError):
    """The request is at fault; the message names field or item and limit."""


class PromiseMismatchError(CallerError):
    """An item's expected_tokens differs from its promise."""


class CheckFailedError(EncoderPoolError):
    """The encoder did not produce what was promised, at every try."""


class UnavailableError(EncoderPoolError):
    """The request is fine, but is not served now, or not there."""


class OverloadedError(UnavailableError):
    """Every place is taken."""


class ServerFaultError(EncoderPoolError):
    """A fault of the server's."""


class ConnectionFailedError(EncoderPoolError):
    """No answer came, or not all of it."""

    def __init__(self, message: str, *, request_id: str, begun: bool) -> None:
        super().__init__(message, code="connection_failed", request_id=request_id)
        self.again = not begun


class DeadlineError(EncoderPoolError):
    """The call's deadline passed."""

    def __init__(self, message: str, *, request_id: str) -> None:
        super().__init__(message, code="deadline", request_id=request_id)


class InvalidAnswerError(EncoderPoolError):
    """What came is not an answer to what was asked."""

    def __init__(self, message: str, *, request_id: str) -> None:
        super().__init__(message, code="invalid_answer", request_id=request_id)


def from_answer(status: int, body: bytes, request_id: str, retry_after: float | None = None) -> EncoderPoolError:
    """Return the error that an answer tells of; one that is not the server's own, but a proxy's, is told by status."""
    try:
        told = ErrorAnswer.model_validate_json(body if len(body) <= MOST_JSON_BYTES else b"").error
    except pydantic.ValidationError:
        code = f"http_{status}"
        return _kind(status, code)(
            f"an answer with status {status}", code=code, request_id=request_id, status=status, retry_after=retry_after
        )
    return _kind(status, told.code)(
        told.message,
        code=told.code,
        request_id=told.request_id,
        status=status,
        items=told.items,
        retry_after=retry_after,
    )


def _kind(status: int, code: str) -> type[EncoderPoolError]:
    if status == 422:
        return PromiseMismatchError
    if status == 429:
        return OverloadedError
    if 400 <= status < 500:
        return CallerError
    if status == 502:
        # A proxy's own 502 says that it reached nobody.
        return UnavailableError if code.startswith("http_") else CheckFailedError
    return UnavailableError if status in (503, 504) else ServerFaultError
