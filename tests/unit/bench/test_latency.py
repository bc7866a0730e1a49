"""Latencies of benchmark `latency`, and its input."""

from __future__ import annotations

import socket
import threading
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from bench import latency
from bench.spark_latency import (
    WARM_UP,
    WARM_UP_S,
    WARM_UPS,
    SparkSettings,
    feed,
    latencies_ms,
    missing,
)
from orchestrator.api import validate
from orchestrator.edges.sinks.delivered import Delivered, completed_schema
from orchestrator.errors import VivaceError
from orchestrator.manifest import load
from streams.vectors.chunk import TIMESTAMP


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


def delivered(times_ms: list[int], tuples: list[int]) -> Delivered:
    """Counts, each of which came 4 ms after its timestamp had entered."""
    distinct_ms = sorted(set(times_ms))
    completed = {name: [0] * len(distinct_ms) for name in completed_schema.names}
    completed |= {
        "watermark_ms": distinct_ms,
        "arrived_us": [4_000 + 1_000 * at for at in distinct_ms],
        "ingestion_time_us": [1_000 * at for at in distinct_ms],
    }
    return Delivered(
        pa.Table.from_pydict(completed, schema=completed_schema),
        pa.Table.from_pydict({TIMESTAMP: times_ms, "tuples": tuples}),
    )


def test_every_tuple_that_passes_has_a_latency() -> None:
    expected = latency.passing(latency.recording(2_000, 4))
    assert expected.total() == 2_000 * 4 * 9 // 10
    out = delivered(list(expected), list(expected.values()))
    found = latency.latencies_of(out, expected)
    assert found.tolist() == [4.0] * sum(expected[at] for at in expected if at >= 3_000)


@pytest.mark.parametrize(("place", "more"), [(0, -1), (-1, -1), (0, 1)])
def test_tuples_that_are_missing_or_repeated_are_noticed(place: int, more: int) -> None:
    expected = latency.passing(latency.recording(2_000, 4))
    counts = list(expected.values())
    counts[place] += more
    with pytest.raises(VivaceError, match="1 "):
        latency.latencies_of(delivered(list(expected), counts), expected)


def test_a_tuple_in_place_of_another_is_noticed() -> None:
    expected = Counter({3_000: 2, 3_005: 2})
    with pytest.raises(VivaceError, match="1 of 4 tuples"):
        latency.latencies_of(delivered([3_000, 3_005], [1, 3]), expected)


def test_spark_warms_up_before_bursts_are_due() -> None:
    given = SparkSettings(rate=1_000, seconds=1, settle_s=0, keys=10)
    warmed_up = threading.Semaphore(0)
    with (
        feed(given, warmed_up) as (port, begin_s),
        socket.create_connection(("127.0.0.1", port)) as connection,
    ):
        lines = connection.makefile()
        for _ in range(WARM_UPS):
            assert begin_s[0] == 0
            bursts = {lines.readline().split(",")[2] for _ in range(int(1_000 * WARM_UP_S))}
            assert bursts == {f"{WARM_UP}\n"}
            warmed_up.release(int(1_000 * WARM_UP_S))
        assert lines.readline() == "0,0,0\n"
        assert begin_s[0] > 0


def test_figures_are_percentiles() -> None:
    figures = latency.figures("5000.ours", np.arange(101.0))
    assert figures == {"5000.ours.p50_ms": 50.0, "5000.ours.p99_ms": 99.0}


def test_tuples_that_never_come_out_are_known_by_their_burst() -> None:
    bursts = np.array([1, 2, 1])
    arrived = [(1.0, bursts, np.array([4, 5, 1])), (2.0, bursts[:1], np.array([2]))]
    assert missing(np.array([3, 10, 5]), arrived).tolist() == [3, 3, 0]
