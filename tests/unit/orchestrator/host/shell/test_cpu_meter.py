"""CPU use of a host between two readings."""

from __future__ import annotations

import time

import pytest

from orchestrator.host.shell.own_process import CpuMeter, process_cpu_s


def test_load_is_cpu_time_by_time() -> None:
    used_s = [5.0, 5.5, 5.5]
    meter = CpuMeter(0, least_us=500_000, used_s=lambda: used_s.pop(0))
    assert meter.load(1_000_000) == pytest.approx(0.5)
    assert meter.load(2_000_000) == 0


def test_a_reading_right_after_another_gives_no_load_and_loses_none() -> None:
    used_s = [5.0, 5.5]
    meter = CpuMeter(0, least_us=500_000, used_s=lambda: used_s.pop(0))
    assert meter.load(499_999) is None
    assert meter.load(1_000_000) == pytest.approx(0.5)


def test_a_clock_that_counts_in_steps_never_gives_a_negative_load() -> None:
    used_s = [5.0, 4.99]
    meter = CpuMeter(0, least_us=1, used_s=lambda: used_s.pop(0))
    assert meter.load(1_000_000) == 0


def test_the_process_is_asked_for_its_own_cpu_time() -> None:
    """Both count user and system time; psutil's is rounded to the kernel's hundredths."""
    before_s = time.process_time()
    used_s = process_cpu_s()
    assert before_s - 0.05 <= used_s <= time.process_time() + 0.05
