"""Quota: one engine for each CPU that the container may use, whichever version of cgroups says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from encoder_server import quota


def test_the_second_version_of_cgroups_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("50000 100000\n")
    assert quota.cpus(tmp_path) == 0.5


def test_the_first_version_of_cgroups_is_read(tmp_path: Path) -> None:
    (tmp_path / "cpu").mkdir()
    (tmp_path / "cpu" / "cpu.cfs_quota_us").write_text("100000\n")
    (tmp_path / "cpu" / "cpu.cfs_period_us").write_text("100000\n")
    assert quota.cpus(tmp_path) == 1.0


def test_without_a_limit_the_scheduler_decides(tmp_path: Path) -> None:
    (tmp_path / "cpu.max").write_text("max 100000\n")
    assert quota.cpus(tmp_path) == len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("cpus", "engines"), [(0.5, 1), (1.9, 1), (2.0, 2), (64.0, 8)])
def test_one_engine_for_each_whole_cpu_between_one_and_eight(cpus: float, engines: int) -> None:
    assert quota.engines_for(cpus) == engines
