"""A source and a sink of one's own, as a user would write them, registered under their names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Self

import numpy as np
import pyarrow as pa

from orchestrator.documents.document import Section
from orchestrator.documents.units import duration_ms
from orchestrator.edges import sinks, sources
from orchestrator.edges.events import Deliver, Durable, SourceEmitted
from orchestrator.edges.sinks.driver import SinkDriver
from orchestrator.edges.sources.driver import OpenSource, SourceContext, SourceDriver
from orchestrator.records import SinkAssignment, SourceAssignment
from streams.vectors.chunk import stream_schema


class Numbers(SourceDriver, frozen=True, kw_only=True):
    """One number of a generator at a time: `from: {numbers: {every: 100 ms}}`."""

    every_ms: float
    first: int = 0

    @classmethod
    def read(cls, section: Section) -> Self:
        first = section.get("first")
        return cls(
            every_ms=section.need("every").quantity(duration_ms, positive=True),
            first=first.count() if first else 0,
        )

    def open(self, assignment: SourceAssignment, context: SourceContext) -> OpenNumbers:
        return OpenNumbers(self, assignment)


class OpenNumbers(OpenSource):
    def __init__(self, options: Numbers, assignment: SourceAssignment) -> None:
        self._numbers: Iterator[int] = count(options.first)
        self._every_us = round(options.every_ms * 1000)
        self._emitted = 0
        self._stream = assignment.stream
        self._schema = stream_schema(assignment.columns)

    def next_due_us(self, start_at_us: int) -> int | None:
        return start_at_us + (self._emitted + 1) * self._every_us

    def emit(self, start_at_us: int, now_us: int) -> SourceEmitted | None:
        due_us: list[int] = []
        while (next_us := self.next_due_us(start_at_us)) is not None and next_us <= now_us:
            due_us.append(next_us)
            self._emitted += 1
        if not due_us:
            return None
        ingestion_times_us = np.array(due_us, dtype=np.int64)
        timestamps = ingestion_times_us // 1000
        numbers = [next(self._numbers) for _ in due_us]
        return SourceEmitted(
            stream=self._stream,
            rows=pa.RecordBatch.from_arrays(
                [pa.array(timestamps), pa.array(numbers)], schema=self._schema
            ),
            watermarks_ms=timestamps,
            ingestion_times_us=ingestion_times_us,
        )


class TextFile(SinkDriver, frozen=True, kw_only=True):
    """One tuple a line: `to: {text_file: {separator: ","}}`."""

    separator: str

    @classmethod
    def read(cls, section: Section) -> Self:
        return cls(separator=section.need("separator").text())

    def open(self, assignment: SinkAssignment, folder: Path) -> OpenTextFile:
        return OpenTextFile(folder / f"{assignment.stream}.txt", self.separator)


class OpenTextFile:
    def __init__(self, path: Path, separator: str) -> None:
        self._path = path
        self._separator = separator
        self._lines: list[str] = []
        self._kept: Durable | None = None
        # A text file does not tell to which tuple it goes.
        self.durable: Durable | None = None

    def keep(self, delivery: Deliver) -> None:
        for row in delivery.chunk.rows.to_pylist():
            self._lines.append(self._separator.join(str(value) for value in row.values()))
        self._kept = delivery.end

    def flush(self) -> None:
        with self._path.open("a") as file:
            file.writelines(f"{line}\n" for line in self._lines)
        self._lines.clear()
        self.durable = self._kept

    def close(self) -> None:
        self._lines.clear()


def register() -> None:
    """Register both; a second time changes nothing."""
    sources.register("numbers", Numbers)
    sinks.register("text_file", TextFile)


register()
