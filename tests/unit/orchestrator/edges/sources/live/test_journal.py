"""The journal: what was appended is there again, whatever a killed process left behind it."""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from orchestrator.edges.drivers import DriverError
from orchestrator.edges.open_folders import FilesGone
from orchestrator.edges.sources.live import journal as journals
from orchestrator.edges.sources.live.journal import ADVANCES, MOST_READ_ENTRIES, Commit, Journal
from orchestrator.edges.sources.live.journal_entries import PREFIX, parts, payloads
from streams.vectors.chunk import NO_WATERMARK, Chunk, Position, stream_schema

SCHEMA = stream_schema({"number": "int"})
END = Position(next_seq=10**6, watermark_ms=10**9)

Open = Callable[[], Journal]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Opens the journal; a former one is closed, as by the end of its process."""
    made: list[Journal] = []

    def open_it() -> Journal:
        if made:
            made[-1].close()
        made.append(Journal(tmp_path / "j", SCHEMA, retain_bytes=2**20))
        return made[-1]

    return open_it


def rows(*timestamps: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"_ts": timestamps, "number": timestamps}, schema=SCHEMA)


def chunk(first_seq: int, *timestamps: int, watermark_ms: int | None = None) -> Chunk:
    last = timestamps[-1] if watermark_ms is None else watermark_ms
    watermarks_ms = np.unique(np.array([*timestamps, last], dtype=np.int64))
    return Chunk(
        first_seq=first_seq,
        rows=rows(*timestamps),
        watermarks_ms=watermarks_ms,
        ingestion_times_us=watermarks_ms * 7,
    )


def commit(
    *chunks: Chunk,
    waiting: tuple[int, ...] = (),
    client: tuple[str, int] | None = None,
    digest: int | None = None,
) -> Commit:
    watermark_ms = chunks[-1].watermark_ms if chunks else NO_WATERMARK
    return Commit(
        chunks=chunks,
        waiting=rows(*waiting) if waiting else None,
        watermark_ms=watermark_ms,
        newest_ms=max([watermark_ms, *waiting]),
        clients=[(*client, digest)] if client else [],
    )


def everything(journal: Journal, after: Position | None = None) -> list[int]:
    numbers: list[int] = []
    cut = after or journal.retained
    while (part := journal.read(cut, END)) is not None:
        assert part.first_seq == cut.next_seq
        numbers += part.rows.column(1).to_pylist()
        cut = part.end
    return numbers


def test_what_was_appended_is_there_again(opened: Open) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 1, 2, 2), chunk(3, 5), waiting=(9, 8), client=("c", 4)))
    journal.append(commit(chunk(4, 8), waiting=(11,)))
    again = opened()
    assert again.end == Position(next_seq=5, watermark_ms=8)
    assert everything(again) == [1, 2, 2, 5, 8]
    assert [batch.column(0).to_pylist() for batch in again.take_waiting()] == [[9], [11]]
    assert again.newest_ms == 11
    assert again.clients.has("c", 4)
    assert not again.clients.has("c", 5)
    part = again.read(Position(), END)
    assert part is not None
    assert part.ingestion_times_us.tolist() == [7, 14, 35, 56]


def test_what_a_client_sent_under_its_numbers_outlives_processes_and_segments(
    opened: Open,
) -> None:
    journal = opened()
    for number in range(3):
        journal.append(commit(client=("c", number), digest=10 + number))
    journal.append(commit(client=("other", 0), digest=2**63 - 1))
    for _ in range(2):
        journal.roll([])
        for number in range(3):
            assert not journal.clients.differs("c", number, 10 + number)
            assert journal.clients.differs("c", number, 9)
        assert journal.clients.differs("other", 0, 10)
        assert not journal.clients.differs("c", 3, 9)
        journal = opened()
    assert journal.clients.names == ["c", "other"]


def test_many_numbers_of_one_client_take_no_digest_from_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journals, "MOST_FORMER", 3)
    clients = journals.Clients()
    clients.note("key", 0, 7)
    for number in range(10):
        clients.note("c", number, number)
    assert clients.differs("key", 0, 8)
    told = [clients.differs("c", number, 99) for number in range(10)]
    assert told == [False] * 6 + [True] * 4
    restored = journals.Clients()
    for known in clients.all():
        restored.note(*known)
    assert restored.all() == clients.all()


def test_a_journal_from_before_digests_is_read(opened: Open, tmp_path: Path) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 7), client=("c", 4)))
    journal.close()
    (file,) = (tmp_path / "j").glob("*.journal")
    entries = [parts(payload) for _, payload in payloads(file.read_bytes())]
    written = b""
    for header, rows_, _ in entries:
        fields = msgspec.structs.asdict(header)
        del fields["digests"]
        head = msgspec.msgpack.encode(fields)
        payload = len(head).to_bytes(4, "little") + head + bytes(rows_)
        written += PREFIX.pack(len(payload), zlib.crc32(payload)) + payload
    file.write_bytes(written)
    again = opened()
    assert everything(again) == [7]
    assert again.clients.has("c", 4)
    assert not again.clients.differs("c", 4, 1)


def test_small_entries_are_read_again_together(opened: Open) -> None:
    """Else a reader that has fallen behind the log would never catch up."""
    journal = opened()
    most = 3 * MOST_READ_ENTRIES
    for number in range(most):
        journal.append(commit(chunk(number, 10 * (number + 1))))
    parts: list[int] = []
    cut = Position()
    while (part := journal.read(cut, Position(next_seq=most - 1, watermark_ms=1905))) is not None:
        assert part.first_seq == cut.next_seq
        parts.append(part.rows.num_rows)
        cut = part.end
    assert parts == [MOST_READ_ENTRIES, MOST_READ_ENTRIES, 190 - 2 * MOST_READ_ENTRIES]


def test_what_comes_before_a_damaged_entry_is_read(opened: Open, tmp_path: Path) -> None:
    journal = opened()
    for seq in range(3):
        journal.append(commit(chunk(seq, 7000 + seq)))
    (segment,) = (tmp_path / "j").glob("*.journal")
    stored = bytearray(segment.read_bytes())
    stored[-1] ^= 1
    segment.write_bytes(stored)
    part = journal.read(Position(), END)
    assert part is not None
    assert part.rows.column(1).to_pylist() == [7000, 7001]
    with pytest.raises(DriverError, match="damaged at byte"):
        journal.read(part.end, END)


@pytest.mark.parametrize("entry", [0, 1])
def test_a_journal_that_is_damaged_before_its_end_is_not_opened(
    opened: Open, tmp_path: Path, entry: int
) -> None:
    """Clients were told that what follows is kept, and consumers may have it: the same numbers for
    other tuples would be two results."""
    journal = opened()
    ends = [journal.size_bytes]
    for seq in range(3):
        journal.append(commit(chunk(seq, 7000 + seq)))
        ends.append(journal.size_bytes)
    journal.close()
    (segment,) = (tmp_path / "j").glob("*.journal")
    whole = segment.read_bytes()
    for place in (0, 2, 20):
        stored = bytearray(whole)
        stored[(0 if not entry else ends[entry]) + place] ^= 1
        segment.write_bytes(stored)
        with pytest.raises(DriverError, match="damaged at byte"):
            opened()
    # Its end may be damaged: nobody was told of that.
    segment.write_bytes(whole[:-1])
    assert opened().end.next_seq == 2


def test_the_last_commit_may_be_damaged_anywhere(opened: Open, tmp_path: Path) -> None:
    """A machine that loses power leaves any part of what it had not synced."""
    journal = opened()
    journal.append(commit(chunk(0, 7000)))
    before = journal.size_bytes
    journal.append(commit(chunk(1, 7001), chunk(2, 7002), chunk(3, 7003)))
    journal.close()
    (segment,) = (tmp_path / "j").glob("*.journal")
    stored = bytearray(segment.read_bytes())
    stored[before + 20] ^= 1
    segment.write_bytes(stored)
    assert opened().end.next_seq == 1


def test_a_segment_whose_end_is_missing_is_damaged(opened: Open, tmp_path: Path) -> None:
    journal = opened()
    for seq in range(3):
        journal.append(commit(chunk(seq, 7000 + seq)))
    journal.close()
    opened().close()
    first, *_ = sorted((tmp_path / "j").glob("*.journal"))
    first.write_bytes(first.read_bytes()[:-1])
    with pytest.raises(DriverError, match="damaged at byte"):
        opened()


def test_every_process_continues_and_remembers_all_of_them(opened: Open) -> None:
    for number in range(4):
        journal = opened()
        assert journal.end.next_seq == number
        journal.append(commit(chunk(number, 10 * number), client=(f"c{number}", 1)))
    again = opened()
    assert everything(again) == [0, 10, 20, 30]
    assert all(again.clients.has(f"c{number}", 1) for number in range(4))
    assert opened().end == Position(next_seq=4, watermark_ms=30)


@pytest.mark.parametrize("cut", [1, 7, 8, 9, 40, 90])
def test_a_commit_that_was_not_written_whole_is_ignored(
    opened: Open, tmp_path: Path, cut: int
) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 1)))
    path = next((tmp_path / "j").glob("*.journal"))
    size = path.stat().st_size
    journal.append(commit(chunk(1, 2), chunk(2, 3), client=("c", 1)))
    journal.close()
    data = path.read_bytes()
    assert len(data) > size + 90
    path.write_bytes(data[:-cut])
    again = opened()
    assert again.end == Position(next_seq=1, watermark_ms=1)
    assert not again.clients.has("c", 1)
    again.append(commit(chunk(1, 7)))
    assert everything(opened()) == [1, 7]


def test_zeros_after_the_end_are_no_entries(opened: Open, tmp_path: Path) -> None:
    opened().append(commit(chunk(0, 1)))
    path = next((tmp_path / "j").glob("*.journal"))
    with path.open("ab") as file:
        file.write(bytes(4096))
    assert everything(opened()) == [1]


def test_reading_begins_in_the_middle_of_a_part(opened: Open) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 1, 2, 3), chunk(3, 5)))
    assert everything(journal, Position(next_seq=2, watermark_ms=2)) == [3, 5]
    assert journal.position_at(2) == Position(next_seq=2, watermark_ms=2)
    assert journal.position_at(4) == Position(next_seq=3, watermark_ms=4)
    assert journal.position_at(99) == Position(next_seq=4, watermark_ms=99)
    with pytest.raises(DriverError, match="another one"):
        journal.read(Position(next_seq=1, watermark_ms=2), END)


def test_the_oldest_segments_go_and_the_rest_says_where_it_begins(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "SEGMENT_BYTES", 2**18)
    journal = opened()
    journal.append(commit(client=("gone", 3)))
    seq = 0
    while journal.retained == Position():
        stamps = range(seq, seq + 5000)
        journal.append(commit(chunk(seq, *stamps), waiting=(seq + 6000,), client=("c", seq)))
        seq += 5000
        if journal.is_full:
            journal.roll([rows(seq + 1000)])
    begin = journal.retained
    assert begin.next_seq % 5000 == 0
    assert journal.size_bytes < 2**20 + 2**19
    assert everything(journal) == list(range(begin.next_seq, seq))
    with pytest.raises(DriverError, match="begins at"):
        journal.read(Position(), END)
    again = opened()
    assert again.retained == begin
    assert again.clients.has("c", seq - 5000)
    assert again.clients.has("gone", 3)
    assert [batch.column(0).to_pylist() for batch in again.take_waiting()] == [[seq + 1000]]


def test_what_waits_is_not_written_again_by_each_commit(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head repeats it. If it counted, each commit would begin a segment, and the oldest would go:
    consumers that lag would lose input."""
    monkeypatch.setattr(journals, "SEGMENT_BYTES", 2**14)
    journal = opened()
    waiting = tuple(range(10_000, 20_000))
    journal.append(commit(chunk(0, 7), waiting=waiting))
    assert journal.is_full
    journal.roll([rows(*waiting)])
    assert not journal.is_full
    journal.append(commit(waiting=(20_000,)))
    assert not journal.is_full


