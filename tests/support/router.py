"""A client that behaves like a router: it keeps connections open, renews them now and then (a Service gives a
connection to one replica for as long as it lasts), and tries 429, 502 and 503 again on a new one.

Every answer that it accepted is kept, so that a test can compare each embedding with the true one.
"""

from __future__ import annotations

import base64
import http.client
import itertools
import json
import random
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.support.pictures import Picture

TRIES = 8
AGAIN = (429, 502, 503)
CALLS_ON_A_CONNECTION = 25


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One try: the status (0: the connection broke) and, for an error, its code and the items it names."""

    status: int
    code: str
    items: tuple[int, ...]
    at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request as its caller saw it; `answer` is the JSON body of the 200, or None when all tries failed."""

    pictures: tuple[Picture, ...]
    attempts: tuple[Attempt, ...]
    answer: dict[str, object] | None


@dataclass(slots=True)
class Router:
    """So many threads, each sending requests at a steady pace until `stop`, at most `bound` requests in all."""

    address: str
    port: int
    pictures: Sequence[Picture]
    threads: int
    pause: float
    bound: int
    calls: list[Call] = field(default_factory=list, repr=False)
    _left: threading.Event = field(default_factory=threading.Event)
    _running: list[threading.Thread] = field(default_factory=list)

    def __enter__(self) -> Router:
        """Start sending."""
        numbers = itertools.count()
        for seed in range(self.threads):
            thread = threading.Thread(target=self._send, args=(random.Random(seed), numbers), daemon=True)
            thread.start()
            self._running.append(thread)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sending and wait for the requests under way."""
        self._left.set()
        for thread in self._running:
            thread.join(timeout=120)

    def accepted(self) -> list[Call]:
        """The calls that ended in an embedding."""
        return [call for call in list(self.calls) if call.answer is not None]

    def failed(self) -> list[Call]:
        """The calls that failed eight times, or in a way that is not tried again."""
        return [call for call in list(self.calls) if call.answer is None]

    def attempts(self, since: float = 0.0) -> list[tuple[Call, Attempt]]:
        """Every try since a time (Unix seconds)."""
        return [(call, one) for call in list(self.calls) for one in call.attempts if one.at >= since]

    def _send(self, choice: random.Random, numbers: itertools.count[int]) -> None:
        connection = http.client.HTTPConnection(self.address, self.port, timeout=70)
        while not self._left.wait(self.pause) and next(numbers) < self.bound:
            chosen = tuple(choice.sample(list(self.pictures), choice.randint(1, 3)))
            attempts: list[Attempt] = []
            answer = None
            while answer is None and len(attempts) < TRIES:
                if attempts:
                    connection.close()
                    self._left.wait(choice.uniform(0.0, 0.1) * len(attempts))
                attempt, answer = ask(connection, chosen)
                attempts.append(attempt)
                if attempt.status not in (0, *AGAIN):
                    break
            self.calls.append(Call(pictures=chosen, attempts=tuple(attempts), answer=answer))
            if choice.randrange(CALLS_ON_A_CONNECTION) == 0:
                connection.close()
        connection.close()


def ask(
    connection: http.client.HTTPConnection, pictures: Sequence[Picture]
) -> tuple[Attempt, dict[str, object] | None]:
    """One try on an open connection: what happened, and the JSON answer of a 200."""
    body = json.dumps(
        {"items": [{"modality": "image", "data": base64.b64encode(each.data).decode()} for each in pictures]}
    )
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    at = time.time()
    try:
        connection.request("POST", "/v1/encode", body, headers)
        response = connection.getresponse()
        status, answer = response.status, json.loads(response.read())
    except (OSError, http.client.HTTPException):
        connection.close()
        return Attempt(status=0, code="connection", items=(), at=at), None
    if status == 200:
        return Attempt(status=status, code="ok", items=(), at=at), answer
    error = answer["error"]
    items = tuple(item["index"] for item in error.get("items", []))
    return Attempt(status=status, code=error["code"], items=items, at=at), None
