"""Files of an interval each: whole ones only, each tuple in one of them, whenever the site dies."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from orchestrator.documents.document import documents
from orchestrator.edges.drivers import DriverError, Unusable
from orchestrator.edges.events import Deliver
from orchestrator.edges.open_folders import FilesGone
from orchestrator.edges.sinks import parquet as module
from orchestrator.edges.sinks import read
from orchestrator.edges.sinks.parquet import HOUR_MS, OpenParquet, ParquetFiles
from orchestrator.edges.site_check import SiteCheck
from orchestrator.errors import InvalidInput
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import Chunk, stream_schema
from tests.streams_of_numbers import chunk

NOON_MS = 1_782_993_600_000
"""2026-07-02T12:00:00Z."""

MINUTE_MS = 60_000


class Site:
    def __init__(self, folder: Path) -> None:
        self.dataset, self.archive = folder / "dataset", folder / "archive"
        self.archive.mkdir()
        self.options = ParquetFiles(path=str(self.dataset))

    def open(self, life: int = 7, columns: dict[str, str] | None = None) -> OpenParquet:
        columns = columns or {"number": "int"}
        assigned = SinkAssignment(stream="s", columns=columns, deadline_ms=5.0, life=life)
        return self.options.open(assigned, self.archive)

    def files(self) -> dict[str, list[int]]:
        """Path in the dataset → numbers in the file."""
        found = sorted(self.dataset.rglob("*.parquet"))
        return {
            str(each.relative_to(self.dataset)): parquet.read_table(str(each))["number"].to_pylist()
            for each in found
        }


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def deliver(sink: OpenParquet, first: int, *at: tuple[int, int], generation: int = 1) -> None:
    """Groups of tuples at minutes after noon, flushed."""
    part = chunk(first, [(NOON_MS + minute * MINUTE_MS, count) for minute, count in at])
    sink.keep(Deliver(stream="s", epoch=1, generation=generation, chunk=part, lost=0, arrived_us=0))
    sink.flush()


def test_an_hour_is_there_once_it_is_complete(site: Site) -> None:
    sink = site.open()
    deliver(sink, 0, (10, 2), (59, 1))
    assert site.files() == {}
    deliver(sink, 3, (61, 1), (250, 2))
    noon, one = (
        f"s/vivace_version=7/vivace_date=2026-07-02/vivace_hour={hour}/20260702T{hour}0000Z.parquet"
        for hour in (12, 13)
    )
    assert site.files() == {noon: [0, 1, 2], one: [3]}
    table = parquet.read_table(str(site.dataset / noon))
    assert table.column_names[:4] == ["_generation", "_seq", "_ts", "number"]
    assert table["_seq"].to_pylist() == [0, 1, 2]
    # A watermark alone completes the last one.
    deliver(sink, 6, (299, 0))
    assert len(site.files()) == 2
    last = chunk(6, [(NOON_MS + 5 * HOUR_MS - 1, 0)])
    sink.keep(Deliver(stream="s", epoch=1, chunk=last, lost=0, arrived_us=0))
    sink.flush()
    assert list(site.files().values()) == [[0, 1, 2], [3], [4, 5]]
    sink.close()


def test_a_site_that_is_killed_begins_the_interval_anew_out_of_the_archive(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "GROUP_BYTES", 1)
    sink = site.open()
    deliver(sink, 0, (10, 2), (61, 1))
    # Killed: nothing is closed. What was archived and not flushed to a file is in the archive.
    again = site.open()
    assert again.durable is not None
    assert again.durable.position.next_seq == 3
    deliver(again, 3, (70, 1), (130, 1))
    assert list(site.files().values()) == [[0, 1], [2, 3]]
    assert len(list(site.dataset.rglob(".*.unfinished"))) == 1
    # Killed between a file and its note.
    monkeypatch.setattr(Path, "write_bytes", _fails)
    with pytest.raises(OSError, match="killed"):
        deliver(again, 5, (190, 1))
    monkeypatch.undo()
    last = site.open()
    deliver(last, 6, (250, 1))
    assert list(site.files().values()) == [[0, 1], [2, 3], [4], [5]]
    last.close()
    assert not list(site.dataset.rglob(".*.unfinished"))


def _fails(_path: Path, _data: bytes) -> int:
    raise OSError("killed")


def test_files_that_are_gone_are_published_anew_out_of_the_archive(site: Site) -> None:
    sink = site.open()
    deliver(sink, 0, (10, 2), (61, 1))
    whole = site.files()
    shutil.rmtree(site.dataset)
    with pytest.raises(FilesGone, match="version=7 was removed"):
        deliver(sink, 3, (70, 1))
    sink.close()
    again = site.open()
    assert again.durable is not None
    deliver(again, 4, (130, 1))
    assert list(site.files().values()) == [*whole.values(), [2, 3]]
    (hidden,) = site.dataset.rglob(".*.unfinished")
    hidden.unlink()
    with pytest.raises(FilesGone, match="unfinished was removed"):
        deliver(again, 5, (140, 1))
    again.close()
    # Also while the site was away.
    shutil.rmtree(site.dataset)
    last = site.open()
    deliver(last, 6, (200, 1))
    assert list(site.files().values()) == [*whole.values(), [2, 3], [4, 5]]
    last.close()


def test_an_archive_that_is_gone_takes_nothing_from_the_files(site: Site) -> None:
    sink = site.open()
    deliver(sink, 0, (10, 2), (20, 1), (61, 1))
    shutil.rmtree(site.archive)
    with pytest.raises(FilesGone):
        deliver(sink, 4, (70, 1))
    sink.close()
    again = site.open()
    assert again.durable is None
    # Producers keep the last tuples of what was published.
    deliver(again, 2, (20, 1), (61, 1), (70, 1), (130, 1))
    assert list(site.files().values()) == [[0, 1, 2], [3, 4]]
    again.close()


def test_another_query_of_the_name_writes_another_version(site: Site) -> None:
    sink = site.open()
    deliver(sink, 0, (10, 2), (61, 1))
    sink.close()
    anew = site.open(life=8)
    assert anew.durable is None
    deliver(anew, 0, (20, 1), (61, 0))
    assert list(site.files().values()) == [[0, 1], [0]]
    assert [name.split("/")[1] for name in site.files()] == ["vivace_version=7", "vivace_version=8"]
    anew.close()


def test_intervals_may_be_shorter_than_an_hour(site: Site) -> None:
    site.options = ParquetFiles(path=str(site.dataset), every_ms=15 * MINUTE_MS)
    sink = site.open()
    deliver(sink, 0, (1, 1), (16, 1), (46, 1), (61, 0))
    assert {name.split("/")[-1]: numbers for name, numbers in site.files().items()} == {
        "20260702T120000Z.parquet": [0],
        "20260702T121500Z.parquet": [1],
        "20260702T124500Z.parquet": [2],
    }
    sink.close()


def test_readers_find_the_columns_of_a_query_and_those_of_its_folders(site: Site) -> None:
    columns = {"date": "string", "hour": "int", "version": "float"}
    rows = {"_ts": NOON_MS, "date": "1999", "hour": 77, "version": 0.5}
    noon = np.array([NOON_MS + HOUR_MS])
    part = Chunk(
        first_seq=0,
        rows=pa.RecordBatch.from_pylist([rows], schema=stream_schema(columns)),
        watermarks_ms=noon,
        ingestion_times_us=noon * 0,
    )
    sink = site.open(columns=columns)
    sink.keep(Deliver(stream="s", epoch=1, generation=1, chunk=part, lost=0, arrived_us=0))
    sink.flush()
    sink.close()
    (found,) = parquet.read_table(str(site.dataset / "s")).to_pylist()
    folders = {"vivace_version": 7, "vivace_date": "2026-07-02", "vivace_hour": 12}
    assert found == {"_generation": 1, "_seq": 0, **rows, **folders}


def test_a_dataset_of_an_earlier_layout_is_left_alone(site: Site) -> None:
    former = site.dataset / "s" / "version=3"
    former.mkdir(parents=True)
    with pytest.raises(DriverError, match=r"earlier layout \(s/version=3\).*Move .*/s away"):
        site.open()
    with pytest.raises(Unusable, match="earlier layout") as caught:
        site.options.check(
            SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5.0), SiteCheck()
        )
    assert caught.value.option == "path"
    assert [*site.dataset.rglob("*")] == [former.parent, former]


def test_a_folder_that_cannot_be_used_is_said(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    site.options = ParquetFiles(path=str(tmp_path / "file"))
    with pytest.raises(DriverError, match="the folder of the files cannot be used"):
        site.open()


def test_manifests(tmp_path: Path) -> None:
    file = tmp_path / "query.yaml"

    def sink(text: str) -> object:
        file.write_text(text)
        return read(documents(file)[0]).options

    assert sink("parquet: {path: /data, every: 15 min}") == {"path": "/data", "every_ms": 900_000}
    assert sink("parquet: {path: /data}") == {"path": "/data", "every_ms": HOUR_MS}
    for every in ("7 min", "2 h", "1 ms"):
        with pytest.raises(InvalidInput, match="does not divide an hour"):
            sink(f"parquet: {{path: /data, every: {every}}}")
    with pytest.raises(InvalidInput, match="path"):
        sink("parquet: {}")
