"""The input of `overload --only unshed`, and what is made of its output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from bench.overload_unshed import (
    DEADLINE_MS,
    INTERVAL_MS,
    REST_S,
    TUPLES,
    Watched,
    figures,
    write_input,
)
from orchestrator.edges.sinks.delivered import Delivered
from orchestrator.manifest import load


def test_manifests_are_valid_and_ask_for_twice_the_capacity(tmp_path: Path) -> None:
    manifests = load([write_input(tmp_path, overload_s=2.0)])
    assert manifests.cluster is not None
    assert not manifests.cluster.record.admission
    (stream,) = manifests.streams
    assert stream.record.shed is None
    timestamps = parquet.read_table(tmp_path / "readings.parquet")["timestamp"].to_numpy()
    overloaded = (timestamps > REST_S * 1000) & (timestamps <= (REST_S + 2) * 1000)
    assert overloaded.sum() == 2 * 2 * 1000
    assert TUPLES / INTERVAL_MS == 2


def test_recovery_lasts_until_the_last_late_timestamp_that_entered_afterwards() -> None:
    at_ms = np.arange(1, round(2 * REST_S * 1000 + 2000) // 1000 + 1, dtype=np.int64) * 1000
    entered_us = at_ms * 1000
    late = (at_ms > REST_S * 1000) & (at_ms <= (REST_S + 5) * 1000)
    arrived_us = entered_us + np.where(late, 2 * DEADLINE_MS, 1) * 1000
    zeros = np.zeros(len(at_ms), dtype=np.int64)
    completed = pa.Table.from_pydict(
        {
            "watermark_ms": at_ms,
            "ingestion_time_us": entered_us,
            "arrived_us": arrived_us,
            **dict.fromkeys(("epoch", "lost", "generation", "next_seq", "late"), zeros),
        }
    )
    rows = pa.Table.from_pydict(
        {name: pa.array([], type=pa.int64()) for name in ("_ts", "_seq", "_generation")}
    )
    found = figures(2.0, Watched(), Delivered(completed, rows))
    assert found["unshed.recovered_s"] == 3.0
    assert found["unshed.overload_s"] == 1.0
    assert found["unshed.unaccounted"] > 0
