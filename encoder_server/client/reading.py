"""Reading: one answer, from its first piece to embeddings or an error.

Place: between a client's connection and its caller; both clients feed it. Pure. Must never: give a promise twice, take
another one for it, or hold more than `most_bytes`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pydantic

from encoder_server.answers import Promises
from encoder_server.client import failures, mixed, results
from encoder_server.client.media import Item
from encoder_server.client.results import Embeddings
from encoder_server.client.retries import retry_after

SAFETENSORS = "application/vnd.safetensors"
MULTIPART = "multipart/mixed"


class Reading:
    """The answer to one try. `promised` is what an earlier try of the same call promised, where one did."""

    def __init__(
        self,
        status: int,
        headers: Mapping[str, str],
        asked: Sequence[Item],
        *,
        request_id: str,
        accept: str,
        promised: Promises | None,
        most_bytes: int,
    ) -> None:
        self._status = status
        self._headers = headers
        self._asked = asked
        self._request_id = request_id
        self._promised = promised
        self._most_bytes = most_bytes
        self._size = 0
        self._pieces: list[bytes] = []
        self._count = 0
        self._last: mixed.Part | None = None
        self._parts: mixed.Parts | None = None
        if status != 200:
            return
        if headers.get("content-type", "").split(";")[0].strip().lower() != accept:
            raise self._invalid("the answer is of another type than was asked for")
        if accept == MULTIPART:
            try:
                self._parts = mixed.Parts(headers["content-type"], most_bytes)
            except mixed.BrokenError as broken:
                raise self._invalid(str(broken)) from None

    def feed(self, piece: bytes) -> Promises | None:
        """Take a piece; return the promises where they came with it, and were not known from an earlier try."""
        self._size += len(piece)
        if self._status != 200 and self._size > failures.MOST_JSON_BYTES:
            raise failures.from_answer(self._status, b"", self._request_id, retry_after(self._headers))
        if self._size > self._most_bytes:
            raise self._invalid(f"the answer is longer than {self._most_bytes} bytes")
        if self._parts is None:
            self._pieces.append(piece)
            return None
        told: Promises | None = None
        try:
            for part in self._parts.feed(piece):
                self._count += 1
                if self._count > 2:
                    raise mixed.BrokenError("more parts came than two")
                if self._count == 1:
                    told = self._promises(part)
                self._last = part
        except mixed.BrokenError as broken:
            raise self._invalid(str(broken)) from None
        return told

    def finish(self) -> Embeddings:
        """Return the embeddings of an answer that has come whole; raises EncoderPoolError."""
        if self._parts is not None:
            return self._second_part(self._parts)
        body = b"".join(self._pieces)
        if self._status != 200:
            raise failures.from_answer(self._status, body, self._request_id, retry_after(self._headers))
        return self._embeddings(body)

    def _second_part(self, parts: mixed.Parts) -> Embeddings:
        last, promised = self._last, self._promised
        if not parts.ended or last is None or promised is None or self._count != 2:
            raise failures.ConnectionFailedError("the answer ended early", request_id=self._request_id, begun=True)
        if last.status is not None:
            raise failures.from_answer(last.status, last.body, self._request_id)
        found = self._embeddings(last.body)
        if [(item.grid, item.tokens) for item in found.items] != _counts(promised):
            raise self._invalid("the rows are not those that were promised")
        return found

    def _promises(self, part: mixed.Part) -> Promises | None:
        if len(part.body) > results.most_head(self._asked):
            raise self._invalid("the first part is longer than a promise of so few")
        try:
            promised = Promises.model_validate_json(part.body)
            results.fit(promised.items, self._asked)
        except pydantic.ValidationError:
            raise self._invalid("the first part is not a promise") from None
        except results.UnfitError as unfit:
            raise self._invalid(str(unfit)) from None
        if self._promised is not None:
            if _counts(self._promised) != _counts(promised):
                raise self._invalid("another try promised otherwise: replicas disagree")
            return None
        self._promised = promised
        return promised

    def _embeddings(self, body: bytes) -> Embeddings:
        try:
            return results.read(body, self._asked)
        except results.UnfitError as unfit:
            raise self._invalid(str(unfit)) from None

    def _invalid(self, message: str) -> failures.InvalidAnswerError:
        return failures.InvalidAnswerError(message, request_id=self._request_id)


def _counts(promised: Promises) -> list[tuple[tuple[int, ...], int]]:
    return [(item.grid, item.tokens) for item in promised.items]
