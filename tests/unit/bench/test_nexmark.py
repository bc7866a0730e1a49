"""The queries of NEXMark give what their definition gives; the generator keeps its promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from bench import nexmark, nexmark_results
from bench.nexmark_changes import changes
from bench.nexmark_events import BEGIN_MS, EVENTS_MS, Events
from bench.throughput import DifferentResults
from streams.plan.program import Program
from tests.property.streams.stepwise import Stepwise

COUNT = 250


def defined(
    compiled: dict[str, Program], tables: dict[str, pa.Table], until_ms: int
) -> list[tuple[Any, ...]]:
    """The output by the definition of each fragment."""
    streams = {
        name: [tuple(row.values()) for row in each.to_pylist()] for name, each in tables.items()
    }
    found: list[tuple[Any, ...]] = []
    for name, program in compiled.items():
        inputs = {
            stream: [
                (row[0], tuple(row[place] for place in program.read_places(stream)))
                for row in streams[stream]
            ]
            for stream in program.inputs
        }
        found = [(at, *row) for at, row in Stepwise(program).run(inputs, until_ms)]
        streams[name] = found
    return found


@pytest.mark.parametrize("name", nexmark.queries)
def test_a_query_gives_what_its_definition_gives(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nexmark, "AFTER_MS", 86_400_000)
    tables = dict(Events(COUNT, seed=3).tables())
    compiled = dict(nexmark.programs(name))
    end_ms = BEGIN_MS + COUNT // EVENTS_MS
    slices = {
        stream: nexmark.sliced(tables[stream], program.input_columns[stream], BEGIN_MS, end_ms, 7)
        for program in compiled.values()
        for stream in program.inputs
        if stream in tables
    }
    ours = nexmark.evaluate(name, compiled, slices)
    expected = defined(compiled, tables, end_ms + nexmark.AFTER_MS)
    assert [tuple(row.values()) for row in ours.to_pylist()] == expected
    # So few events have nothing of the right auctions and states.
    assert expected or name in ("q2", "q3")


def test_events_come_in_their_proportions() -> None:
    tables = Events(5_000).tables()
    assert [tables[name].num_rows for name in nexmark_results.STREAMS] == [100, 300, 4_600]
    for table in tables.values():
        assert (np.diff(table.column("timestamp").to_numpy()) >= 0).all()
    auctions, bids = tables["auctions"], tables["bids"]
    assert auctions.column("id").to_pylist() == list(range(1_000, 1_300))
    assert (auctions.column("expires").to_numpy() > auctions.column("timestamp").to_numpy()).all()
    # Half of the bids are on the hot auction of their time.
    hot = np.count_nonzero(bids.column("auction").to_numpy() % 100 == 0) / bids.num_rows
    assert 0.4 < hot < 0.6
    assert Events(5_000).tables()["bids"] == bids


def test_different_results_are_noticed() -> None:
    one = pa.Table.from_pydict({"a": [1, 2], "x": [0.5, 1.5]})
    nexmark_results.compare(one, pa.Table.from_pydict({"x": [1.5, 0.5], "a": [2, 1]}))
    for other in (
        {"a": [1, 2], "x": [0.5, 1.6]},
        {"a": [1], "x": [0.5]},
        {"a": [1, 3], "x": [0.5, 1.5]},
    ):
        with pytest.raises(DifferentResults):
            nexmark_results.compare(one, pa.Table.from_pydict(other))


def told(name: str, folder: Path) -> tuple[pa.Table, pa.Table]:
    """The output of a query over some events, and what DuckDB says of its changes."""
    tables = Events(20_000, seed=3).tables()
    for stream, table in tables.items():
        parquet.write_table(table, str(folder / f"{stream}.parquet"))
    compiled = nexmark.programs(name)
    end_ms = BEGIN_MS + 20_000 // EVENTS_MS
    slices = {
        stream: nexmark.sliced(
            tables[stream], program.input_columns[stream], BEGIN_MS, end_ms, 5_000
        )
        for program in compiled.values()
        for stream in program.inputs
        if stream in tables
    }
    theirs = nexmark_results.connected(folder).sql(changes[name]).to_arrow_table()
    return nexmark.evaluate(name, compiled, slices), theirs


@pytest.mark.parametrize("name", list(changes))
def test_every_change_is_compared(name: str, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    ours, theirs = told(name, tmp_path)
    nexmark_results.compare(ours, theirs)
    # Rows that no longer hold in the end count as well.
    assert nexmark_results.newest(name, ours).num_rows < ours.num_rows
    place = ours.column_names.index("mean" if name == "q4" else "price")
    values = ours.column(place).to_numpy().copy()
    values[0] = -1
    wrong = ours.set_column(place, ours.schema.field(place), pa.array(values))
    with pytest.raises(DifferentResults):
        nexmark_results.compare(wrong, theirs)


def test_of_changes_the_newest_hold_in_the_end() -> None:
    ours = pa.Table.from_pydict({"_ts": [1, 2, 2], "category": [7, 7, 8], "mean": [1.0, 2.0, 3.0]})
    left = nexmark_results.newest("q4", ours).sort_by("category")
    assert left.to_pylist() == [{"category": 7, "mean": 2.0}, {"category": 8, "mean": 3.0}]
