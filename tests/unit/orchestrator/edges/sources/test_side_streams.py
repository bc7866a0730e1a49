"""What does not enter a live stream is a stream of its own if its manifest asks for that."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from orchestrator.edges import sources
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.live.ingestion import BatchOutcome
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.errors import InvalidInput
from orchestrator.manifest import load
from orchestrator.records import Guarantee, SourceAssignment, StreamRecord
from streams.vectors.chunk import Position, stream_schema

STREAM = """
kind: Stream
name: north
site: here
columns: {number: int}
rate: 1 KB/s
from:
  tcp: %s
"""
ASKED = "{timestamp: {column: at, format: ms}, durable: process, late: true, rejected: true}"
SCHEMA = stream_schema({"number": "int"})


def records(folder: Path, options: str = ASKED) -> list[StreamRecord]:
    file = folder / "stream.yaml"
    file.write_text(STREAM % options)
    return [each.record for each in load([file]).streams]


class Site:
    """A process with the three streams; only the first one's clients are left out."""

    def __init__(self, folder: Path, *, without: str = "") -> None:
        self.now_us = 1_000_000_000
        context = SourceContext(folder=folder / "site", clock_us=lambda: self.now_us)
        self.opened: dict[str, LiveInput] = {}
        for record in records(folder):
            if record.name == without:
                continue
            assert record.source is not None
            driver = sources.restore(record.source)
            assert isinstance(driver, LiveSource)
            assignment = SourceAssignment(
                stream=record.name,
                columns=record.columns,
                source=record.source,
                start_at_us=None,
            )
            if record.beside is None:
                opened = driver.input(assignment, context)
                opened.start()
            else:
                found = driver.open(assignment, context)
                assert isinstance(found, LiveInput)
                opened = found
            self.opened[record.name] = opened

    def send(self, *stamps: int, number: int) -> BatchOutcome:
        rows = pa.RecordBatch.from_pydict({"_ts": stamps, "number": stamps}, schema=SCHEMA)
        return self.opened["north"].push(rows, client="c", number=number)

    def rows(self, stream: str) -> list[dict[str, object]]:
        opened = self.opened[stream]
        self.now_us += 1_000_000
        found: list[dict[str, object]] = []
        opened.commit()
        while (emitted := opened.emit(0, self.now_us)) is not None:
            found += emitted.rows.to_pylist()
        return found

    def close(self) -> None:
        for opened in self.opened.values():
            opened.close()


def test_a_manifest_asks_for_them(tmp_path: Path) -> None:
    north, late, rejected = records(tmp_path)
    assert (late.name, late.beside, late.site) == ("north.late", "north", "here")
    assert late.columns == {"number": "int", "event_time": "int"}
    assert rejected.columns == {"kind": "string", "reason": "string", "what": "string"}
    assert late.source is not None
    assert late.source.guarantee is Guarantee.JOURNALED
    assert north.beside is None
    assert [each.name for each in records(tmp_path, "{timestamp: {column: at}}")] == ["north"]


def test_it_is_no_source_that_a_manifest_names(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    file.write_text(STREAM.replace("tcp: %s", "side: {}"))
    with pytest.raises(InvalidInput, match="late: true"):
        load([file])


def test_a_column_that_late_tuples_need_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "stream.yaml"
    file.write_text((STREAM % ASKED).replace("{number: int}", "{event_time: int}"))
    with pytest.raises(InvalidInput, match="column event_time is reserved"):
        load([file])


def test_late_tuples_and_those_too_far_ahead_go_to_streams_of_their_own(tmp_path: Path) -> None:
    site = Site(tmp_path)
    now_ms = site.now_us // 1000
    assert site.send(now_ms, now_ms + 10, number=1) == BatchOutcome(accepted=2, waiting=1)
    taken = site.send(now_ms - 5, now_ms + 20, now_ms + 10**6, number=2)
    assert taken == BatchOutcome(accepted=1, late=1, ahead=1, waiting=1)
    (late,) = site.rows("north.late")
    assert (late["number"], late["event_time"]) == (now_ms - 5, now_ms - 5)
    (ahead,) = site.rows("north.rejected")
    assert ahead["kind"] == "ahead"
    assert "maxAhead" in str(ahead["reason"])
    assert msgspec.json.decode(str(ahead["what"]))["number"] == now_ms + 10**6
    site.opened["north"].rejections.malformed(b"1,2,3\xff", "a column too many")
    (malformed,) = site.rows("north.rejected")
    assert (malformed["kind"], malformed["reason"]) == ("malformed", "a column too many")
    assert site.opened["north"].status.refused == 3
    site.close()


def test_a_killed_site_has_the_late_tuples_of_a_batch_once(tmp_path: Path) -> None:
    site = Site(tmp_path)
    now_ms = site.now_us // 1000
    site.send(now_ms, number=1)
    site.send(now_ms + 10, number=2)
    # The journal of the stream has lost the batch that its side stream has.
    rows = pa.RecordBatch.from_pydict({"_ts": [1], "number": [1]}, schema=SCHEMA)
    side = site.opened["north.late"]
    late = pa.RecordBatch.from_arrays([*rows.columns, rows.column(0)], schema=side.schema)
    side.push(late, client="c", number=3)
    site.close()
    site = Site(tmp_path)
    assert site.send(1, number=3) == BatchOutcome(late=1, waiting=1)
    assert site.opened["north.late"].status.repeated == 1
    assert site.opened["north.late"]._ingestion.end == Position(  # pyright: ignore[reportPrivateUsage]
        next_seq=1,
        watermark_ms=site.opened["north.late"]._ingestion.end.watermark_ms,  # pyright: ignore[reportPrivateUsage]
    )
    site.close()


def test_without_a_side_stream_there_are_only_counts(tmp_path: Path) -> None:
    site = Site(tmp_path, without="north.late")
    now_ms = site.now_us // 1000
    site.send(now_ms, now_ms + 10, number=1)
    assert site.send(now_ms - 5, number=2) == BatchOutcome(late=1, waiting=1)
    assert site.opened["north"].status.late == 1
    site.close()
