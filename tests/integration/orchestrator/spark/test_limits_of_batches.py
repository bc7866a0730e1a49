"""The edges of what Spark writes and reads, without a session of Spark."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import ipc
from pyspark.sql.types import LongType, StructField, StructType

from orchestrator.edges.sources.formats.files import MOST_BYTES
from orchestrator.edges.sources.formats.row_form import MOST_ROWS
from vivace.spark import files
from vivace.spark.options import Options
from vivace.spark.reading import ResultsStreamReader


def test_a_batch_that_no_site_would_read_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (files.MOST_ROWS, files.MOST_BYTES) == (MOST_ROWS, MOST_BYTES)
    monkeypatch.setattr(files, "MOST_ROWS", 10)
    schema = StructType([StructField("at", LongType())])
    target = files.TargetFolder.read({"path": str(tmp_path), "timestamp": "at"}, schema)
    staged = target.staged("query", 0)
    staged.mkdir(parents=True)
    rows = pa.RecordBatch.from_arrays([pa.array(range(11), pa.int64())], names=["at"])
    writer = ipc.new_file(str(staged / "0-a.arrow"), rows.schema)
    writer.write_batch(rows)
    writer.close()
    with pytest.raises(RuntimeError, match=r"11 rows .* at most 10 rows"):
        files.FilesWriter(target, schema).commit([files.Staged("query", 0, 0, "0-a.arrow")], 0)
    assert [each for each in tmp_path.iterdir() if each.is_file()] == []


@pytest.mark.parametrize("most", ["-5", "0"])
def test_a_limit_with_which_an_offset_would_go_back_is_refused(most: str) -> None:
    options = Options.read({"address": "http://a:1", "stream": "hot", "maxRowsPerBatch": most})
    reader = ResultsStreamReader(options, StructType([StructField("_ts", LongType())]))
    with pytest.raises(ValueError, match="maxRowsPerBatch"):
        reader.getDefaultReadLimit()
