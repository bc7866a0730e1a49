"""What is delivered can be read back, also while more of it comes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa
import pytest

from orchestrator.drills.measurement import SequenceFaults, sequence_faults
from orchestrator.edges.events import Deliver, Durable, SinkFailed, SinkOpened
from orchestrator.edges.open_folders import FilesGone
from orchestrator.edges.sinks import archive as archive_module
from orchestrator.edges.sinks import opener
from orchestrator.edges.sinks.archive import Archive, OpenArchive
from orchestrator.edges.sinks.delivered import completed_timestamps
from orchestrator.edges.sinks.sink_drivers import FLUSH_EVERY_US, SinkDrivers
from orchestrator.records import SinkAssignment
from streams.vectors.chunk import Chunk, Position
from tests.streams_of_numbers import chunk


def delivery(part: Chunk, *, lost: int = 0, generation: int = 1) -> Deliver:
    return Deliver(
        stream="s",
        epoch=3,
        generation=generation,
        chunk=part,
        lost=lost,
        arrived_us=part.watermark_ms * 2000,
    )


def archive_in(folder: Path, life: int = 7) -> OpenArchive:
    columns = {"number": "int"}
    assigned = SinkAssignment(stream="s", columns=columns, deadline_ms=5.0, life=life)
    return Archive().open(assigned, folder)


def rows_in(folder: Path) -> pa.Table:
    return Archive().read_back("s", folder).rows


def test_rows_and_completed_timestamps_come_back(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(5, [(10, 2), (20, 0)])))
    archive.keep(delivery(chunk(9, [(30, 1)]), lost=2))
    archive.flush()
    archive.close()
    rows = rows_in(tmp_path)
    assert rows.to_pydict() == {
        "_generation": [1, 1, 1],
        "_seq": [5, 6, 9],
        "_ts": [10, 10, 30],
        "number": [5, 6, 9],
    }
    assert Archive().read_back("s", tmp_path).completed_timestamps.to_pydict() == {
        "watermark_ms": [10, 20, 30],
        "ingestion_time_us": [10_000, 20_000, 30_000],
        "arrived_us": [40_000, 40_000, 60_000],
        "epoch": [3, 3, 3],
        "lost": [0, 0, 2],
        "generation": [1, 1, 1],
        "next_seq": [7, 7, 10],
        "late": [0, 0, 0],
    }


def test_tuples_that_were_dropped_because_they_were_late_come_back_as_numbers(
    tmp_path: Path,
) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 2)])))
    dropped = delivery(chunk(5, [(20, 0), (30, 0)]))
    archive.keep(msgspec.structs.replace(dropped, late=(1, 2)))
    archive.keep(delivery(chunk(5, [(40, 1)])))
    archive.flush()
    archive.close()
    found = Archive().read_back("s", tmp_path)
    assert found.late == 3
    assert found.late_spans_ms.tolist() == [[10, 20, 1], [20, 30, 2]]
    assert sequence_faults(found) == SequenceFaults(lost=0, repeated=0)
    assert archive_in(tmp_path).durable == delivery(chunk(5, [(40, 1)])).end


def test_files_of_the_first_versions_have_no_late_tuples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_late(deliveries: Sequence[Deliver]) -> pa.RecordBatch:
        whole = completed_timestamps(deliveries)
        kept = [name for name in whole.schema.names if name != "late"]
        return whole.select(kept)

    with monkeypatch.context() as before:
        before.setattr(archive_module, "completed_timestamps", without_late)
        former = archive_in(tmp_path)
        former.keep(delivery(chunk(0, [(10, 2)])))
        former.flush()
        former.close()
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(2, [(20, 1)])))
    archive.flush()
    archive.close()
    found = Archive().read_back("s", tmp_path)
    assert found.completed_timestamps["late"].to_pylist() == [0, 0]
    assert found.rows.num_rows == 3


def test_a_stream_without_tuples_has_an_empty_file_of_rows(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 0)])))
    archive.flush()
    archive.close()
    rows = rows_in(tmp_path)
    assert (rows.num_rows, rows.column_names) == (0, ["_generation", "_seq", "_ts", "number"])


def test_readable_while_it_grows(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    for number in range(3):
        archive.keep(delivery(chunk(number, [(10 * number, 1)])))
        archive.flush()
        assert rows_in(tmp_path)["number"].to_pylist() == list(range(number + 1))
    archive.close()


def flushed(folder: Path, *numbers: int, life: int = 7, generation: int = 1) -> OpenArchive:
    """An archive that was opened again and has taken in a tuple for each number, and is killed."""
    archive = archive_in(folder, life)
    for number in numbers:
        part = chunk(number, [(10 * number + 10, 1)])
        archive.keep(delivery(part, generation=generation))
        archive.flush()
    return archive


@pytest.mark.parametrize("series", ["rows", "completed"])
def test_a_flush_that_was_cut_anywhere_is_left_out_and_comes_again(
    tmp_path: Path, series: str
) -> None:
    archive = flushed(tmp_path, 0, 1)
    paths = [tmp_path / f"s.{each}.0.arrows" for each in ("rows", "completed")]
    before = [path.read_bytes() for path in paths]
    archive.keep(delivery(chunk(2, [(30, 1)])))
    archive.flush()
    after = [path.read_bytes() for path in paths]
    cut = paths[["rows", "completed"].index(series)]
    index = paths.index(cut)
    for length in range(len(before[index]), len(after[index])):
        # Tuples are written first: while they are, no timestamp of theirs is completed.
        paths[0].write_bytes(after[0][:length] if index == 0 else after[0])
        paths[1].write_bytes(before[1] if index == 0 else after[1][:length])
        assert rows_in(tmp_path)["number"].to_pylist() == [0, 1]
        assert archive_in(tmp_path).durable == Durable(
            generation=1, position=Position(next_seq=2, watermark_ms=20)
        )
    again = archive_in(tmp_path)
    again.keep(delivery(chunk(2, [(30, 1)])))
    again.flush()
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1, 2]


def test_a_site_that_is_killed_again_and_again_keeps_each_tuple_once(tmp_path: Path) -> None:
    for number in range(12):
        durable = archive_in(tmp_path).durable
        assert (durable.position.next_seq if durable else 0) == number
        archive = flushed(tmp_path, number)
        archive.keep(delivery(chunk(number + 1, [(10 * number + 20, 1)])))
    assert rows_in(tmp_path)["number"].to_pylist() == list(range(12))


def test_what_a_replaced_process_still_writes_is_no_part_of_the_output(tmp_path: Path) -> None:
    """A site that was stopped, and replaced meanwhile, goes on before it learns of that."""
    former = flushed(tmp_path, 0, 1)
    successor = archive_in(tmp_path)
    former.keep(delivery(chunk(2, [(30, 1), (40, 1)])))
    former.flush()
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1, 2, 3]
    assert successor.durable == Durable(
        generation=1, position=Position(next_seq=2, watermark_ms=20)
    )
    successor.keep(delivery(chunk(2, [(30, 1)])))
    successor.flush()
    former.keep(delivery(chunk(4, [(50, 1)])))
    former.flush()
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1, 2]
    completed = Archive().read_back("s", tmp_path).completed_timestamps
    assert completed["watermark_ms"].to_pylist() == [10, 20, 30]


def test_timestamps_that_a_second_life_completes_again_are_told(tmp_path: Path) -> None:
    flushed(tmp_path, 0, 1, 2, 3)
    # It should have gone on with number 4.
    flushed(tmp_path, 2, 3, 4)
    kept = Archive().read_back("s", tmp_path)
    assert kept.rows["number"].to_pylist() == [0, 1, 2, 3, 4]
    assert kept.superseded_ms.tolist() == [30, 40]
    # A third one begins at the very start.
    flushed(tmp_path, 0)
    kept = Archive().read_back("s", tmp_path)
    assert kept.rows["number"].to_pylist() == [0]
    assert kept.superseded_ms.tolist() == [10, 30, 40]


def test_a_life_that_goes_on_where_the_former_one_ended_supersedes_nothing(tmp_path: Path) -> None:
    flushed(tmp_path, 0, 1).keep(delivery(chunk(2, [(30, 1)])))
    flushed(tmp_path, 2, 3)
    flushed(tmp_path, 0, life=8)
    assert Archive().read_back("s", tmp_path).superseded_ms.tolist() == []


def test_a_timestamp_that_comes_again_within_a_file_is_not_hidden(tmp_path: Path) -> None:
    archive = flushed(tmp_path, 0, 1, 2)
    archive.keep(delivery(chunk(1, [(20, 1)])))
    archive.flush()
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1, 2, 1]


def test_a_replaced_process_that_has_committed_nothing_does_not_spoil_its_successors_file(
    tmp_path: Path,
) -> None:
    former = archive_in(tmp_path)
    former.keep(delivery(chunk(0, [(10, 1)])))
    successor = flushed(tmp_path, 0)
    with pytest.raises(FilesGone):
        former.flush()
    successor.keep(delivery(chunk(1, [(20, 1)])))
    successor.flush()
    former.keep(delivery(chunk(1, [(20, 1)])))
    with pytest.raises(FilesGone):
        former.flush()
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1]


def _removed(folder: Path) -> None:
    shutil.rmtree(folder)


def _emptied(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def _replaced(folder: Path) -> None:
    for file in folder.iterdir():
        content = file.read_bytes()
        file.unlink()
        file.write_bytes(content)


def _cut_off(folder: Path) -> None:
    for file in folder.glob("s.completed.*"):
        os.truncate(file, 10)


@pytest.mark.parametrize("happens", [_removed, _emptied, _replaced, _cut_off])
def test_files_that_are_gone_fail_the_archive_and_are_begun_anew(
    tmp_path: Path, happens: Callable[[Path], None]
) -> None:
    folder = tmp_path / "archive"
    assigned = [SinkAssignment(stream="s", columns={"number": "int"}, deadline_ms=5.0, life=7)]
    made = SinkDrivers(opener(folder))
    made.attend(assigned, 0)
    made.keep(delivery(chunk(0, [(10, 2)])), 0)
    made.attend(assigned, FLUSH_EVERY_US)
    happens(folder)
    made.keep(delivery(chunk(2, [(20, 1)])), FLUSH_EVERY_US)
    assert made.attend(assigned, 2 * FLUSH_EVERY_US) == [SinkFailed(stream="s")]
    assert "while it was being written" in made.problems["s"]
    now_us = made.next_due_us
    assert now_us is not None
    (opened,) = made.attend(assigned, now_us)
    # What is there again, or still, was kept; of anything else the first tuple is asked for.
    kept = 2 if happens is _replaced else 0
    assert isinstance(opened, SinkOpened)
    assert opened.durable is not None
    assert opened.durable.position.next_seq == kept
    made.keep(delivery(chunk(2, [(20, 1)])), now_us)
    made.close()
    assert rows_in(folder)["number"].to_pylist() == [*range(kept), 2]


def test_files_that_nothing_was_committed_to_are_written_over(tmp_path: Path) -> None:
    flushed(tmp_path, 0)
    for _ in range(3):
        archive_in(tmp_path).close()
        (tmp_path / "s.rows.1.arrows").write_bytes(b"torn")
    flushed(tmp_path, 1)
    assert rows_in(tmp_path)["number"].to_pylist() == [0, 1]
    assert len(list(tmp_path.iterdir())) == 4


def test_what_a_former_query_of_the_same_name_left_is_no_part_of_the_output(tmp_path: Path) -> None:
    flushed(tmp_path, 0, 1, life=7)
    assert archive_in(tmp_path, life=8).durable is None
    flushed(tmp_path, 0, life=8)
    assert rows_in(tmp_path)["number"].to_pylist() == [0]


def test_it_continues_in_the_generation_of_the_last_delivery(tmp_path: Path) -> None:
    flushed(tmp_path, 0)
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(20, 3)]), generation=4))
    archive.flush()
    durable = archive_in(tmp_path).durable
    assert durable == Durable(generation=4, position=Position(next_seq=3, watermark_ms=20))
    assert rows_in(tmp_path)["_generation"].to_pylist() == [1, 4, 4, 4]


def test_a_series_that_was_begun_but_not_flushed_is_not_there_yet(tmp_path: Path) -> None:
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 1)])))
    with pytest.raises(FileNotFoundError, match=r"s\.completed"):
        rows_in(tmp_path)
    archive.close()


def test_the_disk_has_tuples_before_it_has_their_completed_timestamps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[tuple[str, int]] = []

    def fsync(opened: int) -> None:
        name = Path(f"/proc/self/fd/{opened}").resolve().name
        synced.append((name.split(".")[1] if name != tmp_path.name else "folder", written()))

    def written() -> int:
        """Completed timestamps that a reader finds."""
        files = list(tmp_path.glob("s.completed.*"))
        return sum(bool(file.stat().st_size) for file in files)

    monkeypatch.setattr("os.fsync", fsync)
    archive = archive_in(tmp_path)
    archive.keep(delivery(chunk(0, [(10, 2)])))
    archive.flush()
    assert synced == [("folder", 0), ("rows", 0), ("completed", 1)]
    archive.keep(delivery(chunk(2, [(20, 0)])))
    archive.flush()
    # The process ends here; what it wrote is acknowledged by the next one.
    synced.clear()
    assert archive_in(tmp_path).durable == archive.durable
    assert [name for name, _ in synced] == ["rows", "completed", "folder"]
