"""Options of Spark's data source: what is wrong is named, and where it was looked for."""

from __future__ import annotations

import re
from pathlib import Path
from socket import gethostname

import pytest
from pyspark.sql.types import StructField, StructType, TimestampType

from vivace.spark.files import TargetFolder
from vivace.spark.options import Options

GIVEN = {"address": "http://127.0.0.1:1", "stream": "north"}


def test_a_token_comes_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" a-token-that-nobody-guesses\n")
    found = Options.read({**GIVEN, "tokenFile": str(tmp_path / "token"), "patience": "1.5"})
    assert (found.token, found.patience_s) == ("a-token-that-nobody-guesses", 1.5)


def test_a_token_file_that_is_not_there_is_named_with_the_machine(tmp_path: Path) -> None:
    missing = str(tmp_path / "token")
    said = f'"tokenFile" is {missing!r}, which cannot be read at {gethostname()} (No such file'
    with pytest.raises(ValueError, match=re.escape(said)):
        Options.read({**GIVEN, "tokenFile": missing})


def test_an_unknown_option_is_named_with_those_that_are_known() -> None:
    said = (
        'vivace: there is no option "startingoffset"; there are address, stream, token, tokenFile, '
        "patience, path, timestamp, names, id, startingOffsets, maxRowsPerBatch, maxBytesPerBatch, "
        "startingTimestamp, endingTimestamp, partitions"
    )
    with pytest.raises(ValueError, match=re.escape(said)):
        Options.read({**GIVEN, "startingoffset": "latest"})
    schema = StructType([StructField("at", TimestampType())])
    with pytest.raises(ValueError, match='no option "name"; there are'):
        TargetFolder.read({"path": "/data", "timestamp": "at", "name": "n-###.arrow"}, schema)


def test_what_spark_adds_of_its_own_is_known() -> None:
    """As PySpark 4.3 passes what a query is started with, in small letters."""
    spark = {"queryname": "monday", "checkpointlocation": "/data/checkpoint"}
    assert Options.read({**GIVEN, **spark}).stream == "north"
    schema = StructType([StructField("at", TimestampType())])
    written = TargetFolder.read({"path": "/data", "timestamp": "at", **spark}, schema)
    assert written.path == Path("/data")


@pytest.mark.parametrize("patience", ["soon", "-1", "nan", "inf", ""])
def test_patience_is_a_number_of_seconds(patience: str) -> None:
    with pytest.raises(ValueError, match=f'"patience" is {patience!r}, no number of seconds'):
        Options.read({**GIVEN, "patience": patience})
