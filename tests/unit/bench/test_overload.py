"""The input of `overload`, up to the cluster that it runs on."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow import parquet

from bench.overload import ALARMS, KEPT_READINGS, READINGS, write_input
from orchestrator.manifest import load


def test_manifests_are_valid_and_enter_twice_what_the_host_can_process(tmp_path: Path) -> None:
    manifests = load([write_input(tmp_path, seconds=2.0)])
    assert manifests.cluster is not None
    assert manifests.cluster.record.emulate_costs
    (query,) = manifests.queries
    assert set(query.record.outputs) == {"urgent", "archived"}
    shed = {stream.record.name: stream.record.shed for stream in manifests.streams}
    assert shed["alarms"] is None
    assert shed["readings"] is not None
    assert shed["readings"].tuples == KEPT_READINGS
    seconds = {"alarms": ALARMS, "readings": READINGS}
    for stream in manifests.streams:
        rows = parquet.read_table(tmp_path / f"{stream.record.name}.parquet").num_rows
        assert rows == seconds[stream.record.name] * 100


def test_the_emulated_cost_is_that_which_the_load_is_made_for(tmp_path: Path) -> None:
    manifests = load([write_input(tmp_path, seconds=1.0)])
    (query,) = manifests.queries
    costs = {name: estimate.cost_us for name, estimate in query.record.estimates.items()}
    assert costs == pytest.approx({"urgent": 1000.0, "archived": 1000.0})
