"""The operator writes and reads annotations, and judges metrics, as the contract says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from encoder_operator import metrics_page, orders, window
from encoder_operator import sizes as sizes_of
from encoder_operator.likeness import distance
from encoder_operator.observation import FlushOrder, Order

HERE = Path(__file__).parent
ORDERS: dict[str, Any] = json.loads((HERE / "orders.json").read_text())
METRICS: dict[str, Any] = json.loads((HERE / "metrics.json").read_text())
EXPECTED: dict[str, Any] = json.loads((HERE / "expected.json").read_text())


def test_a_record_is_read_and_written_as_agreed() -> None:
    value = ORDERS["cordon"]["value"]
    record = orders.parse_record(json.dumps(value))
    assert record is not None
    assert json.loads(orders.render_record(record)) == value
    assert (record.times, record.released_at, record.sizes[0].width) == (1, None, 640)


def test_a_probe_order_is_written_as_agreed() -> None:
    value = ORDERS["probe"]["value"]
    sizes = [sizes_of.parse_size(each) for each in value["sizes"]]
    written = orders.render_probe(Order(id=value["id"], boot_id=value["bootId"]), sizes)
    assert json.loads(written) == value
    assert orders.parse_order(written) == Order(id=value["id"], boot_id=value["bootId"])


def test_a_question_is_a_probe_order_that_names_whom_it_is_about_and_when_it_was_asked() -> None:
    value = ORDERS["question"]["value"]
    asked = orders.parse_question(json.dumps(value))
    assert asked is not None
    assert asked.about == orders.about("f4c1c8f2d6a84b0e8b9a5d7c3e2f1a00", 0)
    assert asked == orders.question(asked.about, value["bootId"], asked.sizes, asked.asked_at + 0.5)
    assert json.loads(orders.render_probe(Order(id=asked.id, boot_id=asked.boot_id), asked.sizes)) == value
    assert orders.parse_question(json.dumps(ORDERS["probe"]["value"])) is None


def test_a_restart_order_is_written_as_agreed() -> None:
    value = ORDERS["restart"]["value"]
    order = Order(id=value["id"], boot_id=value["bootId"])
    assert json.loads(orders.render_restart(order)) == value
    assert orders.parse_order(json.dumps(value)) == order


def test_a_flush_order_is_written_as_agreed() -> None:
    value = ORDERS["flush"]["value"]
    order = FlushOrder(id=value["id"], boot_id=value["bootId"], producers=tuple(value["producers"]))
    assert json.loads(orders.render_flush(order)) == value
    assert orders.parse_flush(json.dumps(value)) == order


def test_the_metrics_that_are_judged_are_those_agreed() -> None:
    judged = METRICS["judged"]
    assert (
        judged["checks"],
        judged["media"],
        judged["source"],
    ) == (metrics_page.CHECKS, metrics_page.MEDIA, metrics_page.JUDGED_SOURCE)
    assert (list(window.GOOD), list(window.BAD)) == (judged["good"], judged["bad"])


def test_a_signature_is_no_distance_from_itself() -> None:
    known = EXPECTED["learned"]["signature"]
    assert distance(known, known) == 0.0
    assert distance(known, None) is None


def test_the_record_and_the_orders_on_a_pod_stay_small_whatever_they_tell() -> None:
    value = ORDERS["cordon"]["value"]
    sizes = [{"modality": "image", "width": 2**20 - 1, "height": 2**20 - 1}] * 8
    record = orders.parse_record(json.dumps(value | {"message": "m" * 10_000, "sizes": sizes}))
    assert record is not None
    order = Order(id="probe-1-1", boot_id="f" * 32)
    texts = orders.render_record(record), orders.render_probe(order, record.sizes), orders.render_restart(order)
    assert sum(map(len, texts)) < 4096
