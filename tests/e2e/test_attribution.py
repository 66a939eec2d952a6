"""What a caller does wrong is never a replica's fault."""

from __future__ import annotations

import base64
import http.client
import io
import json

from PIL import Image

from tests.support import pictures
from tests.support.fleet import Fleet
from tests.support.pools import EVALUATION_SECONDS, reason_is, service_address
from tests.support.router import Router
from tests.support.waiting import throughout, until

SMALL = pictures.album(11, 12, smallest=40, largest=200)
# The tests' encoder truncates what has more rows than a picture of some 300 by 300 pixels.
LARGE = pictures.album(12, 1, smallest=420, largest=460)
# Each picture is another one, and each replica meets more of them than it takes to be judged.
ENOUGH = 90
Items = list[dict[str, object]]


def test_bad_pictures_cordon_nobody(fleet: Fleet) -> None:
    restarts = fleet.restarts()
    address, port = service_address(fleet.name, fleet.namespace)
    huge = blank(5000)
    for number in range(ENOUGH):
        whole = pictures.picture(1300 + number, 60 + number, 80)
        answers = {name: send(address, port, items) for name, items in bad_requests(whole, huge).items()}
        assert answers == {
            "no picture": (400, "bad_media"),
            "half a picture": (400, "bad_media"),
            "too many pixels": (400, "limit_exceeded"),
            "too many items": (400, "limit_exceeded"),
            "another count expected": (422, "promise_mismatch"),
        }
    throughout("nobody is blamed", fleet.is_as_expected, seconds=2 * EVALUATION_SECONDS)
    assert fleet.labels() == {"true"}
    assert fleet.restarts() == restarts


def test_one_picture_that_all_replicas_fail_is_the_callers_fault(fleet: Fleet) -> None:
    restarts = fleet.restarts()
    names = [str(pod["metadata"]["name"]) for pod in fleet.pods()]
    address, port = service_address(fleet.name, fleet.namespace)
    for name in names:
        fleet.truncates(name).touch()
    with Router(address=address, port=port, pictures=SMALL + LARGE, threads=4, pause=0.05, bound=20_000):
        until("CallerFault", lambda: reason_is(fleet.name, fleet.namespace, "CallerFault"), seconds=90)
        assert fleet.labels() == {"true"}
        assert fleet.restarts() == restarts
        for name in names:
            fleet.truncates(name).unlink()
    until("the pool to be as expected", fleet.is_as_expected, seconds=60)
    assert fleet.labels() == {"true"}


def bad_requests(whole: pictures.Picture, huge: bytes) -> dict[str, Items]:
    """What a careless client sends in place of this picture, by what is wrong with it."""
    return {
        "no picture": [image(b"no picture " + whole.name.encode())],
        "half a picture": [image(whole.data[: len(whole.data) // 2])],
        "too many pixels": [image(huge)],
        "too many items": [image(whole.data)] * 17,
        "another count expected": [image(whole.data) | {"expected_tokens": 1}],
    }


def image(data: bytes) -> dict[str, object]:
    """An item with these bytes."""
    return {"modality": "image", "data": base64.b64encode(data).decode()}


def blank(side: int) -> bytes:
    """A small file that says it holds a square picture of so many pixels a side."""
    buffer = io.BytesIO()
    Image.new("1", (side, side)).save(buffer, "PNG")
    return buffer.getvalue()


def send(address: str, port: int, items: Items) -> tuple[int, str]:
    """One request with these items; returns the status and the error's code."""
    connection = http.client.HTTPConnection(address, port, timeout=30)
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/v1/encode", json.dumps({"items": items}), headers)
    response = connection.getresponse()
    error = json.loads(response.read())["error"]
    connection.close()
    return response.status, error["code"]
