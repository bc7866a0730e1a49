"""Spark's tasks stage the parts of a batch at a site; its driver commits them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from vivace.spark.options import Options
from vivace.stream import PIECE_BYTES, pieces

QUERY_ID, BATCH_ID = "sql.streaming.queryId", "streaming.sql.batchId"
"""Properties of Spark's tasks."""


@dataclass
class StagedParts(WriterCommitMessage):
    """The parts that a task has staged.

    Attributes
    ----------
    client, number
        Name of the batch.
    names
        In the order of the task's rows.
    """

    client: str
    number: int
    partition: int
    names: tuple[str, ...]


class TableWriter(DataSourceArrowWriter):
    """Writes a DataFrame as one batch.

    Parameters
    ----------
    name
        Of the batch: written again under the same name, it does not enter again.
    """

    def __init__(self, options: Options, name: str) -> None:
        self._options = options
        self._client = f"spark write {name}"

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedParts:
        """Stage a partition."""
        return _stage(self._options, self._client, 0, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Let the batch enter."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Drop the batch."""
        self._options.sender(self._client).abort(0)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the batches of a streaming query."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedParts:
        """Stage a partition of a batch."""
        query, batch = batch_of_task()
        return _stage(self._options, f"spark query {query}", batch, iterator)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Let a batch enter."""
        _commit(self._options, messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        """Drop a batch; a later one of the query replaces what is not named here."""
        for client in {each.client for each in _parts(messages)}:
            self._options.sender(client).abort(batchId)


def task() -> TaskContext:
    """The task of Spark that this is."""
    found = TaskContext.get()
    assert found is not None, "Spark calls it in a task"
    return found


def batch_of_task() -> tuple[str, int]:
    """Query and number of the batch that this task is a part of."""
    query, batch = task().getLocalProperty(QUERY_ID), task().getLocalProperty(BATCH_ID)
    if query is None or batch is None:
        raise RuntimeError("vivace: Spark does not tell which query and batch this is")
    return query, int(batch)


def _stage(
    options: Options, client: str, number: int, iterator: Iterator[pa.RecordBatch]
) -> StagedParts:
    partition = task().partitionId()
    # Another attempt at the same partition may be under way, or have left parts behind.
    attempt = uuid.uuid4().hex
    stream = options.sender(client)
    names: list[str] = []
    for rows in _pieces(iterator):
        names.append(f"{partition}-{attempt}-{len(names)}")
        stream.stage(rows, number=number, part=names[-1])
    stream.close()
    return StagedParts(client, number, partition, tuple(names))


def _pieces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Rows in pieces that a site takes at once."""
    gathered: list[pa.RecordBatch] = []
    for batch in batches:
        gathered.append(batch)
        if sum(each.nbytes for each in gathered) >= PIECE_BYTES:
            yield from pieces(pa.Table.from_batches(gathered))
            gathered = []
    if gathered:
        yield from pieces(pa.Table.from_batches(gathered))


def _commit(options: Options, messages: Sequence[WriterCommitMessage | None]) -> None:
    parts = sorted(_parts(messages), key=lambda each: each.partition)
    names = [name for each in parts for name in each.names]
    if names:
        stream = options.sender(parts[0].client)
        stream.commit(parts[0].number, names)
        stream.close()


def _parts(messages: Sequence[WriterCommitMessage | None]) -> list[StagedParts]:
    return [each for each in messages if isinstance(each, StagedParts)]
