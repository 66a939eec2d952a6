"""What a caller does wrong is never a replica's fault."""

from __future__ import annotations

import http.client
import json

from tests.support import pictures
from tests.support.fleet import Fleet
from tests.support.pools import EVALUATION_SECONDS, reason_is, service_address
from tests.support.router import Router
from tests.support.waiting import throughout, until

SMALL = pictures.album(11, 12, smallest=40, largest=200)
# The tests' encoder truncates what has more rows than a picture of some 300 by 300 pixels.
LARGE = pictures.album(12, 1, smallest=420, largest=460)
ENOUGH = 90


def test_bad_pictures_cordon_nobody(fleet: Fleet) -> None:
    restarts = fleet.restarts()
    address, port = service_address(fleet.name, fleet.namespace)
    answers = {send_bad_picture(address, port, number) for number in range(ENOUGH)}
    assert answers == {(400, "bad_media")}
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


def send_bad_picture(address: str, port: int, number: int) -> tuple[int, str]:
    """One request whose only item is no picture, each another one; returns the status and the error's code."""
    connection = http.client.HTTPConnection(address, port, timeout=30)
    body = json.dumps({"items": [{"modality": "image", "data": f"bm9waWN0dXJl{number:04}"}]})
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    connection.request("POST", "/v1/encode", body, headers)
    response = connection.getresponse()
    error = json.loads(response.read())["error"]
    connection.close()
    return response.status, error["code"]
