"""What kind `cluster` of benchmark `nexmark` plays, and how it judges what came."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from bench.nexmark_cluster import FULL_SPEED, QUERIES, compared, played_at
from bench.nexmark_events import BEGIN_MS, EVENTS_MS, Events
from bench.throughput import DifferentResults
from orchestrator.edges.sinks.delivered import GENERATION, SEQUENCE
from orchestrator.edges.sources import recorded

COUNT = 2_000
END_MS = BEGIN_MS + COUNT // EVENTS_MS - 1


@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize(("speed", "told"), [(5, 5), (FULL_SPEED, 5)])
def test_recordings_play_faster_and_only_the_greatest_speed_is_kept_from_admission(
    name: str, speed: float, told: float
) -> None:
    manifests = played_at(name, Path("/recordings"), END_MS, speed)
    assert manifests.cluster is not None
    assert manifests.cluster.record.admission is (speed != FULL_SPEED)
    assert [query.record.name for query in manifests.queries] == [name]
    rates = {each.record.name: each.record.rate_bytes_s for each in manifests.streams}
    assert rates == {
        "persons": 40_000 * told, "auctions": 160_000 * told, "bids": 1_800_000 * told
    }  # fmt: skip
    for each in manifests.streams:
        found = recorded(each.record)
        assert found is not None
        assert (found.speed, found.end_ms) == (speed, END_MS)
        assert found.recording == Path(f"/recordings/{each.record.name}.parquet")


def test_rows_are_compared_up_to_the_end_of_the_recordings(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    tables = Events(COUNT).tables()
    for stream, table in tables.items():
        parquet.write_table(table, tmp_path / f"{stream}.parquet")
    bids = tables["bids"]
    half_ms = BEGIN_MS + COUNT // EVENTS_MS // 2
    kept = bids.filter(bids["timestamp"].to_numpy() <= half_ms)
    prices = pa.array([0.908 * price for price in kept["price"].to_pylist()])
    rows = pa.Table.from_pydict(
        {
            GENERATION: pa.array([1] * kept.num_rows),
            SEQUENCE: pa.array(range(kept.num_rows)),
            "_ts": kept["timestamp"],
            "auction": kept["auction"],
            "bidder": kept["bidder"],
            "price": prices,
            "extra": kept["extra"],
        }
    )
    compared(rows, "q1", tmp_path, half_ms)
    with pytest.raises(DifferentResults):
        compared(rows.slice(1), "q1", tmp_path, half_ms)
