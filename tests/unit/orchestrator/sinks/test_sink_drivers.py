"""Each delivery goes to the sink of its stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from orchestrator.host.events import Deliver
from orchestrator.records import DriverSpec
from orchestrator.sinks import SinkDrivers, read_back
from streams.chunk import Chunk, stream_schema
from tests import drivers
from tests.streams_of_numbers import chunk

drivers.register()


def delivery(stream: str, part: Chunk, sink: DriverSpec | None = None) -> Deliver:
    return Deliver(stream=stream, epoch=1, chunk=part, lost=0, arrived_us=0, sink=sink)


def test_streams_go_to_the_sinks_that_they_name(tmp_path: Path) -> None:
    text = DriverSpec(driver="text_file", options={"separator": " "})
    opened = SinkDrivers(tmp_path)
    opened.keep(delivery("a", chunk(0, [(10, 2)])))
    opened.keep(delivery("b", chunk(5, [(20, 1)]), text))
    opened.flush()
    assert read_back(tmp_path, "a").rows["number"].to_pylist() == [0, 1]
    assert (tmp_path / "b.txt").read_text() == "20 5\n"
    opened.close()


def test_a_stream_that_comes_back_with_another_sink_is_opened_anew(tmp_path: Path) -> None:
    opened = SinkDrivers(tmp_path)
    for separator in (",", ";"):
        text = DriverSpec(driver="text_file", options={"separator": separator})
        opened.keep(delivery("a", chunk(0, [(10, 1)]), text))
    opened.close()
    assert (tmp_path / "a.txt").read_text() == "10,0\n10;0\n"


def test_a_stream_that_comes_back_with_other_columns_begins_another_file(tmp_path: Path) -> None:
    schema = stream_schema({"name": "string"})
    watermarks_ms = np.array([10], dtype=np.int64)
    renamed = Chunk(
        first_seq=0,
        rows=pa.RecordBatch.from_pydict({"_ts": [10], "name": ["x"]}, schema=schema),
        watermarks_ms=watermarks_ms,
        ingestion_times_us=watermarks_ms,
    )
    opened = SinkDrivers(tmp_path)
    opened.keep(delivery("a", chunk(0, [(10, 1)])))
    opened.keep(delivery("a", renamed))
    opened.close()
    assert sorted(path.name for path in tmp_path.glob("a.rows.*")) == [
        "a.rows.0.arrows",
        "a.rows.1.arrows",
    ]
