"""Recordings are looked at when they are applied, if they are here."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.api.recordings import check_recordings
from orchestrator.errors import InvalidInput
from orchestrator.manifest import load

STREAM = """kind: Stream
name: north
site: here
columns: {number: int}
rate: 1 KB/s
from:
  replay: {path: r.parquet, begin: "1970-01-01T00:00:01Z", end: "1970-01-01T00:00:09Z"}
"""


@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ({"timestamp": [1000], "count": [1]}, "column number is missing"),
        ({"timestamp": [1000], "number": ["x"]}, "column number: "),
        ({"timestamp": [10_000], "number": [1]}, "has no tuple from"),
        ({"timestamp": [2000, 1000], "number": [1, 2]}, "timestamps fall"),
    ],
)
def test_what_cannot_be_played_is_refused_with_its_place(
    tmp_path: Path, columns: dict[str, list[object]], problem: str
) -> None:
    (tmp_path / "stream.yaml").write_text(STREAM)
    streams = load([tmp_path / "stream.yaml"]).streams
    # It may be at the site only.
    check_recordings(streams, ())
    parquet.write_table(pa.Table.from_pydict(columns), str(tmp_path / "r.parquet"))
    with pytest.raises(InvalidInput, match=problem) as caught:
        check_recordings(streams, ())
    assert "stream.yaml:6: Stream north: from: " in str(caught.value)
    check_recordings(streams, {"north"})
