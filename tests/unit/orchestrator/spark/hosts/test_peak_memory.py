"""Peaks of processes."""

from __future__ import annotations

import psutil
import pytest

from orchestrator.embedded.spark_processes import driver_peak_mb, executor_peak_mb


def test_peak_is_at_least_what_is_taken_now() -> None:
    now_mb = psutil.Process().memory_info().rss / 2**20
    assert 0.95 * now_mb < executor_peak_mb() < 100_000


def _no_children(_: psutil.Process) -> list[psutil.Process]:
    return []


def test_without_spark_the_driver_is_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    # Another test of this process may have left a session.
    monkeypatch.setattr(psutil.Process, "children", _no_children)
    assert driver_peak_mb() == pytest.approx(executor_peak_mb(), rel=0.05)
