"""What is delivered can be read back, also while more of it comes."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from orchestrator.host.events import Deliver
from orchestrator.sinks.archive import Archive, OpenArchive
from streams.chunk import Chunk
from tests.streams_of_numbers import chunk


def delivery(part: Chunk, *, lost: int = 0) -> Deliver:
    return Deliver(stream="s", epoch=3, chunk=part, lost=lost, arrived_us=part.watermark_ms * 2000)


def archive_in(folder: Path) -> OpenArchive:
    return Archive().open("s", folder)


def rows_in(folder: Path) -> pa.Table:
    return Archive().read_back("s", folder).rows


def test_rows_and_completed_timestamps_come_back(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(5, [(10, 2), (20, 0)])))
    archive.keep(delivery(chunk(9, [(30, 1)]), lost=2))
    archive.close()
    rows = rows_in(tmp_path)
    assert rows.to_pydict() == {"_seq": [5, 6, 9], "_ts": [10, 10, 30], "number": [5, 6, 9]}
    assert Archive().read_back("s", tmp_path).completed_timestamps.to_pydict() == {
        "watermark_ms": [10, 20, 30],
        "ingestion_time_us": [10_000, 20_000, 30_000],
        "arrived_us": [40_000, 40_000, 60_000],
        "epoch": [3, 3, 3],
        "lost": [0, 0, 2],
    }


def test_a_stream_without_tuples_has_an_empty_file_of_rows(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 0)])))
    archive.close()
    rows = rows_in(tmp_path)
    assert (rows.num_rows, rows.column_names) == (0, ["_seq", "_ts", "number"])


def test_readable_while_it_grows(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    for number in range(3):
        archive.keep(delivery(chunk(number, [(10 * number, 1)])))
        archive.flush()
        assert rows_in(tmp_path)["number"].to_pylist() == list(range(number + 1))
    archive.close()


def test_what_a_dying_site_had_half_written_is_left_out(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    path = tmp_path / "s.rows.0.arrows"
    sizes: list[int] = []
    for number in range(3):
        archive.keep(delivery(chunk(number, [(10 * number, 1)])))
        archive.flush()
        sizes.append(path.stat().st_size)
    archive.close()
    whole = path.read_bytes()
    for length in range(sizes[1], sizes[2]):
        path.write_bytes(whole[:length])
        assert rows_in(tmp_path)["number"].to_pylist() == [0, 1]


def test_a_site_that_starts_again_keeps_what_it_had(tmp_path: Path) -> None:
    for number in range(12):
        archive = archive_in(tmp_path)
        archive.keep(delivery(chunk(number, [(10 * number + 10, 1)])))
        archive.close()
    assert rows_in(tmp_path)["number"].to_pylist() == list(range(12))


def test_a_site_that_comes_back_goes_on_with_the_series(tmp_path: Path) -> None:
    for number in range(12):
        archive = archive_in(tmp_path)
        archive.keep(delivery(chunk(number, [(10 * number, 1)])))
        archive.close()
    assert rows_in(tmp_path)["number"].to_pylist() == list(range(12))


def test_a_series_that_was_begun_but_not_flushed_is_not_there_yet(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 1)])))
    with pytest.raises(FileNotFoundError, match=r"s\.completed"):
        rows_in(tmp_path)
    archive.close()
