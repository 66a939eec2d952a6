"""Forms in, parts out."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from encoder_server import errors
from encoder_server.multipart import Part, is_form, read_form, render_end, render_part

FORM = "multipart/form-data; boundary=b"


def form(*parts: bytes, end: bytes = b"\r\n--b--\r\n") -> bytes:
    return b"\r\n".join(b"--b\r\n" + part for part in parts) + end


def item(content: bytes = b"x", more: bytes = b"", name: bytes = b"item", kind: bytes = b"image/png") -> bytes:
    head = b'Content-Disposition: form-data; name="' + name + b'"; filename="../a.png"\r\nContent-Type: ' + kind
    return head + b"\r\n" + more + b"\r\n" + content


def test_parts_are_items_in_their_order_with_their_own_bytes() -> None:
    parts = read_form(FORM, form(item(b"\r\n--a\r\n\r\n"), item(b"", b"expected-tokens: 7\r\n", kind=b"Audio/wav")), 2)
    assert parts == [
        Part(modality="image", content=b"\r\n--a\r\n\r\n", expected_tokens=None),
        Part(modality="audio", content=b"", expected_tokens=7),
    ]


@pytest.mark.parametrize(
    ("content_type", "body", "text"),
    [
        ("multipart/form-data", form(item()), "body: the form's Content-Type states no boundary"),
        (f"multipart/form-data; boundary={'b' * 71}", form(item()), "body: the form's Content-Type states no boundary"),
        (FORM, b"", "body: the form has no end"),
        (FORM, form(item(), end=b""), "body: the form has no end"),
        (FORM, b"--b--\r\n", "items must not be empty"),
        (FORM, form(b"no headers"), "items[0]: the part has no end of its headers, or too many"),
        (
            FORM,
            form(item(), item(more=b"a: b\r\n" * 1000)),
            "items[1]: the part has no end of its headers, or too many",
        ),
        (
            FORM,
            form(item(kind=b"image/png" + b";a" * 100)),
            "items[0]: the part has no end of its headers, or too many",
        ),
        (FORM + "; a" * 100, form(item()), "body: the form's Content-Type states no boundary"),
        (FORM, form(item(name=b"picture")), "items[0]: the part must be named item"),
        (
            FORM,
            form(b'Content-Disposition: form-data; name="item"\r\n\r\nx'),
            "items[0]: the part needs a Content-Type",
        ),
        (FORM, form(item(more=b"Content-Transfer-Encoding: base64\r\n")), "items[0]: the part must hold the medium's"),
        (FORM, form(item(more=b"Expected-Tokens: -1\r\n")), "items[0].expected_tokens must be a whole number"),
    ],
)
def test_a_form_that_is_none_is_refused_by_name(content_type: str, body: bytes, text: str) -> None:
    with pytest.raises(errors.BadRequestError) as raised:
        read_form(content_type, body, 4)
    assert raised.value.message.startswith(text)


def test_more_parts_than_items_may_be_are_not_looked_for() -> None:
    assert len(read_form(FORM, form(*[item()] * 4), 4)) == 4
    for count in (5, 6, 500):
        with pytest.raises(errors.LimitExceededError, match="the limit is 4"):
            read_form(FORM, form(*[item()] * count), 4)


@given(st.text(max_size=100), st.binary(max_size=200))
def test_any_bytes_are_an_error_of_ours(stated: str, body: bytes) -> None:
    for content_type in (FORM, f"multipart/form-data; {stated}"):
        for data in (body, b"--b" + body, form(body)):
            with pytest.raises(errors.CallerError):
                read_form(content_type, data, 4)


def test_only_a_form_is_a_form() -> None:
    assert is_form("Multipart/Form-Data; boundary=b")
    assert not any(map(is_form, (None, "", "application/json", "multipart/mixed")))


def test_an_answers_parts_follow_each_other() -> None:
    text = render_part("b", "text/plain", b"one") + render_part("b", "text/plain", b"two", 502) + render_end("b")
    assert text.split(b"\r\n") == [
        *(b"--b", b"Content-Type: text/plain", b"Content-Length: 3", b"", b"one"),
        *(b"--b", b"Content-Type: text/plain", b"X-Status: 502", b"Content-Length: 3", b"", b"two"),
        *(b"--b--", b""),
    ]


def test_a_medium_that_is_most_of_a_body_is_not_copied_and_a_small_one_does_not_keep_it() -> None:
    body = form(item(b"s" * 100), item(b"L" * 10_000))
    small, large = read_form(FORM, body, 2)
    assert isinstance(large.content, memoryview)
    assert large.content.obj is body
    assert small.content == b"s" * 100
    assert isinstance(small.content, bytes)
