"""docs/runbook.md answers every reason, code, event, error and alert of both programs, and invents nothing."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from encoder_operator import announcements, errors
from encoder_operator.errors import metric_label
from encoder_operator.metrics import Metrics
from tests.support.pages import Page, of_a_cluster, of_a_server, of_redis
from tests.support.pool_objects import SCHEMA

ROOT = Path(__file__).parents[2]
CONTRACT = ROOT / "tests" / "contract"
WORDS, WIRE, METRICS = (
    json.loads((CONTRACT / f"{name}.json").read_text()) for name in ("vocabulary", "wire", "metrics")
)
PAGE = Page.of("runbook.md")
SNAKE = re.compile(r"[a-z]+(?:_[a-z]+)+")
STATE_OF = {reason: state for state, reasons in WORDS["serverStateReasons"].items() for reason in reasons}


def test_every_reason_is_answered_and_no_other() -> None:
    assert PAGE.column("Every reason") == set(WORDS["reasons"]) | set(STATE_OF)


def test_a_servers_reason_stands_beside_its_state() -> None:
    for reasons, state, _ in PAGE.table("Every reason"):
        assert {STATE_OF.get(reason, "") for reason in re.findall(r"`(\w+)`", reasons)} == {state}


def test_a_reason_that_is_called_reserved_is_said_by_nobody() -> None:
    reserved = [row[0] for row in PAGE.table("Every reason") if row[2].startswith("reserved")]
    constants = {re.sub(r"(?<!^)(?=[A-Z])", "_", name).upper() for name in re.findall(r"`(\w+)`", " ".join(reserved))}
    modules = [path for path in (ROOT / "operator").rglob("*.py") if path.name != "vocabulary.py"]
    said = {name for path in modules for name in re.findall(r"vocabulary\.([A-Z_]+)", path.read_text(encoding="utf-8"))}
    assert {name for name in vars_of_vocabulary() if name in constants} == constants
    assert constants & said == set()
    assert vars_of_vocabulary() - said == constants


def vars_of_vocabulary() -> set[str]:
    """The names of the constants that are reasons."""
    text = (ROOT / "operator" / "encoder_operator" / "vocabulary.py").read_text(encoding="utf-8")
    return {
        name
        for name, value in re.findall(r'^([A-Z_]+): Final = "(\w+)"', text, re.MULTILINE)
        if value in WORDS["reasons"]
    }


def test_every_condition_is_explained_and_no_other() -> None:
    tree = ast.parse((ROOT / "operator" / "encoder_operator" / "conditions.py").read_text(encoding="utf-8"))
    returned = [node.value for node in ast.walk(tree) if isinstance(node, ast.Return)]
    kinds = {
        each.elts[0].value
        for each in returned
        if isinstance(each, ast.Tuple) and len(each.elts) == 4 and isinstance(each.elts[0], ast.Constant)
    }
    assert kinds | {"QuarantineWithinBudget"} == PAGE.column("Every condition")


def test_every_error_code_is_answered_with_its_status_and_no_other() -> None:
    counted = set(METRICS["server"]["encoder_requests_total"]["labels"]["code"]) - {"ok"}
    assert PAGE.column("Every error code") == set(WIRE["statusByCode"]) | counted
    for codes, status, _ in PAGE.table("Every error code"):
        assert {str(WIRE["statusByCode"].get(code, "")) for code in re.findall(r"`(\w+)`", codes)} == {status}


def test_every_event_of_a_pool_is_explained_and_no_other() -> None:
    tree = ast.parse(Path(announcements.__file__).read_text(encoding="utf-8"))
    named = {
        node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    }
    assert PAGE.column("Every event of a pool") == named


def test_every_error_of_the_operator_is_answered_and_no_other() -> None:
    abstract = {errors.OperatorError, errors.ClusterError}
    kinds = {
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.OperatorError)
    }
    assert PAGE.column("The operator is down") == {each.__name__ for each in kinds - abstract} | {
        metric_label(KeyError())
    }


def test_every_alert_that_is_proposed_is_answered() -> None:
    proposed = {row[0] for row in Page.of("metrics.md").table("What to be woken by")}
    expressions = {re.findall(r"`([^`]+)`", cell)[0] for cell in proposed}
    assert PAGE.column("Every alert") == expressions


def test_every_metric_that_may_tell_of_a_fault_is_asked_for_somewhere() -> None:
    """What only measures success, or a tier's size and traffic, wakes nobody."""
    harmless = {
        *("encoder_cache_hits_total", "encoder_cache_misses_total", "encoder_cache_evictions_total"),
        *("encoder_cache_flushed_total", "encoder_cache_moved_bytes_total"),
        *("encoderpool_cordons_total", "encoderpool_releases_total", "encoderpool_evictions_total"),
    }
    known = set(METRICS["server"]) | set(_operators())
    assert harmless <= known
    assert {name for name in known - harmless if name not in PAGE.text} == set()


