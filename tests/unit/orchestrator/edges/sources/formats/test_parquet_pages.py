"""Which texts of a Parquet file are counted before they are made."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.edges.sources.formats import parquet_pages as module
from orchestrator.edges.sources.formats.files import read_rows
from orchestrator.edges.sources.formats.parquet_pages import (
    NotUnderstood,
    counted_columns,
    pages_of,
)
from orchestrator.edges.sources.formats.row_form import RowForm, Unreadable

FORM = RowForm(
    columns={"number": "int", "name": "string"}, time_column="timestamp", time_format="ms"
)
NAME = 2
DIFFERENT: list[str | None] = [f"a text of number {number}" for number in range(5000)]
KEYS: list[str | None] = ["a", "bc", None] * 2000


def _table(names: Any) -> pa.Table:
    numbers = np.arange(len(names), dtype=np.int64)
    return pa.Table.from_pydict({"timestamp": numbers, "number": numbers, "name": names})


def _written(names: Any, **options: Any) -> io.BytesIO:
    sink = io.BytesIO()
    parquet.write_table(_table(names), sink, **options)
    return sink


def _counted(file: io.BytesIO, rows: int = 2**16, most_bytes: int = 2**31) -> list[tuple[str, ...]]:
    coded = parquet.ParquetFile(file, read_dictionary=["name"])
    return counted_columns(file, coded, ["name"], rows, most_bytes)


FEW: dict[str, Any] = {"dictionary_pagesize_limit": 2**10, "data_page_size": 2**10}


@pytest.mark.parametrize(
    ("names", "options", "is_counted"),
    [
        (DIFFERENT, {"use_dictionary": False}, False),
        (DIFFERENT, FEW, False),
        (DIFFERENT, FEW | {"data_page_version": "2.0"}, False),
        (DIFFERENT, FEW | {"compression": "none"}, False),
        (DIFFERENT, {"use_dictionary": False, "compression": "zstd"}, False),
        (
            DIFFERENT,
            {"use_dictionary": False, "column_encoding": {"name": "DELTA_LENGTH_BYTE_ARRAY"}},
            False,
        ),
        (KEYS, {}, True),
        (KEYS, {"use_dictionary": False}, False),
        ([None, *DIFFERENT[1:]], FEW, False),
    ],
)
def test_texts_that_lie_in_pages_need_not_be_counted(
    names: list[str | None], options: dict[str, Any], is_counted: bool
) -> None:
    for rows in (None, 2500):
        file = _written(names, row_group_size=rows, **options)
        assert set(_counted(file)) == {("name",) if is_counted else ()}
        read = read_rows(".parquet", file, FORM)
        assert read.column("name").to_pylist() == names


def test_texts_are_counted_if_a_batch_might_have_no_room() -> None:
    file = _written(DIFFERENT, **FEW)
    longest = max(map(len, filter(None, DIFFERENT)))
    room = 2 * 2**16 * longest
    assert _counted(file, most_bytes=room) == [()]
    assert _counted(file, most_bytes=room // 2) == [("name",)]
    assert _counted(_written(DIFFERENT, use_dictionary=False), most_bytes=2**10) == [("name",)]


def test_texts_that_begin_as_the_one_before_are_counted() -> None:
    options = {"use_dictionary": False, "column_encoding": {"name": "DELTA_BYTE_ARRAY"}}
    assert _counted(_written(DIFFERENT, **options)) == [("name",)]


def test_headers_of_very_many_pages_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    file = _written(DIFFERENT, row_group_size=2500, **FEW)
    monkeypatch.setattr(module, "MOST_PAGES", 7)
    assert _counted(file)[0] == ()
    assert _counted(file)[-1] == ("name",)


def test_a_text_that_is_repeated_beside_others_is_refused_before_it_is_made() -> None:
    """A dictionary first, then pages of texts: only the dictionary says what a row may take."""
    rows, sink = 2**16, io.BytesIO()
    large = pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), ["x" * 2**16])
    others = pa.array(DIFFERENT, pa.string()).dictionary_encode()
    parts = [_table(names).to_batches()[0] for names in (large, others)]
    parquet.write_table(pa.Table.from_batches(parts), sink)
    column = parquet.ParquetFile(sink).metadata.row_group(0).column(NAME)
    assert pages_of(sink, column, iter(range(99))).has_texts
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


@dataclass
class _Claimed:
    """What metadata say of a column, rightly or not."""

    data_page_offset: int
    total_compressed_size: int
    num_values: int
    has_dictionary_page: bool = False
    dictionary_page_offset: int | None = None


def _pages(file: io.BytesIO, claimed: _Claimed) -> module.Pages:
    return pages_of(file, cast(Any, claimed), iter(range(99)))


def test_pages_are_believed_and_not_the_metadata() -> None:
    file = _written(KEYS)
    column = parquet.ParquetFile(file).metadata.row_group(0).column(NAME)
    begin = column.dictionary_page_offset
    assert begin is not None
    size = column.total_compressed_size
    # Metadata that say there is no dictionary, and have the data begin with it.
    found = _pages(file, _Claimed(begin, size, len(KEYS)))
    assert (found.entries, found.has_texts) == (2, False)
    for claimed in (
        # Places in a dictionary that has not come.
        _Claimed(column.data_page_offset, size, len(KEYS)),
        _Claimed(begin, size, len(KEYS) - 1),
        _Claimed(begin, size, len(KEYS) + 1),
        _Claimed(begin, size - 1, len(KEYS)),
        _Claimed(begin + 1, size, len(KEYS)),
        _Claimed(len(file.getvalue()) - 1, size, len(KEYS)),
    ):
        with pytest.raises(NotUnderstood):
            _pages(file, claimed)


def test_a_dictionary_that_comes_later_is_not_understood() -> None:
    pages = _written(["x"] * 10, use_dictionary=False, compression="none")
    first = parquet.ParquetFile(pages).metadata.row_group(0).column(NAME)
    coded = _written(["y"] * 10, compression="none")
    later = parquet.ParquetFile(coded).metadata.row_group(0).column(NAME)
    begin = later.dictionary_page_offset
    assert begin is not None

    def body(file: io.BytesIO, at: int, size: int) -> bytes:
        return file.getvalue()[at : at + size]

    plain = body(pages, first.data_page_offset, first.total_compressed_size)
    both = plain + body(coded, begin, later.total_compressed_size)
    found = _pages(io.BytesIO(plain), _Claimed(0, len(plain), 10))
    assert (found.entries, found.has_texts) == (0, True)
    with pytest.raises(NotUnderstood):
        _pages(io.BytesIO(both), _Claimed(0, len(both), 20))
