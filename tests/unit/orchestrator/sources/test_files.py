"""Recordings of every kind are played alike; those that do not fit are refused, not empty."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest
from pyarrow import csv, ipc, parquet

from orchestrator.drivers import DriverError
from orchestrator.sources.files import read_file
from orchestrator.sources.formats import RowForm, Unreadable
from orchestrator.sources.replay import Recording, Replay

COLUMNS = {"number": "int", "name": "string"}
FORM = RowForm(columns=COLUMNS, time_column="timestamp", time_format="ms")
TABLE = pa.Table.from_pydict(
    {"name": ["a", None, "c"], "timestamp": [1000, 1000, 2500], "number": [1, 2, None]}
)


def _arrow(table: pa.Table, path: Path) -> None:
    with path.open("wb") as file:
        make = ipc.new_stream if path.suffix == ".arrows" else ipc.new_file
        writer = make(file, table.schema)
        writer.write_table(table)
        writer.close()


def _json(table: pa.Table, path: Path) -> None:
    path.write_bytes(b"\n".join(msgspec.json.encode(row) for row in table.to_pylist()))


WRITERS: dict[str, Callable[[pa.Table, Path], None]] = {
    ".parquet": lambda table, path: parquet.write_table(table, str(path)),
    ".arrow": _arrow,
    ".arrows": _arrow,
    ".csv": lambda table, path: csv.write_csv(table, str(path)),
    ".jsonl": _json,
}


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_kind_of_file_is_the_same_recording(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"recording{suffix}"
    WRITERS[suffix](TABLE, path)
    recording = Recording.load(Replay(path=str(path), begin_ms=1000, end_ms=3000), COLUMNS)
    assert recording.rows.to_pylist() == [
        {"_ts": 1000, "number": 1, "name": "a"},
        {"_ts": 1000, "number": 2, "name": None},
        {"_ts": 2500, "number": None, "name": "c"},
    ]


def test_a_timestamp_of_another_name_and_format(tmp_path: Path) -> None:
    path = tmp_path / "recording.csv"
    path.write_text("at,number,name\n1970-01-01T00:00:01Z,1,a\n")
    replay = Replay(path=str(path), begin_ms=0, end_ms=2000, time_column="at", time_format="iso")
    assert Recording.load(replay, COLUMNS).rows.column(0).to_pylist() == [1000]


@pytest.mark.parametrize(
    ("timestamps", "problem"),
    [
        ([5000, 6000], "has no tuple from 1970-01-01T00:00:00Z to .*: it goes from .*05Z to .*06Z"),
        ([1000, 900], r"fall after row 1\. Sort the file by timestamp\."),
    ],
)
def test_a_recording_that_cannot_be_played_is_refused(
    tmp_path: Path, timestamps: list[int], problem: str
) -> None:
    path = tmp_path / "recording.parquet"
    parquet.write_table(
        pa.Table.from_pydict({"timestamp": timestamps, "number": [1, 2], "name": ["", ""]}),
        str(path),
    )
    with pytest.raises(DriverError, match=problem):
        Recording.load(Replay(path=str(path), begin_ms=0, end_ms=2000), COLUMNS)


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("a.txt", b"", "ends with none of .parquet"),
        ("a.parquet", b"PAR1", "."),
        ("a.arrow", b"ARROW1", "."),
        ("a.csv", b"timestamp,number\n", "column name is missing"),
        ("a.jsonl", b"{", "JSON parse error"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreadable, match=problem):
        read_file(tmp_path / name, FORM)
    with pytest.raises(Unreadable, match=r"ends with none|No such file|Failed to open"):
        read_file(tmp_path / f"missing-{name}", FORM)
