"""Batches of a streaming query as numbered files, which any number of sites read.

What tasks send to a site, that site alone has. A folder that several machines reach is read by all
of them: two sites whose source is `folder` with the same `names` number its rows alike, and one
takes over from the other. So Spark writes each batch as one file, sorted by its timestamps.

Tasks write their parts to hidden files. The driver merges the parts of a batch, and gives the file
its name at once. The name has the number of the batch, which Spark keeps in the checkpoint: a batch
that is written again is there already. The file says which query has written it, because another
one would count from 0 too.
"""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import compute, ipc
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from vivace.spark.options import by_name
from vivace.spark.writing import batch_of_task, task

NAMES = "batch-#########.arrow"

PIECE_ROWS = 65_536
"""Rows of one record batch of a file."""

MOST_ROWS, MOST_BYTES = 2**24, 2**31
"""What sites read of one file."""

_QUERY = b"vivace.query"


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetFolder:
    """The folder that a query writes to.

    Attributes
    ----------
    path
        The folder.
    names
        Of its files, with `#` for the digits of their numbers.
    timestamp
        Column to sort by.
    """

    path: Path
    names: str
    timestamp: str

    @staticmethod
    def read(given: Mapping[str, str], schema: StructType) -> TargetFolder:
        """Options as Spark has them.

        Raises
        ------
        ValueError
            Saying which one is missing, wrong or unknown.
        """
        named = by_name(given)
        timestamp, names = named.get("timestamp"), named.get("names", NAMES)
        if timestamp not in schema.fieldNames():
            raise ValueError(
                f'vivace: the option "timestamp" is {timestamp!r}; it names the column with event '
                f"time, one of {', '.join(schema.fieldNames())}"
            )
        if not re.fullmatch(r"[^#./_][^#/]*#+[^#/]*\.arrow|#+[^#/]*\.arrow", names):
            raise ValueError(
                f'vivace: the option "names" is {names!r}; write `#` for each digit, in one place, '
                f"and the end .arrow, such as {NAMES}"
            )
        return TargetFolder(path=Path(named["path"]), names=names, timestamp=timestamp)

    def file(self, number: int) -> Path:
        """The file of a batch."""
        digits = self.names.count("#")
        return self.path / self.names.replace("#" * digits, f"{number:0{digits}}")

    def staged(self, query: str, number: int) -> Path:
        """The folder of its parts."""
        return self.path / f".staged-{query}" / str(number)


@dataclass
class Staged(WriterCommitMessage):
    """The part of a batch that a task has written; no name if it had no rows."""

    query: str
    number: int
    partition: int
    name: str | None


class FilesWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, target: TargetFolder, schema: StructType) -> None:
        self._target = target
        self._schema = schema

    def write(self, iterator: Iterator[pa.RecordBatch]) -> Staged:
        """Write a partition of a batch to a hidden file."""
        query, number = batch_of_task()
        partition, name = task().partitionId(), None
        writer: ipc.RecordBatchStreamWriter | None = None
        folder = self._target.staged(query, number)
        try:
            for batch in iterator:
                if writer is None:
                    # Another attempt at the same partition may be under way.
                    folder.mkdir(parents=True, exist_ok=True)
                    name = f"{partition}-{uuid.uuid4().hex}.arrow"
                    writer = ipc.new_file(str(folder / name), batch.schema)
                writer.write_batch(batch)
        finally:
            if writer is not None:
                writer.close()
        return Staged(query, number, partition, name)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Merge the parts of a batch into its file, unless it is there."""
        staged = sorted(_staged(messages), key=lambda each: each.partition)
        file = self._target.file(batchId)
        query = staged[0].query if staged else ""
        if not file.exists():
            self._merge(file, query, staged)
        elif query and (former := _written_by(file)) not in (query, ""):
            raise RuntimeError(
                f"vivace: {file} was written by another query, {former}: give each query, and each "
                "checkpoint, a folder of its own"
            )
        self._drop(query, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop what is staged of a batch."""
        for query in {each.query for each in _staged(messages)}:
            self._drop(query, batchId)

    def _drop(self, query: str, number: int) -> None:
        shutil.rmtree(self._target.staged(query, number), ignore_errors=True)

    def _merge(self, file: Path, query: str, staged: Sequence[Staged]) -> None:
        names = [each.name for each in staged if each.name is not None]
        folder = self._target.staged(query, staged[0].number) if staged else self._target.path
        tables = [ipc.open_file(pa.memory_map(str(folder / name))).read_all() for name in names]
        if not tables:
            # The next batch has the next number, and sites wait for each.
            tables.append(to_arrow_schema(self._schema, timezone="UTC").empty_table())
        table = pa.concat_tables(tables)
        order = compute.sort_indices(table, [(self._target.timestamp, "ascending")])
        self._target.path.mkdir(parents=True, exist_ok=True)
        hidden = self._target.path / f".{uuid.uuid4().hex}"
        try:
            _write(hidden, table, order, query)
            hidden.replace(file)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        opened = os.open(self._target.path, os.O_RDONLY)
        try:
            os.fsync(opened)
        finally:
            os.close(opened)


def _write(file: Path, table: pa.Table, order: pa.Array, query: str) -> None:
    """Write a table's rows in an order; the disk has them when this returns."""
    with file.open("wb") as raw:
        writer = ipc.new_file(raw, table.schema.with_metadata({_QUERY: query.encode()}))
        for begin in range(0, table.num_rows, PIECE_ROWS):
            piece = table.take(order.slice(begin, PIECE_ROWS))
            for batch in piece.combine_chunks().to_batches():
                writer.write_batch(batch)
        writer.close()
        raw.flush()
        os.fsync(raw.fileno())
    if table.num_rows > MOST_ROWS or file.stat().st_size > MOST_BYTES:
        raise RuntimeError(
            f"vivace: the batch has {table.num_rows:,} rows in {file.stat().st_size:,} bytes, and "
            f"sites read at most {MOST_ROWS:,} rows and {MOST_BYTES:,} bytes of a file: have Spark "
            "read less at a time (`maxFilesPerTrigger`, `maxOffsetsPerTrigger`)"
        )


def _staged(messages: Sequence[WriterCommitMessage | None]) -> list[Staged]:
    return [each for each in messages if isinstance(each, Staged)]


def _written_by(file: Path) -> str:
    with file.open("rb") as raw:
        return (ipc.open_file(raw).schema.metadata or {}).get(_QUERY, b"").decode()
