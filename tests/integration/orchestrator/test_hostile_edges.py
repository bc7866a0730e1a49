"""Hostile values through each source and each sink: the same at both ends, or refused at the first.

Queries take a float that is NaN or infinite for NULL (docs/live-streams.md), so here it is one.
"""

from __future__ import annotations

import http.client
import json
import math
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import ipc, parquet

import vivace
from orchestrator.api import TailRow
from orchestrator.cli.render.rows import RowPrinter
from orchestrator.edges.events import Deliver
from orchestrator.edges.kafka import Topic
from orchestrator.edges.sinks.archive import Archive
from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.http import HttpResults, OpenHttpResults
from orchestrator.edges.sinks.kafka import KafkaTopic
from orchestrator.edges.sinks.parquet import ParquetFiles
from orchestrator.edges.sources.driver import SourceContext
from orchestrator.edges.sources.folder import Folder
from orchestrator.edges.sources.formats.row_form import Format
from orchestrator.edges.sources.http import Http
from orchestrator.edges.sources.kafka import Kafka
from orchestrator.edges.sources.live.live_input import LiveInput
from orchestrator.edges.sources.live.live_source import Durability, LiveSource
from orchestrator.edges.sources.tcp import Tcp
from orchestrator.records import SinkAssignment, SourceAssignment, SourceSpec
from streams.vectors.chunk import Chunk, stream_schema
from tests.conftest import WaitUntil
from tests.integration.orchestrator.edges.sources.test_http import arrow as arrow_stream
from tests.mock_kafka import MockKafka

COLUMNS = {"t": "string", "i": "int", "x": "float", "b": "bool"}
SCHEMA = stream_schema(COLUMNS)

YEAR_1_MS, YEAR_9999_MS = -62_135_596_800_000, 253_402_300_799_999
MOST, LEAST = 2**63 - 1, -(2**63)

TEXTS = [
    *("", " ", "a", "null", "NULL", "NaN", "nan", "true", "0", "-", "\\N", "é", "e\u0301"),
    *(chr(code) for code in (0, 1, 7, 8, 9, 10, 11, 12, 13, 27, 28, 29, 30, 31, 127, 0x85, 0xA0)),
    *("\x1f1.5", "a\nb", "a\r\nb", '"', '""', "'", "\\", "\\u0000", ",", ";", "{", "}\n{", "</a>"),
    *("\ufeff", "\u2028", "\ufffd", "\uffff", "\U0001f600", "\U0010ffff", "\u202e", "a\0b"),
    "long " * 50_000,
]
"""Every one of them is Unicode."""

SURROGATES = ["\ud800", "a\udfffb", "\udc00\ud800"]
"""Which JSON can write, and no text has."""

FLOATS = [0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 1.7976931348623157e308, 0.1, -1e-7]
INTS = [0, -1, MOST, LEAST, 2**53 + 1]

Row = dict[str, Any]


def rows() -> list[Row]:
    """A value in each, at timestamps that do not fall."""
    plain: Row = {"t": "a", "i": 1, "x": 0.5, "b": True}
    values = [*({"t": text} for text in TEXTS), *({"x": x} for x in FLOATS)]
    values += [*({"i": i} for i in INTS), {"b": False}, dict.fromkeys(COLUMNS)]
    stamps_ms = [YEAR_1_MS, -1, *range(len(values) - 3), YEAR_9999_MS]
    return [{"_ts": at, **plain, **value} for at, value in zip(stamps_ms, values, strict=True)]


def same(one: object, other: object) -> bool:
    """Whether two values are the same to the bit."""
    if isinstance(one, float) and isinstance(other, float):
        return one == other and math.copysign(1, one) == math.copysign(1, other)
    return type(one) is type(other) and one == other


