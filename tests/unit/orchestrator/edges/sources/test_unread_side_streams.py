"""Streams of what was refused hold nothing up, however durable they are."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa

from orchestrator.edges import sources
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.live.confirmed_input import ConfirmedInput
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import LiveSource
from orchestrator.manifest import load
from orchestrator.records import SourceAssignment
from streams.vectors.chunk import NO_WATERMARK, stream_schema

STREAM = """
kind: Stream
name: north
site: here
columns: {number: int}
rate: 1 KB/s
from:
  tcp: {timestamp: {column: at, format: ms}, durable: replicas, late: true}
"""
SCHEMA = stream_schema({"number": "int"})


def test_a_late_tuple_does_not_stop_its_stream_while_nobody_takes_the_late_ones(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stream.yaml"
    file.write_text(STREAM)
    now_us = 1_000_000_000
    context = SourceContext(folder=tmp_path / "site", clock_us=lambda: now_us)
    opened: dict[str, LiveInput] = {}
    for record in (each.record for each in load([file]).streams):
        assert record.source is not None
        driver = sources.restore(record.source)
        assert isinstance(driver, LiveSource)
        assignment = SourceAssignment(
            stream=record.name, columns=record.columns, source=record.source, start_at_us=0
        )
        if record.beside is None:
            made = driver.input(assignment, context)
            made.start()
        else:
            found = driver.open(assignment, context)
            assert isinstance(found, LiveInput)
            made = found
        opened[record.name] = made
    north, late = opened["north"], opened["north.late"]
    assert isinstance(north, ConfirmedInput)
    assert isinstance(late, ConfirmedInput)

    def send(*stamps: int) -> None:
        rows = pa.RecordBatch.from_pydict({"_ts": stamps, "number": stamps}, schema=SCHEMA)
        threading.Thread(target=_push, args=(north, rows), daemon=True).start()

    def comes(number: int) -> bool:
        """Whether the host is given a tuple soon; consumers of the stream itself take all."""
        for _ in range(100):
            while (emitted := north.emit(0, now_us)) is not None:
                north.confirm(int(emitted.watermarks_ms[-1]), NO_WATERMARK)
                if number in emitted.rows.column("number").to_pylist():
                    return True
            threading.Event().wait(0.05)
        return False

    now_ms = now_us // 1000
    send(now_ms, now_ms + 10)
    assert comes(now_ms)
    # The query that reads `north.late` is held up, so that nobody acknowledges that stream.
    send(now_ms - 5)
    threading.Event().wait(0.3)
    send(now_ms + 20, now_ms + 30)
    try:
        assert comes(now_ms + 20), "the stream stands still because of its side stream"
    finally:
        late.close()
        north.close()


def _push(opened: LiveInput, rows: pa.RecordBatch) -> None:
    try:
        opened.push(rows)
    except Exception:  # noqa: BLE001  The source ends.
        return
