"""Calls: what both clients do alike: options, one call's request, and httpx's errors in this package's words.

Place: between the two clients and the pure modules. Must never: do input or output.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Generic, TypeVar

import httpx
import pydantic

from encoder_server import ids
from encoder_server.answers import Promises
from encoder_server.client import failures
from encoder_server.client.bodies import Body, fill
from encoder_server.client.media import Item
from encoder_server.client.reading import MULTIPART, SAFETENSORS, Reading
from encoder_server.client.retries import Retries, retry_after

M = TypeVar("M", bound=pydantic.BaseModel)
ENCODE = "/v1/encode"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """A client's settings: seconds for a whole call with all its tries, and for a connection; bytes of an answer."""

    url: str
    deadline_seconds: float
    connect_seconds: float
    retries: Retries
    headers: Mapping[str, str]
    most_answer_bytes: int

    @property
    def cookies(self) -> CookieJar:
        """A jar that stays empty: what one replica gives must not grow here, nor bind a caller to it."""
        return CookieJar(DefaultCookiePolicy(allowed_domains=()))

    def at(self, path: str) -> str:
        """Return the address of an endpoint."""
        return self.url.rstrip("/") + path

    def timeout(self, left: float) -> httpx.Timeout:
        """Return the limits of one try with so many seconds left: of each step, for httpx has none of the whole."""
        return httpx.Timeout(left, connect=min(left, self.connect_seconds))


@dataclass(slots=True)
class Call:
    """One call with all its tries: `begun` says whether the answer to the last one had begun."""

    request_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    tries: int = 0
    begun: bool = False

    def __post_init__(self) -> None:
        if not ids.SAFE.fullmatch(self.request_id):
            raise ValueError("request_id must be 1 to 128 of A-Z a-z 0-9 . _ -")

    @property
    def headers(self) -> dict[str, str]:
        """What every request of this call says."""
        return {"X-Request-Id": self.request_id, "Accept-Encoding": "identity"}

    def out_of_time(self) -> failures.DeadlineError:
        """Return the error of a call whose deadline passed."""
        return failures.DeadlineError("the call's deadline passed", request_id=self.request_id)

    @contextmanager
    def told(self) -> Iterator[None]:
        """Have httpx's errors raised as this package's."""
        self.begun = False
        try:
            yield
        except httpx.ConnectTimeout as error:
            raise self._unconnected(error) from error
        except httpx.TimeoutException as error:
            raise self.out_of_time() from error
        except httpx.RequestError as error:
            raise self._unconnected(error) from error

    def _unconnected(self, error: httpx.RequestError) -> failures.ConnectionFailedError:
        text = f"{'the answer broke off' if self.begun else 'no answer came'} ({type(error).__name__})"
        return failures.ConnectionFailedError(text, request_id=self.request_id, begun=self.begun)


class EncodeCall:
    """A call of encode: its body, made once, and its promises, which do not change between tries."""

    def __init__(self, items: Sequence[Item], call: Call, *, promises: bool, most_bytes: int) -> None:
        if not items:
            raise ValueError("items must not be empty")
        self._items = tuple(items)
        self._call = call
        self._most_bytes = most_bytes
        self._accept = MULTIPART if promises else SAFETENSORS
        self.body: Body = fill(items, uuid.uuid4().hex)
        self.promised: Promises | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The request's own."""
        length = str(self.body.length)
        about = {"Accept": self._accept, "Content-Type": self.body.content_type, "Content-Length": length}
        return self._call.headers | about

    def reading(self, response: httpx.Response) -> Reading:
        """Return what reads this answer."""
        self._call.begun = True
        return Reading(
            response.status_code,
            response.headers,
            self._items,
            request_id=self._call.request_id,
            accept=self._accept,
            promised=self.promised,
            most_bytes=self._most_bytes,
        )


class Document(Generic[M]):
    """Takes the pieces of an answer that is to have one of `statuses` and be a `model`."""

    def __init__(self, response: httpx.Response, call: Call, model: type[M], statuses: tuple[int, ...]) -> None:
        self._response = response
        self._call = call
        self._model = model
        self._statuses = statuses
        self._held = bytearray()

    def feed(self, piece: bytes) -> None:
        """Take a piece; raises EncoderPoolError."""
        self._held += piece
        if len(self._held) > failures.MOST_JSON_BYTES:
            raise self._unfit()

    def finish(self) -> M:
        """Return what an answer says that has come whole; raises EncoderPoolError."""
        if self._response.status_code not in self._statuses:
            raise self._unfit()
        try:
            return self._model.model_validate_json(bytes(self._held))
        except pydantic.ValidationError:
            raise self._unfit() from None

    def _unfit(self) -> failures.EncoderPoolError:
        status, request_id = self._response.status_code, self._call.request_id
        if status in self._statuses:
            return failures.InvalidAnswerError(f"the answer is no {self._model.__name__}", request_id=request_id)
        return failures.from_answer(status, bytes(self._held), request_id, retry_after(self._response.headers))