def entered_as(row: Row) -> Row:
    """A row as it is within a stream."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in row.items()
    }


def check(found: list[Row], sent: list[Row]) -> None:
    """Every row that was found is one that was sent, in order, and unchanged."""
    left = iter([*map(entered_as, sent)])
    for row in found:
        at = row["_ts"]
        expected = next((each for each in left if each["_ts"] == at), None)
        assert expected is not None, f"{row!r:.200} was not sent"
        assert row.keys() == expected.keys()
        for name, value in entered_as(row).items():
            assert same(value, expected[name]), (name, value, expected[name])


class Site:
    """Opens one source as a host would, and says what has entered and what was refused."""

    def __init__(self, folder: Path, source: LiveSource, name: str) -> None:
        assigned = SourceAssignment(
            stream="s",
            columns=COLUMNS,
            source=SourceSpec(driver=name, guarantee=source.guarantee),
            start_at_us=None,
        )
        self._now_us = YEAR_9999_MS * 1000
        opened = source.open(assigned, SourceContext(folder=folder, clock_us=self._tick))
        assert isinstance(opened, LiveInput)
        self.opened = opened
        self.rows: list[Row] = []

    def _tick(self) -> int:
        self._now_us += 1000
        return self._now_us

    def look(self) -> int:
        """How many rows are accounted for by now."""
        while (emitted := self.opened.emit(0, self._tick())) is not None:
            self.rows += emitted.rows.to_pylist()
        return len(self.rows) + self.opened.status.malformed + self.opened.status.late


OPTIONS: dict[str, Any] = {
    "time_column": "at",
    "time_format": "ms",
    "max_ahead_ms": None,
    "idle_after_ms": 100.0,
    "durable": Durability.PROCESS,
}


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Callable[[LiveSource, str], Site]]:
    made: list[Site] = []

    def opened(source: LiveSource, name: str) -> Site:
        made.append(Site(tmp_path / "site", source, name))
        return made[-1]

    yield opened
    for each in made:
        each.opened.close()


Open = Callable[[LiveSource, str], Site]


def written(row: Row) -> Row:
    return {"at": row["_ts"], **{name: row[name] for name in COLUMNS}}


def json_line(row: Row) -> bytes:
    return json.dumps(written(row)).encode()


def csv_line(row: Row) -> bytes:
    def cell(value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, str):
            return '"' + value.replace('"', '""') + '"'
        return str(value).lower() if isinstance(value, bool) else repr(value)

    return ",".join(cell(value) for value in written(row).values()).encode()


def table_of(sent: list[Row]) -> pa.Table:
    types = {"at": pa.int64(), **{name: SCHEMA.field(name).type for name in COLUMNS}}
    return pa.Table.from_pylist([*map(written, sent)], schema=pa.schema(list(types.items())))


def arrow(row: Row) -> bytes:
    return arrow_stream(table_of([row]))


def post(site: Site, body: bytes, content_type: str) -> int:
    parts = urlsplit(site.opened.address or "")
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request("POST", parts.path, body, {"Content-Type": content_type})
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.slow
@pytest.mark.parametrize(
    ("encode", "content_type"),
    [
        (json_line, "application/x-ndjson"),
        (csv_line, "text/csv; header=absent"),
        (arrow, "application/vnd.apache.arrow.stream"),
    ],
)
def test_hostile_values_over_http_enter_as_they_are_or_get_400(
    site: Open, wait_until: WaitUntil, encode: Callable[[Row], bytes], content_type: str
) -> None:
    here, taken = site(Http(**OPTIONS), "http"), 0
    sent = rows()
    refused: list[Row] = []
    for row in sent:
        status = post(here, encode(row), content_type)
        assert status in (200, 400), (status, row)
        if status == 200:
            taken += 1
        else:
            refused.append(row)
    wait_until(lambda: here.look() >= len(sent))
    check(here.rows, sent)
    assert len(here.rows) == taken
    # A row of CSV is one line.
    lines = [row for row in refused if encode is not csv_line or not set("\r\n") & {*row["t"]}]
    assert not lines


def test_hostile_surrogates_are_refused(site: Open) -> None:
    here = site(Http(**OPTIONS), "http")
    for text in SURROGATES:
        row = {**rows()[0], "t": text}
        assert post(here, json_line(row), "application/x-ndjson") == 400
    assert here.opened.status.malformed == len(SURROGATES)


def test_hostile_values_over_tcp_enter_as_they_are_or_are_counted(
    site: Open, wait_until: WaitUntil
) -> None:
    here = site(Tcp(format=Format.JSON, **OPTIONS), "tcp")
    sent = rows()
    host, _, port = (here.opened.address or "").rpartition(":")
    lines = [*map(json_line, sent), *(json_line({**sent[-1], "t": each}) for each in SURROGATES)]
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(b"".join(line + b"\n" for line in lines))
    wait_until(lambda: here.look() >= len(lines))
    check(here.rows, sent)
    assert len(here.rows) == len(sent)


def test_hostile_values_of_a_topic_enter_as_they_are_or_are_counted(
    site: Open, wait_until: WaitUntil
) -> None:
    cluster = MockKafka()
    cluster.create("hostile")
    source = Topic(brokers=cluster.brokers, name="hostile")
    here = site(Kafka(source=source, format=Format.JSON, **OPTIONS), "kafka")
    sent = rows()
    lines = [*map(json_line, sent), *(json_line({**sent[-1], "t": each}) for each in SURROGATES)]
    cluster.send("hostile", 0, lines)
    wait_until(lambda: here.look() >= len(lines))
    check(here.rows, sent)
    assert len(here.rows) == len(sent)


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_hostile_values_of_a_file_enter_as_they_are(
    site: Open, wait_until: WaitUntil, tmp_path: Path, suffix: str
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    sent = rows()
    table = table_of(sent)
    if suffix == "parquet":
        parquet.write_table(table, str(folder / "a.parquet"))
    else:
        writer = ipc.new_file(str(folder / "a.arrow"), table.schema)
        for batch in table.to_batches():
            writer.write_batch(batch)
        writer.close()
    here = site(Folder(path=str(folder), **OPTIONS), "folder")
    wait_until(lambda: here.look() >= len(sent))
    check(here.rows, sent)
    assert len(here.rows) == len(sent)


def test_hostile_values_of_the_python_client_enter_as_they_are(
    site: Open, wait_until: WaitUntil
) -> None:
    """Spark's tasks send in the same way."""
    here = site(Http(**OPTIONS), "http")
    sent = rows()
    stream = vivace.site(here.opened.address or "").stream("s")
    table = table_of(sent)
    assert stream.send(table).accepted == len(sent)
    wait_until(lambda: here.look() >= len(sent))
    check(here.rows, sent)
    assert len(here.rows) == len(sent)