def test_a_head_is_cut_into_entries_and_read_where_it_lies(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "HEAD_PIECE_BYTES", 2**14)
    journal = opened()
    waiting = tuple(range(100_000, 300_000))
    journal.append(commit(chunk(0, 7), client=("c", 3)))
    journal.roll([rows(*waiting[:150_000]), rows(*waiting[150_000:])])
    journal.append(commit(waiting=(400_000,)))
    before = pa.default_memory_pool().bytes_allocated()
    again = opened()
    assert pa.default_memory_pool().bytes_allocated() - before < 100_000
    found = [stamp for batch in again.take_waiting() for stamp in batch.column(0).to_pylist()]
    assert found == [*waiting, 400_000]
    assert again.clients.last("c") == 3
    assert again.end == Position(next_seq=1, watermark_ms=7)
    twice = opened()
    assert sum(batch.num_rows for batch in twice.take_waiting()) == len(waiting) + 1


def test_a_head_that_was_not_finished_does_not_count(
    opened: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(journals, "HEAD_PIECE_BYTES", 2**10)
    journal = opened()
    journal.append(commit(chunk(0, 7), waiting=tuple(range(1000, 2000))))
    journal.roll([rows(*range(1000, 2000))])
    journal.close()
    newest = max((tmp_path / "j").glob("*.journal"))
    whole = newest.read_bytes()
    for size in (0, 1, len(whole) // 2, len(whole) - 1):
        newest.write_bytes(whole[:size])
        again = opened()
        assert [s for batch in again.take_waiting() for s in batch.column(0).to_pylist()] == list(
            range(1000, 2000)
        )
        again.close()


@pytest.mark.parametrize("by_whom", ["a commit", "nobody"])
def test_a_journal_whose_newest_segment_was_removed_says_so_and_is_not_continued(
    opened: Open, tmp_path: Path, by_whom: str
) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 1)))
    journal.roll([])
    journal.append(commit(chunk(1, 2)))
    max((tmp_path / "j").glob("*.journal")).unlink()
    notices = journal.check if by_whom == "nobody" else lambda: journal.append(commit(chunk(2, 3)))
    with pytest.raises(FilesGone, match="was removed"):
        notices()
    # Numbers would be given twice that consumers have seen.
    for _ in range(2):
        with pytest.raises(DriverError, match="is gone, and consumers rely on its numbers"):
            opened()


