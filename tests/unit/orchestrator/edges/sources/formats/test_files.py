"""Recordings of every kind are played alike; those that do not fit are refused, not empty."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, ipc, parquet

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.sources.formats import files as module
from orchestrator.edges.sources.formats.files import read_file, read_rows
from orchestrator.edges.sources.formats.row_form import RowForm, Unreadable
from orchestrator.edges.sources.replay import Recording, Replay

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
        ("a.jsonl", b"{", "no JSON: Missing a name"),
    ],
)
def test_files_that_cannot_be_read(tmp_path: Path, name: str, content: bytes, problem: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(Unreadable, match=problem):
        read_file(tmp_path / name, FORM)
    with pytest.raises(Unreadable, match=r"ends with none|No such file|Failed to open"):
        read_file(tmp_path / f"missing-{name}", FORM)


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_are_refused_or_hold_what_can_be_read(suffix: str, seed: int) -> None:
    """pyarrow gives arrays that lie outside of their memory, and raises what it does not tell."""
    sink = io.BytesIO()
    if suffix == ".parquet":
        parquet.write_table(TABLE, sink)
    else:
        writer = (ipc.new_stream if suffix == ".arrows" else ipc.new_file)(sink, TABLE.schema)
        writer.write_table(TABLE)
        writer.close()
    whole = sink.getvalue()
    random = Random(seed)
    refused = 0
    for _ in range(300):
        body = bytearray(whole)
        for _ in range(random.randint(1, 4)):
            body[random.randrange(len(body))] = random.choice([0, 127, 128, 255])
        cut = random.choice([len(body), random.randrange(len(body))])
        try:
            read_rows(suffix, io.BytesIO(bytes(body[:cut])), FORM).to_pylist()
        except Unreadable:
            refused += 1
    assert refused > 100


def test_a_text_that_a_dictionary_repeats_is_refused_before_it_is_made() -> None:
    sink, rows = io.BytesIO(), 2**16
    texts = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), ["x" * 2**16])
    numbers = np.zeros(rows, dtype=np.int64)
    table = pa.Table.from_pydict({"timestamp": numbers, "number": numbers, "name": texts})
    parquet.write_table(table, sink)
    assert len(sink.getvalue()) < 2**20
    ours = pa.default_memory_pool()
    counted = pa.proxy_memory_pool(ours)
    pa.set_memory_pool(counted)
    try:
        with pytest.raises(Unreadable, match="bytes; write smaller files"):
            read_rows(".parquet", sink, FORM)
        peak = counted.max_memory()
    finally:
        pa.set_memory_pool(ours)
    assert peak is not None
    assert peak < 2**26


def _bomb(suffix: str) -> bytes:
    """Few bytes that hold many."""
    sink = io.BytesIO()
    rows = 2**18
    table = pa.Table.from_pydict(
        {"timestamp": [0] * rows, "number": [0] * rows, "name": ["x" * 100] * rows}
    )
    if suffix == ".parquet":
        parquet.write_table(table, sink)
    else:
        options = ipc.IpcWriteOptions(compression="zstd")
        make = ipc.new_stream if suffix == ".arrows" else ipc.new_file
        writer = make(sink, table.schema, options=options)
        writer.write_table(table)
        writer.close()
    return sink.getvalue()


@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_files_that_hold_much_more_than_their_size_are_refused(
    suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = _bomb(suffix)
    assert len(body) < 2**20
    assert read_rows(suffix, io.BytesIO(body), FORM).num_rows == 2**18
    monkeypatch.setattr(module, "MOST_BYTES", 2**23)
    with pytest.raises(Unreadable, match="more than 8388608 bytes; write smaller files"):
        read_rows(suffix, io.BytesIO(body), FORM)
    monkeypatch.setattr(module, "MOST_ROWS", 2**18 - 1)
    with pytest.raises(Unreadable, match=r"more than"):
        read_rows(suffix, io.BytesIO(body), FORM)


def test_a_pipe_is_no_recording(tmp_path: Path) -> None:
    """Whoever opened it would wait for a writer for ever."""
    path = tmp_path / "recording.csv"
    os.mkfifo(path)
    with pytest.raises(Unreadable, match="is no regular file"):
        read_file(path, FORM)
