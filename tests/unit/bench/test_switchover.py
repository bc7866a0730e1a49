"""What benchmark `switchover` makes of an archive."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from bench.switchover import Operated, figures, seen
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE, Delivered, completed_schema
from orchestrator.errors import VivaceError
from streams.vectors.chunk import TIMESTAMP

SECOND_US = 1_000_000


def delivered(latencies_ms: dict[int, float]) -> Delivered:
    """One tuple every 10 ms for five seconds; some are delivered later than after 20 ms."""
    entered_us = np.arange(0, 5 * SECOND_US, 10_000)
    late_us = np.array([1000 * latencies_ms.get(int(us) // 1000, 20.0) for us in entered_us])
    count = len(entered_us)
    completed = {
        "watermark_ms": entered_us // 1000,
        "ingestion_time_us": entered_us,
        "arrived_us": entered_us + late_us.astype(np.int64),
        "epoch": np.ones(count, dtype=np.int64),
        "lost": np.zeros(count, dtype=np.int64),
        "generation": np.ones(count, dtype=np.int64),
        "next_seq": np.arange(count) + 1,
        "late": np.zeros(count, dtype=np.int64),
    }
    rows = {
        GENERATION: np.ones(count, dtype=np.int64),
        SEQUENCE: np.arange(count),
        TIMESTAMP: entered_us // 1000,
        "number": np.arange(count),
    }
    arrays = [pa.array(values) for values in completed.values()]
    numbered = pa.schema([pa.field(name, pa.int64()) for name in rows])
    return Delivered(
        pa.Table.from_batches([pa.RecordBatch.from_arrays(arrays, schema=completed_schema)]),
        pa.Table.from_batches(
            [pa.RecordBatch.from_arrays([pa.array(v) for v in rows.values()], schema=numbered)]
        ),
    )


def test_a_stretch_counts_what_entered_in_it() -> None:
    found = seen(delivered({2500: 400.0, 1500: 500.0}), 2 * SECOND_US, 4 * SECOND_US)
    assert found.misses_s == 0.5
    assert found.latency_ms_max == 400.0
    assert found.silence_ms == pytest.approx(20.0)


def test_each_kind_stands_beside_its_quiet_seconds() -> None:
    operated = [
        Operated(kind="switchover", began_us=2 * SECOND_US, ended_us=2_100_000, done=True),
        Operated(kind="drain", began_us=4 * SECOND_US, ended_us=4_500_000, done=False),
    ]
    flat = figures(delivered({2500: 400.0, 3500: 600.0}), operated)
    assert (flat["switchover.misses_s_max"], flat["switchover.quiet_misses_s_max"]) == (1.0, 0.0)
    assert (flat["drain.misses_s_max"], flat["drain.quiet_misses_s_max"]) == (0.0, 1.0)
    assert (flat["switchover.done"], flat["drain.done"]) == (1, 0)
    assert flat["drain.took_ms_max"] == 500.0


def test_an_output_that_has_ended_is_no_success() -> None:
    last = Operated(kind="drain", began_us=5 * SECOND_US, ended_us=5_100_000, done=True)
    with pytest.raises(VivaceError, match="has ended"):
        figures(delivered({}), [last])
