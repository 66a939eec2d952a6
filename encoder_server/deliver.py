"""Deliver: turn rows that passed the check into an answer.

Place: the last stage. It takes a `Passed`, which the check alone makes, so nothing unchecked can be sent.
Must never: block the event loop with a large copy, pickle, or send part of a request's items.
"""

from __future__ import annotations

from typing import NamedTuple

from encoder_server import aside
from encoder_server.check import Passed
from encoder_server.wire import JSON, SAFETENSORS, Form, Origin, render


class Answer(NamedTuple):
    """A rendered answer, or the last part of one; its body in pieces."""

    content_type: str
    body: tuple[bytes | memoryview, ...]


async def deliver(form: Form, passed: Passed, origin: Origin) -> Answer:
    """Render the rows of a whole request in the form that its caller asked for."""
    if form is not Form.JSON:
        return at_once(form, passed, origin)
    size = sum(rows.data.nbytes for rows in passed.rows)
    return Answer(content_type=JSON, body=await aside.run(size, render, form, passed, origin))


def at_once(form: Form, passed: Passed, origin: Origin) -> Answer:
    """Render rows that are few enough, or are sent as they are."""
    return Answer(content_type=JSON if form is Form.JSON else SAFETENSORS, body=render(form, passed, origin))
