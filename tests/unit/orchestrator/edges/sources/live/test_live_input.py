"""A live input whose disk stalls, whose clients come again, and of which very much waits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from orchestrator.edges.sources.formats.rejections import RejectedInput
from orchestrator.edges.sources.live.confirmed_input import ConfirmedInput
from orchestrator.edges.sources.live.ingestion import Full, Ingestion, Push
from orchestrator.edges.sources.live.journal import Commit, Journal
from orchestrator.edges.sources.live.live_input import BATCHES_AT_ONCE, JournaledInput
from orchestrator.edges.sources.live.orderer import EventTime
from orchestrator.edges.sources.live.waiting_tuples import WaitingTuples
from streams.vectors.chunk import NO_WATERMARK
from tests.unit.orchestrator.edges.sources.live.test_ingestion import (
    BY_COLUMN,
    SCHEMA,
    Clocked,
    emitted,
    rows,
)

FOR_CLIENTS = EventTime(
    by_arrival=False, slack_ms=0, idle_after_ms=1000, max_ahead_ms=60_000, returns_ms=3000
)
"""What `http` and `tcp` have by default, with a timestamp from a column."""


def numbered(count: int) -> pa.RecordBatch:
    """So many tuples with the timestamps from 0 on."""
    stamps = pa.array(np.arange(count))
    return pa.RecordBatch.from_arrays([stamps, stamps], schema=SCHEMA)


class Slow(Journal):
    """A journal on a disk that stalls now and then."""

    clock: Clock
    stalls_ms = 0

    def append(self, commit: Commit) -> None:
        super().append(commit)
        self.clock.now_us += 1000 * self.stalls_ms
        self.stalls_ms = 0


class Clock:
    def __init__(self) -> None:
        self.now_us = 1_000_000_000


def on_slow_disk(folder: Path) -> tuple[Clock, Slow, JournaledInput]:
    clock = Clock()
    journal = Slow(folder, SCHEMA, retain_bytes=2**25, sync=False)
    journal.clock = clock
    source = JournaledInput(
        "s",
        Ingestion(SCHEMA, FOR_CLIENTS, journal, clock.now_us),
        journal,
        clock_us=lambda: clock.now_us,
        wake=lambda: None,
        buffer_bytes=2**23,
        advance_us=100_000,
        rejections=RejectedInput("s", None, lambda: 0),
    )
    source.seek(NO_WATERMARK)
    return clock, journal, source


def test_what_had_arrived_in_time_is_not_late_because_the_disk_stalled(tmp_path: Path) -> None:
    """Lines over TCP, in order, each of the time at which it came: none can be late."""
    clock, _, source = on_slow_disk(tmp_path / "journal")
    clock.now_us += 10_000_000
    begin_us = clock.now_us
    # A sensor sends a line every 10 ms. One commit takes 10 s meanwhile.
    source.push(rows(begin_us // 1000), confirms=False)
    source.commit()
    for number in range(1, 1000):
        clock.now_us = begin_us + 10_000 * number
        source.push(rows(clock.now_us // 1000), confirms=False)
    for _ in range(1000 // BATCHES_AT_ONCE + 1):
        source.commit()
    late = source.status.late
    source.close()
    assert late == 0


def test_who_waits_for_a_response_that_the_disk_holds_up_is_not_silent(tmp_path: Path) -> None:
    """A client sends each second what it has measured, and waits for the response."""
    clock, journal, source = on_slow_disk(tmp_path / "journal")
    clock.now_us += 10_000_000
    stamp = clock.now_us // 1000
    journal.stalls_ms = 10_000
    source.push(rows(stamp), confirms=False)
    source.commit()
    # The response goes out; the next batch is on its way for 150 ms.
    clock.now_us += 100_000
    source.commit()
    clock.now_us += 50_000
    source.push(rows(*range(stamp + 1000, stamp + 10_001, 1000)), confirms=False)
    source.commit()
    late = source.status.late
    source.close()
    assert late == 0


def test_who_waits_until_a_busy_site_takes_a_batch_in_is_not_silent(tmp_path: Path) -> None:
    """Nor does it see its own tuples enter by the clock before it could send more."""
    clock, _, source = on_slow_disk(tmp_path / "journal")
    clock.now_us += 10_000_000
    stamp = clock.now_us // 1000
    source.push(rows(stamp), confirms=False)
    clock.now_us += 10_000_000
    source.commit()
    waits = source.waiting_tuples
    source.push(rows(stamp + 1000), confirms=False)
    source.commit()
    late = source.status.late
    source.close()
    assert (waits, late) == (1, 0)


def full(event_time: EventTime, *stamps: int, most_bytes: int = 10_000) -> Clocked:
    """A source in which as much waits as may."""
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=most_bytes)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    while source.input.waits_for is None:
        source.send(*stamps * 50)
    return source


def test_a_batch_that_comes_again_is_told_so_however_much_waits() -> None:
    """Its response was lost. The client sends nothing else, such as what ends the wait, before."""
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=10_000)
    event_time = replace(BY_COLUMN, idle_after_ms=None)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    source.input.push(rows(*[100] * 1000), client="c", number=1, waits=False, confirms=False)
    source.input.commit()
    assert source.input.waits_for is not None
    assert source.input.has("c", 1)
    source.input.push(rows(*[100] * 1000), client="c", number=1, waits=False, confirms=False)
    source.input.commit()
    assert source.input.status.repeated == 1


def test_what_does_not_enter_anyway_is_counted_however_much_waits() -> None:
    """A reader that waits with such a batch reads nothing of what would end the wait."""
    source = full(replace(BY_COLUMN, idle_after_ms=None, max_ahead_ms=60_000), 100)
    source.send(10**9)
    assert source.input.status.ahead == 1


def test_what_is_late_anyway_is_counted_however_much_waits() -> None:
    source = full(replace(BY_COLUMN, idle_after_ms=None), 100)
    source.send(50)
    assert source.input.status.late == 1


def test_however_batches_are_made_little_more_waits_than_may() -> None:
    """Each ends the wait of one tuple, and brings a thousand."""
    waiting = WaitingTuples(SCHEMA, memory_bytes=1000, most_bytes=100_000)
    event_time = replace(BY_COLUMN, slack_ms=100_000, idle_after_ms=None)
    source = Clocked(Ingestion(SCHEMA, event_time, None, waiting=waiting))
    # Little comes at first, then much: a rate that rises within the slack.
    for stamp in range(500):
        source.send(stamp)
    most = 0
    for stamp in range(400):
        try:
            source.send(*[100_001 + stamp] * 1000)
        except Full:
            break
        emitted(source.input)
        most = max(most, source.input.waiting.bytes if source.input.waiting else 0)
    assert most < 1_000_000


def confirmed(event_time: EventTime, memory_bytes: int) -> ConfirmedInput:
    waiting = WaitingTuples(SCHEMA, memory_bytes=memory_bytes)
    return ConfirmedInput(
        "s",
        Ingestion(SCHEMA, event_time, None, waiting=waiting),
        None,
        clock_us=lambda: 1_000_000,
        wake=lambda: None,
        buffer_bytes=2**23,
        advance_us=10_000,
        rejections=RejectedInput("s", None, lambda: 0),
    )


def test_what_waits_for_consumers_lies_in_files_too() -> None:
    """`durable: replicas` over TCP: nobody waits for the outcome of a line."""
    event_time = replace(BY_COLUMN, slack_ms=100_000, idle_after_ms=None)
    source = confirmed(event_time, memory_bytes=2**20)
    before = pa.default_memory_pool().bytes_allocated()
    for _ in range(64):
        source.push(numbered(2**16), confirms=False)
        source.commit()
    assert source.waiting is not None
    assert source.waiting.bytes == 2**26
    in_memory = pa.default_memory_pool().bytes_allocated() - before
    assert in_memory < 2**23, f"{in_memory / 2**20:.0f} MiB, and 1 MiB may be"


def _let_much_wait(folder: Path) -> None:
    # Late by up to a minute: each batch has tuples of all of it.
    event_time = replace(BY_COLUMN, slack_ms=60_000, idle_after_ms=None)
    journal = Journal(folder, SCHEMA, retain_bytes=2**25, sync=False)
    waiting = WaitingTuples(SCHEMA, memory_bytes=2**20)
    ingestion = Ingestion(SCHEMA, event_time, journal, waiting=waiting)
    batch = numbered(60_000)
    for _ in range(64):
        ingestion.take([Push(batch, 0)], 0)
    ingestion.take([Push(rows(100 + 60_000), 0)], 0)
    assert ingestion.waiting_bytes > 2**25
    journal.close()


def test_a_site_that_starts_again_holds_no_more_in_memory_than_it_may(tmp_path: Path) -> None:
    """Of each batch that waits, a part has entered before."""
    _let_much_wait(tmp_path / "journal")
    before = pa.default_memory_pool().bytes_allocated()
    again = Journal(tmp_path / "journal", SCHEMA, retain_bytes=2**25, sync=False)
    found = pa.default_memory_pool().bytes_allocated() - before
    again.close()
    assert found < 2**23, f"{found / 2**20:.0f} MiB"


def _mapped_bytes(folder: Path) -> int:
    """Of files without names in a folder."""
    found = 0
    for line in Path("/proc/self/maps").read_text().splitlines():
        if str(folder) in line:
            begin, end = (int(each, 16) for each in line.split()[0].split("-"))
            found += end - begin
    return found


def test_files_of_which_little_waits_still_make_room_again(tmp_path: Path) -> None:
    """Most devices send what is old, few what is new; `slack` is a day."""
    waiting = WaitingTuples(SCHEMA, memory_bytes=2**16, folder=tmp_path, most_bytes=2**20)
    for number in range(300):
        waiting.add(rows(*[number] * 5000, 10**6))
        waiting.settle()
        waiting.take(number, 2**40)
    size, mapped = waiting.size_bytes, _mapped_bytes(tmp_path)
    assert mapped < 2**22, f"{mapped} bytes in files, of which {size} wait; 2**20 may"


def test_who_is_refused_for_lack_of_room_is_not_silent() -> None:
    """A client was told 429, `send this again`. The clock would make it late."""
    source = full(replace(BY_COLUMN, idle_after_ms=1000), 100)
    for _ in range(30):
        with pytest.raises(Full):
            source.send(*[100] * 50)
        source.wait(100)
    assert source.input.waits_for is not None
    source.wait(1010)
    assert source.input.waits_for is None
