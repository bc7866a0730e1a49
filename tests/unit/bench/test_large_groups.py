"""The input of `large_groups`, up to the cluster that it runs on."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from pyarrow import parquet

import bench.large_groups
from bench.large_groups import FRAGMENT, GROUPS, INTERVAL_MS, write_input
from orchestrator.edges.sources import recorded
from orchestrator.edges.sources.replay import RECORDED_TIMESTAMP
from orchestrator.manifest import load


def test_each_timestamp_of_the_recording_has_all_its_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bench.large_groups, "TUPLES", 1000)
    manifests = load([write_input(tmp_path)])
    (query,), (stream,) = manifests.queries, manifests.streams
    assert set(query.record.outputs) == {FRAGMENT}
    found = recorded(stream.record)
    assert found is not None
    assert found.end_ms - found.begin_ms == (GROUPS - 1) * INTERVAL_MS
    rows = parquet.read_table(tmp_path / "large-groups.parquet").to_pylist()
    assert Counter(row[RECORDED_TIMESTAMP] for row in rows) == {
        group * INTERVAL_MS: 1000 for group in range(GROUPS)
    }