def test_a_process_whose_folder_was_replaced_leaves_the_new_journal_alone(
    opened: Open, tmp_path: Path
) -> None:
    former = opened()
    shutil.rmtree(tmp_path / "j")
    new = Journal(tmp_path / "j", SCHEMA)
    with pytest.raises(FilesGone):
        former.append(commit(chunk(0, 1)))
    new.append(commit(chunk(0, 1)))
    new.close()
    assert everything(opened()) == [1]


def test_a_second_process_is_refused(opened: Open, tmp_path: Path) -> None:
    opened()
    with pytest.raises(DriverError, match="another process"):
        Journal(tmp_path / "j", SCHEMA, retain_bytes=2**20)


def test_a_forgotten_client_that_begins_anew_has_its_new_numbers_after_a_restart(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "MOST_CLIENTS", 2)
    journal = opened()
    for number in range(7):
        journal.append(commit(client=("c", number), digest=number))
    for other in ("d", "e"):
        journal.append(commit(client=(other, 0), digest=0))
    assert journal.clients.last("c") is None
    journal.append(commit(client=("c", 0), digest=100))
    journal.roll([])
    again = opened()
    assert again.clients.last("c") == 0
    # Otherwise this batch, which never came, counts as repeated.
    assert not again.clients.has("c", 1)


