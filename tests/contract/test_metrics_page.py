"""docs/metrics.md names every metric of both programs, no other one, and the scraping that the cluster's tests use."""

from __future__ import annotations

import json
import re
from pathlib import Path

import yaml

from encoder_operator.metrics import Metrics

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
SERVER = json.loads((ROOT / "tests" / "contract" / "metrics.json").read_text(encoding="utf-8"))["server"]


def _operators() -> set[str]:
    families = Metrics().registry.collect()
    return {f"{family.name}_total" if family.type == "counter" else family.name for family in families}


def _rows() -> dict[str, str]:
    """The labels' cell of each metric in the tables."""
    rows = re.findall(r"^\| (`encoder\w+`(?:, `encoder\w+`)*) \| (.*?) \|", PAGE, re.MULTILINE)
    return {name: labels for names, labels in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_metric_is_explained_and_no_other() -> None:
    assert set(_rows()) == set(SERVER) | _operators()
    assert set(re.findall(r"encoder(?:pool)?_\w+", PAGE)) - {"encoderpool_io_pool", "encoderpool_io_revision"} <= set(
        _rows()
    )


def test_a_metrics_labels_are_named() -> None:
    rows = _rows()
    for name, metric in SERVER.items():
        assert set(re.findall(r"`(\w+)`", rows[name])) == set(metric["labels"]), name


def test_replicas_are_scraped_as_where_the_operator_is_tested_with_prometheus() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    documents = yaml.safe_load_all((ROOT / "tests" / "cluster" / "prometheus.yaml").read_text(encoding="utf-8"))
    (used,) = (yaml.safe_load(each["data"]["prometheus.yml"]) for each in documents if each["kind"] == "ConfigMap")
    assert yaml.safe_load(text)["scrape_configs"] == used["scrape_configs"]
