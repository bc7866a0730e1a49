"""What a reader of results gets out of the archive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.edges.sinks.archive import ArchiveReader
from orchestrator.edges.sinks.delivered import numbered_schema
from orchestrator.edges.sinks.result_reader import EventForm, ResultReader, StartPosition
from orchestrator.edges.sinks.selection import Place, ResultSelection
from streams.vectors.chunk import stream_schema
from tests.streams_of_numbers import chunk
from tests.unit.orchestrator.edges.sinks.test_archive import archive_in, delivery


class Archived:
    """Results that are all in the archive."""

    def __init__(self, folder: Path) -> None:
        self.closed = False
        self._archive = archive_in(folder)
        self.completed_ms = 0
        for generation, begin in ((1, 0), (2, 50)):
            part = chunk(0, [(begin + 10, 2), (begin + 20, 1)])
            self._archive.keep(delivery(part, generation=generation))
        self._archive.flush()

    def latest(self, at: Place, most_bytes: int) -> tuple[list[pa.RecordBatch], Place | None]:
        return [], None if at >= (2, 3) else (2, 3)

    def archive_from(self, at: Place, first_ms: int | None) -> ArchiveReader:
        return self._archive.reader(at, first_ms)

    def wait_past(self, at: Place) -> bool:
        self.closed = True
        return False


@pytest.mark.parametrize("first", [0, 2, 3, 4, 100])
def test_a_reader_from_a_number_on_gets_all_of_the_next_generation(
    tmp_path: Path, first: int
) -> None:
    schema = numbered_schema(stream_schema({"number": "int"}))
    selection = ResultSelection.read({}, schema)
    form = EventForm("s", selection, schema)
    reader = ResultReader(Archived(tmp_path), StartPosition(least_seq=first), selection, form)
    assert list(_identities(reader)) == [
        *(f"1-{number}" for number in range(first, 3)),
        *(f"2-{number}" for number in range(3)),
    ]


def _identities(reader: ResultReader) -> Iterator[str]:
    for line in b"".join(reader.parts()).splitlines():
        if line.startswith(b"id: "):
            yield line.removeprefix(b"id: ").decode()
