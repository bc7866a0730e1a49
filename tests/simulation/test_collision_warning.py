"""The worked timings of deadline placement, §4.1, to the millisecond (`bench.collision_moment`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.collision_moment import car
from streams.scheduling.run_queue import Policy


def test_deadline_placement_and_edf_keep_both_deadlines_exactly(tmp_path: Path) -> None:
    made = car(tmp_path, "deadline", Policy.EDF)
    # p2: 100 old + 20·2 + 10·16; p1: 20 until p2 is through o2, and 10.
    assert made.latency_ms("o21") == pytest.approx(300.0, abs=0.002)
    assert made.latency_ms("o21") <= 300.0
    assert made.latency_ms("o1") == pytest.approx(30.0, abs=0.002)
    assert made.latency_ms("o1") <= 30.0


def test_the_existing_placement_misses_one_or_the_other(tmp_path: Path) -> None:
    """With p1 first p2 takes 310 ms, with p2 first p1 takes 50."""
    (tmp_path / "edf").mkdir()
    made = car(tmp_path / "edf", "existing", Policy.EDF)
    assert made.latency_ms("o1") == pytest.approx(30.0, abs=0.002)
    assert made.latency_ms("o21") == pytest.approx(310.0, abs=0.002)
    (tmp_path / "fifo").mkdir()
    made = car(tmp_path / "fifo", "existing", Policy.FIFO)
    assert made.latency_ms("o1") == pytest.approx(50.0, abs=0.002)


def test_fifo_lets_old_tuples_of_the_centre_go_first(tmp_path: Path) -> None:
    made = car(tmp_path, "deadline", Policy.FIFO)
    # p2 waits for 200 − 20 ms in node 2.
    assert made.latency_ms("o21") == pytest.approx(100 + 20 + 180 + 180, abs=0.002)
    assert made.latency_ms("o5") <= 3000.0
