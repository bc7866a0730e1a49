"""Tables that people give to bulk planning: files of Parquet or CSV, read part by part.

A table is a file, or a folder of files such as Spark writes. What cannot be used is refused with
the file, the row and the column where it stands. Rows are counted from 1; the line of a CSV file
that names the columns is none.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv as arrow_csv
from pyarrow import parquet

from foundation.arrays import FloatArray
from orchestrator.errors import InvalidInput

PARQUET, CSV = ".parquet", ".csv"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TableRows:
    """Some rows of a file.

    Attributes
    ----------
    first
        Number of the first one, counted from 1.
    """

    file: Path
    first: int
    batch: pa.RecordBatch

    def __len__(self) -> int:
        return self.batch.num_rows

    def has(self, column: str) -> bool:
        """Whether there is such a column."""
        return column in self.batch.schema.names

    def refusal(
        self, at: int, field: str, value: object, problem: str, remedy: str
    ) -> InvalidInput:
        """The error about a value in one of the rows, by its place among them."""
        return InvalidInput(f"{self.file}, row {self.first + at}", field, value, problem, remedy)

    def names(self, column: str) -> pa.Array:
        """A column of names, whole numbers or texts.

        Raises
        ------
        InvalidInput
            It holds other values, or a row has none.
        """
        names = self.batch.column(column)
        if isinstance(names.type, pa.DictionaryType):
            names = names.cast(names.type.value_type)
        if pa.types.is_large_string(names.type) or pa.types.is_string_view(names.type):
            names = names.cast(pa.string())
        if not (pa.types.is_integer(names.type) or pa.types.is_string(names.type)):
            raise InvalidInput(
                str(self.file),
                column,
                str(names.type),
                "is no type of names",
                "Write whole numbers or texts.",
            )
        for at in _first(names.is_null()):
            raise self.refusal(at, column, None, "is missing", "Every row needs one.")
        if pa.types.is_string(names.type):
            for at in _first(pc.equal(names, "")):
                raise self.refusal(at, column, "", "is empty", "Every row needs one.")
        return names

    def texts(self, column: str) -> list[str]:
        """`names` as texts."""
        return self.names(column).cast(pa.string()).to_pylist()

    def numbers(
        self, column: str, least: float = -math.inf, *, default: float | None = None
    ) -> FloatArray:
        """A column of numbers, shape (rows,).

        Parameters
        ----------
        least
            Least number that can be used.
        default
            For rows without a number, or all of them if there is no such column; None: each row
            needs one.

        Raises
        ------
        InvalidInput
            A number is missing, is none, or is too small.
        """
        if default is not None and not self.has(column):
            return np.full(len(self), default)
        found = self._doubles(column)
        remedy = "Write a number" + (f" ≥ {least:g}." if math.isfinite(least) else ".")
        missing = found.is_null()
        if default is None:
            for at in _first(missing):
                raise self.refusal(at, column, None, "is missing", remedy)
        values = found.fill_null(least if default is None else default).to_numpy()
        wrong = ~np.isfinite(values) & ~missing.to_numpy(zero_copy_only=False)
        for at in np.flatnonzero(wrong | (values < least))[:1].tolist():
            value = float(values[at])
            problem = f"is below {least:g}" if value < least else "is no number"
            raise self.refusal(at, column, value, problem, remedy)
        return values

    def _doubles(self, column: str) -> pa.Array:
        given = self.batch.column(column)
        try:
            return given.cast(pa.float64())
        except pa.ArrowException:
            for at in range(len(given)):
                try:
                    given.slice(at, 1).cast(pa.float64())
                except pa.ArrowException:
                    value = given[at].as_py()
                    raise self.refusal(
                        at, column, value, "is no number", "Write a number."
                    ) from None
            raise


def read_table(
    path: Path, needed: Sequence[str], optional: Iterable[str] = ()
) -> Iterator[TableRows]:
    """The rows of a table, file by file.

    Parameters
    ----------
    needed, optional
        Columns that are read. Others are left alone.

    Raises
    ------
    InvalidInput
        There is no such table, a column is missing, or a file is damaged.
    """
    for file in files_of(path):
        present = columns_of(file)
        for name in needed:
            if name not in present:
                raise InvalidInput(
                    str(file),
                    name,
                    None,
                    f"is missing among the columns {', '.join(present)}",
                    f"Each row needs {', '.join(needed)}.",
                )
        for name in (*needed, *optional):
            if present.count(name) > 1:
                problem, remedy = "is there twice among the columns", "Leave one of them out."
                raise InvalidInput(str(file), name, None, problem, remedy)
        first = 1
        for batch in _batches(file, [*needed, *(name for name in optional if name in present)]):
            yield TableRows(file=file, first=first, batch=batch)
            first += batch.num_rows


def files_of(path: Path) -> list[Path]:
    """The files of a table.

    Raises
    ------
    InvalidInput
        There are none.
    """
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError as error:
        raise _unreadable(path, error.strerror) from None
    # As Spark's readers do: what it writes besides begins so.
    kept = [file for file in files if file.suffix in (PARQUET, CSV) and file.name[0] not in "._"]
    if path.is_dir() and not kept:
        raise InvalidInput(
            str(path), "", None, f"holds no file *{PARQUET} or *{CSV}", "Name another folder."
        )
    if not path.exists():
        raise InvalidInput(str(path), "", None, "does not exist", "Check the path.")
    if not kept:
        remedy = f"Name a file *{PARQUET} or *{CSV}, or a folder of them."
        raise InvalidInput(str(path), "", path.suffix, "is no suffix of a table", remedy)
    return kept


def columns_of(file: Path) -> list[str]:
    """The columns of a file.

    Raises
    ------
    InvalidInput
        It cannot be read.
    """
    try:
        if file.suffix == CSV:
            with file.open(encoding="utf-8-sig", newline="") as lines:
                return next(csv.reader(lines), list[str]())
        return list(parquet.ParquetFile(file).schema_arrow.names)
    except (OSError, UnicodeDecodeError, pa.ArrowException, csv.Error) as error:
        raise _unreadable(file, error) from None


def _batches(file: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    try:
        if file.suffix == CSV:
            yield from arrow_csv.open_csv(
                file,
                # As texts: a value that is no number is refused with its row.
                convert_options=arrow_csv.ConvertOptions(
                    column_types={name: pa.string() for name in columns},
                    include_columns=columns,
                    null_values=[""],
                    strings_can_be_null=True,
                ),
            )
            return
        for batch in parquet.ParquetFile(file).iter_batches(columns=columns):
            # A damaged file gives arrays that lie outside of their memory.
            batch.validate(full=True)
            yield batch
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(file, error) from None


def _unreadable(file: Path, error: object) -> InvalidInput:
    reason = " ".join(str(error).split())
    return InvalidInput(str(file), "", None, f"cannot be read ({reason})", "Check the file.")


def _first(found: pa.Array) -> list[int]:
    """Place of the first row that is so, if one is."""
    return np.flatnonzero(found.to_numpy(zero_copy_only=False))[:1].tolist()