def delivery() -> Deliver:
    """All rows as a host has them."""
    made = [*map(entered_as, rows())]
    watermarks_ms = np.unique([row["_ts"] for row in made])
    return Deliver(
        stream="s",
        epoch=1,
        generation=1,
        chunk=Chunk(
            first_seq=0,
            rows=pa.RecordBatch.from_pylist(made, schema=SCHEMA),
            watermarks_ms=watermarks_ms,
            ingestion_times_us=watermarks_ms * 0,
        ),
        lost=0,
        arrived_us=0,
    )


ASSIGNED = SinkAssignment(stream="s", columns=COLUMNS, deadline_ms=100.0)


def keep(sink: OpenSink) -> None:
    sink.keep(delivery())
    sink.flush()


def unnumbered(found: list[Row]) -> list[Row]:
    assert [row.pop("_seq") for row in found] == [*range(len(found))]
    assert {row.pop("_generation", 1) for row in found} == {1}
    return found


def test_hostile_values_are_archived_as_they_are(tmp_path: Path) -> None:
    sink = Archive().open(ASSIGNED, tmp_path)
    keep(sink)
    sink.close()
    found = unnumbered(Archive().read_back("s", tmp_path).rows.to_pylist())
    check(found, rows())
    assert len(found) == len(rows())


@pytest.fixture
def results(tmp_path: Path) -> Iterator[OpenHttpResults]:
    sink = HttpResults().open(ASSIGNED, tmp_path)
    keep(sink)
    yield sink
    sink.close()


def test_hostile_values_are_read_over_http_as_they_are(results: OpenHttpResults) -> None:
    """By the Python client in Arrow, as Spark's tasks do, and as events."""
    count = len(rows())
    batches = vivace.site(results.address).results("s", until=(1, count))
    found = unnumbered([row for batch in batches for row in batch.to_pylist()])
    check(found, rows())
    parts = urlsplit(results.address)
    connection = http.client.HTTPConnection(parts.netloc, timeout=60)
    connection.request(
        "GET", f"{parts.path}?until=1-{count}", headers={"Accept": "text/event-stream"}
    )
    lines = connection.getresponse().read().split(b"\n")
    connection.close()
    events = [json.loads(line[len(b"data: ") :]) for line in lines if line.startswith(b"data: ")]
    check(unnumbered(events), rows())
    assert len(found) == len(events) == count


def test_hostile_values_are_messages_as_they_are(tmp_path: Path) -> None:
    cluster = MockKafka()
    cluster.create("results")
    target = Topic(brokers=cluster.brokers, name="results")
    sink = KafkaTopic(target=target).open(ASSIGNED, tmp_path)
    keep(sink)
    found = [json.loads(value) for value, _ in cluster.read("results")[0]]
    check(unnumbered(found), rows())
    assert len(found) == len(rows())
    sink.close()


def test_hostile_values_are_in_files_of_parquet_as_they_are(tmp_path: Path) -> None:
    sink = ParquetFiles(path=str(tmp_path / "dataset")).open(ASSIGNED, tmp_path)
    keep(sink)
    beyond_ms = YEAR_9999_MS + 10 * 86_400_000
    later = Chunk(
        first_seq=len(rows()),
        rows=pa.RecordBatch.from_pylist([{**rows()[0], "_ts": beyond_ms}], schema=SCHEMA),
        watermarks_ms=np.array([beyond_ms, beyond_ms + 3_600_000]),
        ingestion_times_us=np.array([0, 0]),
    )
    sink.keep(Deliver(stream="s", epoch=1, generation=1, chunk=later, lost=0, arrived_us=0))
    sink.flush()
    sink.close()
    table = parquet.read_table(str(tmp_path / "dataset" / "s")).sort_by("_seq")
    names = ["_generation", "_seq", *SCHEMA.names]
    found = unnumbered(table.select(names).to_pylist())
    check(found[:-1], rows())
    assert len(found) == len(rows()) + 1
    days = {each.name for each in (tmp_path / "dataset").rglob("vivace_date=*")}
    assert {"vivace_date=0001-01-01", "vivace_date=9999-12-31"} <= days


def test_hostile_values_are_shown_a_row_on_a_line() -> None:
    printer = RowPrinter(COLUMNS)
    beyond: Row = {**rows()[0], "_ts": YEAR_9999_MS + 1}
    for seq, row in enumerate([*rows(), beyond]):
        stamp_ms = row.pop("_ts")
        line = printer.line(TailRow(seq=seq, timestamp_ms=stamp_ms, values=row))
        assert len(line.split("\n")) == (1 if seq else 2)
        assert not any(ord(c) < 32 and c != "\n" for c in line)
