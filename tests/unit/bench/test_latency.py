"""Latencies of benchmark `latency`, and its input."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from bench import latency
from bench.spark_latency import latencies_ms, missing
from orchestrator.api import validate
from orchestrator.manifest import load


def test_the_manifests_are_right(tmp_path: Path) -> None:
    document = validate(load([latency.write_input(tmp_path, 5_000, 1)]))
    assert document.queries == {"latency": {"kept": ("numbers",), "counted": ("kept",)}}
    assert document.evaluations["latency"]["counted"] == "panes"


def test_tuples_of_an_interval_enter_at_its_end() -> None:
    table = latency.recording(2_000, 1)
    times_ms, counts = np.unique(table["timestamp"].to_numpy(), return_counts=True)
    assert times_ms.tolist() == list(range(5, 1_001, 5))
    assert set(counts.tolist()) == {10}


def test_latencies_count_each_tuple_from_its_burst() -> None:
    arrived = [
        (10.020, np.array([0, 1]), np.array([1, 2])),
        (10.030, np.array([2]), np.array([3])),
    ]
    found = latencies_ms(arrived, begin_s=10.0, settle_s=0.004)
    assert np.round(found, 6).tolist() == [15, 15, 20, 20, 20]


def test_figures_are_percentiles() -> None:
    figures = latency.figures("5000.ours", np.arange(101.0))
    assert figures == {"5000.ours.p50_ms": 50.0, "5000.ours.p99_ms": 99.0}


def test_tuples_that_never_come_out_are_known_by_their_burst() -> None:
    bursts = np.array([1, 2, 1])
    arrived = [(1.0, bursts, np.array([4, 5, 1])), (2.0, bursts[:1], np.array([2]))]
    assert missing(np.array([3, 10, 5]), arrived).tolist() == [3, 3, 0]
