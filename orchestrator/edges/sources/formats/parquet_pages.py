"""How much memory the texts of a Parquet file may take, found before any of them is made.

A dictionary page of few bytes may stand for very many: every row may repeat its largest text. The
metadata at the end of the file says which pages there are, but nothing keeps a file from saying so
falsely, and pyarrow reads what the pages themselves say. So this reads the headers of the pages, as
pyarrow will, and skips what lies between them.

A header is a struct of Thrift's compact protocol. What is not written as writers do (a field twice,
or of another type) is not understood, and of what is not understood there is no bound.

References
----------
Apache Parquet, *parquet.thrift*: `PageHeader`. Apache Thrift, *Thrift compact protocol encoding*.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import pyarrow as pa
from pyarrow import compute, parquet

MOST_PAGES = 1 << 14
"""Pages of a file whose headers are read."""

HEADER_BYTES = (1 << 8, 1 << 16)
"""Bytes that are read to find a header in them. Most are short; some hold the least and the
greatest text of their page."""

MOST_DEPTH = 4
"""Structs within structs: those of a page's statistics are the third."""

DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3
_HEADS = {DATA_PAGE: (5, 2), DICTIONARY_PAGE: (7, 2), DATA_PAGE_V2: (8, 4)}
"""Type of a page → the fields of its own header, and of the encoding in that."""

PLAIN, PLAIN_DICTIONARY, DELTA_LENGTH, RLE_DICTIONARY = 0, 2, 6, 8
_WITH_DICTIONARY = (PLAIN_DICTIONARY, RLE_DICTIONARY)
_WITH_TEXTS = (PLAIN, DELTA_LENGTH)
"""Encodings of pages that hold each text whole."""

_TRUE, _FALSE, _I32, _I64, _BINARY, _STRUCT = 1, 2, 5, 6, 8, 12
_Fields = dict[int, "int | _Fields | None"]


