"""What `make bench-server` makes of its figures."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bench import __main__ as program
from tests.bench import bodies, growth, memory, report, rounds, statistics
from tests.bench.processes import Program
from tests.bench.statistics import Measured


def measured(rate: float, cpu_ms: float = 1.0, errors: int = 0) -> Measured:
    return Measured(items=1000, seconds=1000 / rate, cpu_seconds=cpu_ms, errors=errors, p50_ms=1.0, p99_ms=2.0)


def result(*ratios: float, target: float = 0.9, errors: int = 0) -> rounds.Result:
    return rounds.Result(
        name="fresh-one",
        title="fresh against the loop",
        target=target,
        ours_title="ours",
        other_title="loop",
        ours=[measured(100 * ratio, 2.0, errors) for ratio in ratios],
        other=[measured(100) for _ in ratios],
    )


def test_a_ratio_is_the_median_of_the_rounds_with_its_spread() -> None:
    ratio = result(0.8, 1.0, 0.9, 0.95, 0.85).rate
    assert (ratio.median, ratio.low, ratio.high) == pytest.approx((0.9, 0.8, 1.0))
    assert ratio.quartiles == pytest.approx((0.85, 0.95))
    assert result(0.5).rate.quartiles == pytest.approx((0.5, 0.5))


def test_half_the_rate_of_the_other_side_is_no_better_by_cpu_time_that_is_twice_its() -> None:
    assert result(1.0, 1.0).cpu.median == pytest.approx(0.5)


def test_a_target_is_reached_by_the_median_and_never_with_errors() -> None:
    assert result(0.8, 0.95, 0.95).passed("rate")
    assert not result(0.8, 0.8, 0.95).passed("rate")
    assert not result(0.95, 0.95, 0.95).passed("cpu")
    assert not result(0.95, errors=1).passed("rate")


@pytest.mark.parametrize(("power", "fixed"), [(0, 5), (1, 0.5), (2, 1)])
def test_the_exponent_of_a_growth_is_found_under_a_fixed_cost(power: int, fixed: float) -> None:
    fit = statistics.growth([(n, fixed + n**power) for n in (1, 2, 4, 8, 16, 32, 64)])
    assert fit.exponent == pytest.approx(power, abs=0.1)
    if power == 1:
        assert (fit.fixed, fit.each) == pytest.approx((0.5, 1.0))


def test_what_a_process_holds_is_its_memory_and_not_its_share_of_files_that_others_map_too(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(bytes(64 * 2**20))
    code = (
        "import mmap, sys; f = open(sys.argv[1], 'rb'); m = mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ)\n"
        "sum(m[::4096]); own = b'1' * 2**25; print('mapped', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(file)]
    with Program(command, tmp_path / "log", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.process.stdout is not None
        assert program.process.stdout.readline() == b"mapped\n"
        assert 32 < sum(program.memory().values()) < 64


def test_memory_that_levels_off_is_flat_and_memory_that_goes_on_is_not() -> None:
    levels = statistics.flatness([(float(t), min(500.0, 400 + 10.0 * t)) for t in range(60)])
    climbs = statistics.flatness([(float(t), 400 + 5.0 * t) for t in range(60)])
    assert (levels.flat, climbs.flat) == (True, False)
    assert climbs.per_minute == pytest.approx(300)


def test_the_bodies_have_the_sizes_that_the_targets_speak_of() -> None:
    assert 13_500 <= len(bodies.of_bytes(224, 224, 15_000)) <= 15_000
    assert 210_000 <= len(bodies.of_bytes(1024, 768, 231_000)) <= 231_000


def test_the_report_says_what_was_reached_what_was_missed_and_what_was_not_measured(tmp_path: Path) -> None:
    curve = growth.Curve(
        name="items",
        of="items",
        most=1.1,
        points=[(1, 1), (2, 2), (4, 4)],
        fit=statistics.growth([(1, 1), (2, 2), (4, 4)]),
    )
    held = [(float(t), 400.0) for t in range(9)]
    run = report.Run(
        machine={"cores": 2},
        by="rate",
        results=[result(1.0), result(0.5)],
        curves=[curve],
        memory=[memory.Memory(samples=held, judged=statistics.flatness(held), answered={"200": 5, "left": 1})],
        failed={"mosec": "it answers with errors"},
    )
    report.write(run, tmp_path, ["ratios.svg"])
    told = json.loads((tmp_path / "report.json").read_text())
    text = (tmp_path / "report.md").read_text()
    assert [each["passed"] for each in told["scenarios"]] == [True, False]
    assert (told["passed"], told["growth"][0]["passed"], told["memory"][0]["passed"]) == (False, True, True)
    assert "| fresh against the loop | ≥ 0.9 | 0.50 (0.50–0.50) |" in text  # noqa: RUF001 - the dash of a range
    assert "mosec was not measured: it answers with errors" in text
    assert "![ratios](ratios.svg)" in text


def test_every_target_of_the_issue_has_a_scenario() -> None:
    assert set(program.NAMES) == {
        *("cached-15k", "cached-231k", "fresh-one", "fresh-two", "users-loop", "batched", "constant"),
        *("mosec", "litserve", "infinity", "growth-items", "growth-area", "growth-clients", "growth-entries", "memory"),
    }
