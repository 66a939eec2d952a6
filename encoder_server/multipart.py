"""Multipart: media that come as the parts of a form, and an answer that goes in two parts.

Place: beside `wire`; `tests/contract/wire.json` fixes the names. Pure.
Must never: keep a file's name, look for more parts than a request may have, or put a caller's text in an error.
"""

from __future__ import annotations

import email
import email.message
import functools
from collections.abc import Callable
from typing import NamedTuple

from encoder_server.errors import BadRequestError, LimitExceededError

FORM = "multipart/form-data"
ITEM = "item"
EXPECTED_TOKENS = "Expected-Tokens"
_LONGEST_HEAD = 4096
# Lines, or parameters: the library's time for them grows with their square.
_MOST_IN_HEAD = 64
_BLANK = b"\r\n\r\n"
_LONGEST_BOUNDARY = 70
# What curl and browsers send for a file whose kind they do not know, or were told nothing of.
_NO_MODALITIES = ("application", "text")
_PLAIN_ENCODINGS = ("", "7bit", "8bit", "binary")


Content = bytes | memoryview


class Part(NamedTuple):
    """One medium of a form: its bytes, a view into the body where they are most of it, and its modality: the main type
    of its Content-Type."""

    modality: str
    content: Content
    expected_tokens: int | None


@functools.lru_cache(256)
def is_form(content_type: str | None) -> bool:
    """Return whether a body of this type holds a form."""
    return content_type is not None and content_type.split(";")[0].strip().lower() == FORM


class ManyPartsError(Exception):
    """There are more parts than are to be read now."""


def read_form(content_type: str, body: bytes, max_items: int, few: int | None = None) -> list[Part]:
    """Return the media in a form's body.

    Raises BadRequestError that names the part, LimitExceededError for more than `max_items` of them, or else, having
    read none, ManyPartsError for more than `few`.
    """
    opening = _opening(content_type)
    if not opening:
        raise BadRequestError("body: the form's Content-Type states no boundary")
    places, ended = _places(body, opening, max_items if few is None else min(few, max_items))
    if len(places) > max_items:
        raise LimitExceededError(f"items: more than {max_items} items; the limit is {max_items}")
    if few is not None and len(places) > few:
        raise ManyPartsError
    if not ended:
        raise BadRequestError("body: the form has no end")
    if not places:
        raise BadRequestError("items must not be empty")
    return [_part(body, start, end, index) for index, (start, end) in enumerate(places)]


def _places(body: bytes, opening: bytes, most: int) -> tuple[list[tuple[int, int]], bool]:
    """Return where parts begin and end, one more than `most` of them at most, and whether the form's end was found.

    They are found in place, for a body is large.
    """
    delimiter = b"\r\n" + opening
    places: list[tuple[int, int]] = []
    at = len(opening) if body.startswith(opening) else _behind(body, delimiter, 0)
    while at >= 0 and not body.startswith(b"--", at):
        if len(places) > most:
            return places, False
        end = body.find(delimiter, at)
        if end < 0:
            return places, False
        places.append((at, end))
        at = end + len(delimiter)
    return places, at >= 0


def _behind(body: bytes, delimiter: bytes, start: int) -> int:
    found = body.find(delimiter, start)
    return found if found < 0 else found + len(delimiter)


def _part(body: bytes, start: int, end: int, index: int) -> Part:
    blank = body.find(_BLANK, start, end)
    if (
        not 0 <= blank - start <= _LONGEST_HEAD
        or body.count(b"\n", start, blank) > _MOST_IN_HEAD
        or body.count(b";", start, blank) > _MOST_IN_HEAD
    ):
        raise BadRequestError(f"items[{index}]: the part has no end of its headers, or too many").of_item(index)
    try:
        modality, expected_tokens = _head(body[start:blank])
    except _WrongHeadError as wrong:
        raise BadRequestError(f"items[{index}]{wrong}").of_item(index) from None
    content: Content = memoryview(body)[blank + len(_BLANK) : end]
    if 2 * len(content) < len(body):
        content = bytes(content)  # Who waits for a small part must not keep all of a large body.
    return Part(modality, content, expected_tokens)


class _WrongHeadError(Exception):
    """What is wrong with a part's headers, to follow the part's place."""


# Parsed by the library at the cost of all else that is done for a request whose rows are known; and a client sends the
# same few again and again.
@functools.lru_cache(256)
def _opening(content_type: str) -> bytes:
    """Return what stands before each part of a form of this type; nothing where it states no boundary."""
    if content_type.count(";") > _MOST_IN_HEAD:
        return b""
    stated = email.message.Message()
    stated["Content-Type"] = content_type.replace("\r", " ").replace("\n", " ")
    boundary = _read(stated.get_boundary, "")
    if not 0 < len(boundary) <= _LONGEST_BOUNDARY or not boundary.isascii():
        return b""
    return b"--" + boundary.encode()


@functools.lru_cache(256)
def _head(head: bytes) -> tuple[str, int | None]:
    """Return the modality and the expected tokens that a part's headers state; raises _WrongHeadError."""
    headers = email.message_from_bytes(head.lstrip() + b"\r\n\r\n")
    if _read(headers.get_param, "name", header="content-disposition") != ITEM:
        raise _WrongHeadError(f": the part must be named {ITEM}")
    if "content-type" not in headers:
        raise _WrongHeadError(": the part needs a Content-Type; its main type is the modality")
    if str(headers.get("content-transfer-encoding", "")).strip().lower() not in _PLAIN_ENCODINGS:
        raise _WrongHeadError(": the part must hold the medium's own bytes, not an encoding of them")
    modality = headers.get_content_maintype()
    if modality in _NO_MODALITIES:
        raise _WrongHeadError(f": its Content-Type is {modality}/*, which is no modality; state one as image/png has")
    return modality, _tokens(headers)


def _read(reader: Callable[..., object], *asked: str, **named: str) -> str:
    """Return the parameter that `reader` finds, or nothing: of continued and encoded ones the library makes what it
    can, and raises errors of many kinds for the rest."""
    try:
        found = reader(*asked, **named)
    except (ValueError, TypeError, LookupError):
        return ""
    return found if isinstance(found, str) else ""


def _tokens(headers: email.message.Message) -> int | None:
    text = headers.get(EXPECTED_TOKENS)
    if text is None:
        return None
    digits = str(text).strip()
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 10 and int(digits) < 2**31):
        raise _WrongHeadError(".expected_tokens must be a whole number")
    return int(digits)


def render_part(boundary: str, content_type: str, body: bytes, status: int | None = None) -> bytes:
    """Return one part of an answer; `status` is what the answer's would have been, where the part is an error."""
    stated = "" if status is None else f"X-Status: {status}\r\n"
    head = f"--{boundary}\r\nContent-Type: {content_type}\r\n{stated}Content-Length: {len(body)}\r\n\r\n"
    return head.encode() + body + b"\r\n"


def render_end(boundary: str) -> bytes:
    """Return what follows the last part."""
    return f"--{boundary}--\r\n".encode()