def _operators() -> dict[str, tuple[str, ...]]:
    """The operator's metrics with their labels."""
    made = Metrics()
    held = (made.reconcile_seconds, made.reconcile_errors, made.evidence_problems, made.cordons, made.releases)
    collectors = (*held, made.evictions, made.cordoned)
    return {f"{each._name}_total" if each._type == "counter" else each._name: each._labelnames for each in collectors}


ASKED = [line for block in PAGE.blocks("promql") for line in block.splitlines()]
ASKED += sorted(PAGE.column("Every alert"))


@pytest.mark.parametrize("query", ASKED)
def test_a_query_asks_for_what_the_programs_have(query: str) -> None:
    operators = {name: dict.fromkeys(labels) for name, labels in _operators().items()}
    known: dict[str, dict[str, Any]] = {name: each["labels"] for name, each in METRICS["server"].items()} | operators
    asked = re.findall(r"\b(encoder\w+)(\{[^}]*\})?", query)
    assert asked
    for full, matchers in asked:
        name = full if full in known else re.sub(r"_(bucket|count|sum)$", "", full)
        labels = known[name]
        for label, value in re.findall(r'(\w+)!?=~?"([^"]*)"', matchers):
            assert label in {*labels, *METRICS["prometheusLabels"]}, query
            if labels.get(label) is not None:
                assert set(value.split("|")) <= set(labels[label]), query
        for grouped in re.findall(r"by \(([^)]*)\)", query):
            assert set(grouped.split(", ")) <= {*labels, *METRICS["prometheusLabels"], "le"}, query


def test_every_link_leads_somewhere() -> None:
    assert PAGE.links - PAGE.anchors == set()


@pytest.mark.parametrize("page", ["runbook.md", "upgrade.md"])
def test_what_is_quoted_is_said_by_the_code(page: str) -> None:
    files = [*(ROOT / "encoder_server").rglob("*.py"), *(ROOT / "operator" / "encoder_operator").glob("*.py")]
    # A message that is written over several lines is one.
    code = "\n".join(re.sub(r'"\s*\n\s*f?"', "", path.read_text(encoding="utf-8")) for path in files)
    prose = " ".join(re.sub(r"`[^`]*`", "", Page.of(page).prose).split())
    quoted = [part.strip() for quote in re.findall(r'"([^"]+)"', prose) for part in quote.split("…")]
    assert quoted
    assert [part for part in quoted if part not in code] == []


@pytest.mark.parametrize("page", ["runbook.md", "upgrade.md"])
def test_names_of_kubernetes_are_those_of_the_contract(page: str) -> None:
    text = Page.of(page).text
    known = {*WORDS["labels"].values(), *WORDS["annotations"].values()}
    assert {
        f"encoderpool.io/{name}" for name in re.findall(r"encoderpool\\?\.io/([a-z-]+?)-?[=`\s\"',}]", text)
    } <= known


@pytest.mark.parametrize("page", ["runbook.md", "upgrade.md"])
def test_fields_of_a_pool_are_the_schemas(page: str) -> None:
    fields = [span for span in Page.of(page).spans if re.fullmatch(r"(spec|status)(\.[\w\[\]]+)+", span)]
    for path in fields:
        below: dict[str, Any] = SCHEMA
        for name in path.split("."):
            below = below["properties"][name.removesuffix("[]")]
            below = below["items"] if name.endswith("[]") else below


def test_names_of_log_events_and_fields_are_those_of_their_page() -> None:
    told = {name for span in Page.of("logs.md").spans for name in SNAKE.findall(span)}
    known = {*told, *WIRE["statusByCode"], *METRICS["server"], *_operators(), "maxmemory_policy"}
    assert {span for span in PAGE.spans if SNAKE.fullmatch(span)} - known == set()


@pytest.mark.parametrize("page", ["runbook.md", "upgrade.md"])
def test_what_a_command_is_about_is_said_first(page: str) -> None:
    assert Page.of(page).unset == set()


@pytest.mark.parametrize("page", ["runbook.md", "upgrade.md"])
def test_every_command_is_run_by_a_test(page: str) -> None:
    kinds = (of_a_cluster, of_redis, of_a_server)
    assert [block for block in Page.of(page).commands if sum(kind(block) for kind in kinds) != 1] == []