def test_nothing_of_a_forgotten_client_speaks_against_what_it_sends_then(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(journals, "MOST_CLIENTS", 2)
    monkeypatch.setattr(journals, "MOST_FORMER", 3)
    clients = journals.Clients()
    for number in range(7):
        clients.note("c", number, number)
    for other in ("d", "e"):
        clients.note(other, 0, 0)
    for number in range(7):
        clients.note("c", number)
    assert not any(clients.differs("c", number, 100) for number in range(7))
    assert clients.all() == [("e", 0, 0), ("c", 6, None)]


def advanced(first_seq: int, watermark_ms: int) -> Commit:
    """The clock goes on where no tuple comes."""
    return commit(chunk(first_seq, watermark_ms=watermark_ms))


def test_the_clock_alone_makes_no_journal_longer(opened: Open) -> None:
    """A stream that is silent at night keeps the tuples of the day."""
    journal = opened()
    journal.append(commit(chunk(0, 10)))
    size_bytes = journal.size_bytes
    for watermark_ms in range(100, 2000, 100):
        journal.append(advanced(1, watermark_ms))
    assert journal.size_bytes == size_bytes
    assert journal.end == Position(next_seq=1, watermark_ms=1900)
    assert journal.position_at(500) == Position(next_seq=1, watermark_ms=500)
    again = opened()
    assert (again.end, again.watermark_ms, again.newest_ms) == (journal.end, 1900, 1900)
    assert everything(again) == [10]
    again.append(commit(chunk(1, 1950)))
    again.append(advanced(2, 2000))
    assert everything(again, journal.end) == [1950]
    last = opened()
    assert everything(last) == [10, 1950]
    assert last.end == Position(next_seq=2, watermark_ms=2000)


@pytest.mark.parametrize("advances", [1, 2, 3, 4])
def test_an_advance_that_was_not_written_whole_leaves_the_one_before(
    opened: Open, tmp_path: Path, advances: int
) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 10)))
    path = tmp_path / "j" / ADVANCES
    before = b""
    for count in range(advances):
        before = path.read_bytes()
        journal.append(advanced(1, 100 * (count + 1)))
    after = path.read_bytes()
    changed = [at for at, byte in enumerate(after) if before[at : at + 1] != bytes([byte])]
    torn = bytearray(before.ljust(len(after), b"\0"))
    half = changed[len(changed) // 2]
    torn[:half] = after[:half]
    path.write_bytes(torn)
    assert opened().end.watermark_ms == max(100 * (advances - 1), 10)


def test_an_advance_after_tuples_that_are_missing_is_damage(opened: Open, tmp_path: Path) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 10)))
    journal.append(commit(chunk(1, 20)))
    journal.append(advanced(2, 100))
    journal.close()
    (segment,) = (tmp_path / "j").glob("*.journal")
    segment.write_bytes(segment.read_bytes()[:-1])
    with pytest.raises(DriverError, match="damaged at byte"):
        opened()


def test_a_copy_goes_as_far_as_the_clock_had_come(opened: Open, tmp_path: Path) -> None:
    journal = opened()
    journal.append(commit(chunk(0, 10)))
    journal.append(advanced(1, 100))
    _, end, files = journal.files()
    journal.append(commit(chunk(1, 150)))
    journal.append(advanced(2, 200))
    (tmp_path / "copy").mkdir()
    for name, content in files:
        (tmp_path / "copy" / name).write_bytes(content)
    assert Journal(tmp_path / "copy", SCHEMA, read_only=True).end == end