class NotUnderstood(Exception):
    """There is no bound of what pages hold, or it is too large."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """The pages of a column in a row group.

    Attributes
    ----------
    size_bytes
        What they take decompressed.
    entries
        Texts of the dictionary; 0 without one.
    has_texts
        Whether some page holds texts whole.
    """

    size_bytes: int
    entries: int
    has_texts: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Page:
    kind: int
    encoding: int
    values: int
    size_bytes: int
    end: int


def counted_columns(
    file: BinaryIO,
    coded: parquet.ParquetFile,
    texts: Sequence[str],
    rows: int,
    most_bytes: int,
) -> list[tuple[str, ...]]:
    """Of each row group, the columns whose texts must be counted before they are made.

    The texts of all others take less than some bytes in any so many rows, and lie in the pages. A
    column that has them in its dictionary alone is counted, too: that takes no longer.

    Parameters
    ----------
    file
        Open for reading; its position changes.
    coded
        The file, with texts as places in dictionaries.
    texts
        Names of the columns that are read and hold texts.
    rows, most_bytes
        The rows that are read at once, and how many bytes their texts may take.
    """
    metadata, left_bytes = coded.metadata, most_bytes // 2
    budget = iter(range(MOST_PAGES))
    counted: list[tuple[str, ...]] = []
    for number in range(metadata.num_row_groups):
        group = metadata.row_group(number)
        chunks = {one.path_in_schema: one for one in map(group.column, range(group.num_columns))}
        repeated_bytes, names = 0, list[str]()
        for name in texts:
            try:
                pages = pages_of(file, chunks[name], budget)
                if not pages.has_texts or pages.size_bytes > left_bytes:
                    raise NotUnderstood
                largest = _largest(coded, number, name, pages.entries) if pages.entries else 0
                if repeated_bytes + rows * largest > most_bytes // 2:
                    raise NotUnderstood
                left_bytes -= pages.size_bytes
                repeated_bytes += rows * largest
            except (NotUnderstood, KeyError):
                names.append(name)
        counted.append(tuple(names))
    return counted


def _largest(coded: parquet.ParquetFile, group: int, name: str, entries: int) -> int:
    """Bytes of the largest text in the dictionary of a row group, which has so many."""
    # The first row comes with the whole dictionary.
    first = next(coded.iter_batches(batch_size=1, row_groups=[group], columns=[name]), None)
    if first is None:
        raise NotUnderstood
    first.validate(full=True)
    column = first.column(0)
    if not isinstance(column, pa.DictionaryArray) or len(column.dictionary) != entries:
        raise NotUnderstood
    return compute.max(compute.binary_length(column.dictionary)).as_py() or 0


def pages_of(file: BinaryIO, column: parquet.ColumnChunkMetaData, budget: Iterator[int]) -> Pages:
    """The pages of a column of texts in a row group.

    Parameters
    ----------
    file
        Open for reading; its position changes.
    column
        What the metadata say of it.
    budget
        Gives a number for each page that may be read.

    Raises
    ------
    NotUnderstood
        A page has something else than texts, or places in a dictionary that comes first.
    """
    at = column.data_page_offset
    if column.has_dictionary_page and 0 < (column.dictionary_page_offset or 0) < at:
        at = column.dictionary_page_offset or 0
    end, left = at + column.total_compressed_size, column.num_values
    size_bytes, entries, is_first, has_texts = 0, 0, True, False
    while left > 0:
        if next(budget, None) is None:
            raise NotUnderstood
        page = _page(file, at)
        if page.kind == DICTIONARY_PAGE:
            if not is_first or page.encoding not in (PLAIN, PLAIN_DICTIONARY):
                raise NotUnderstood
            entries = page.values
            if not entries:
                raise NotUnderstood
        elif page.encoding in _WITH_TEXTS or (entries and page.encoding in _WITH_DICTIONARY):
            left -= page.values
            has_texts = has_texts or page.encoding in _WITH_TEXTS
        else:
            raise NotUnderstood
        size_bytes, at, is_first = size_bytes + page.size_bytes, page.end, False
    if left or at > end:
        # pyarrow might read other pages than these.
        raise NotUnderstood
    return Pages(size_bytes=size_bytes, entries=entries, has_texts=has_texts)


def _page(file: BinaryIO, at: int) -> _Page:
    for size in HEADER_BYTES:
        file.seek(at)
        read = file.read(size)
        try:
            fields, length = _struct(read, 0, 0)
            break
        except IndexError:
            continue
    else:
        raise NotUnderstood
    kind = _number(fields, 1)
    if kind not in _HEADS:
        raise NotUnderstood
    place, encoding = _HEADS[kind]
    head = fields.get(place)
    if not isinstance(head, dict):
        raise NotUnderstood
    return _Page(
        kind=kind,
        encoding=_number(head, encoding),
        values=_number(head, 1),
        size_bytes=_number(fields, 2),
        end=at + length + _number(fields, 3),
    )


def _number(fields: _Fields, place: int) -> int:
    found = fields.get(place)
    if not isinstance(found, int) or found < 0:
        raise NotUnderstood
    return found


def _struct(read: bytes, at: int, depth: int) -> tuple[_Fields, int]:
    """The fields of a struct, of those that are texts only that they are there; its end."""
    if depth > MOST_DEPTH:
        raise NotUnderstood
    fields: _Fields = {}
    place = 0
    while True:
        head = read[at]
        at += 1
        if not head:
            return fields, at
        step, kind = head >> 4, head & 15
        if not step:
            # Writers number fields so that none needs this form.
            raise NotUnderstood
        place += step
        value: int | _Fields | None = None
        if kind == _I32:
            value, at = _varint(read, at)
            value = (value >> 1) ^ -(value & 1)
        elif kind == _STRUCT:
            value, at = _struct(read, at, depth + 1)
        elif kind == _BINARY:
            length, at = _varint(read, at)
            at += length
        elif kind == _I64:
            _, at = _varint(read, at)
        elif kind not in (_TRUE, _FALSE):
            raise NotUnderstood
        fields[place] = value


def _varint(read: bytes, at: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = read[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise NotUnderstood
