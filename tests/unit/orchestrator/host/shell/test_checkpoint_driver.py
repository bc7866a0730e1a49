"""Threads that write and read a host's checkpoints."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from msgspec import structs

from ha.messages import Snapshot
from orchestrator.host.core.events import (
    CheckpointFailed,
    CheckpointUnreadable,
    CheckpointWritten,
    ReadCheckpoint,
    WriteCheckpoint,
)
from orchestrator.host.shell.checkpoint_driver import CheckpointThreads, FramesRead, NoCheckpoints
from orchestrator.host.shell.wire import decode
from orchestrator.records import ClusterRecord, StateSpec, StoredCheckpoint, StoredPosition
from streams.vectors.chunk import Chunk, Position, stream_schema
from streams.vectors.state import SavedState

SCHEMA = stream_schema({"value": "int"})
POSITION = Position(next_seq=2, watermark_ms=1000)
STORED = StoredPosition(next_seq=2, watermark_ms=1000)


def snapshot() -> Snapshot:
    rows = pa.RecordBatch.from_pylist([{"_ts": 1000, "value": 7}], schema=SCHEMA)
    chunk = Chunk(
        first_seq=1,
        rows=rows,
        watermarks_ms=np.array([1000]),
        ingestion_times_us=np.array([5]),
    )
    return Snapshot(
        fragment="f",
        epoch=8,
        generation=7,
        state=SavedState.of([b"one", b"two"]),
        inputs={"s": (3, POSITION)},
        log_base=Position(next_seq=1, watermark_ms=900),
        log=(chunk,),
        consumers=(("n2", POSITION, False, True),),
    )


def writes() -> WriteCheckpoint:
    stored = StoredCheckpoint(
        name="7-1000-n1.checkpoint",
        at_us=1,
        generation=7,
        inputs={"s": (3, STORED)},
        log_base=StoredPosition(next_seq=1, watermark_ms=900),
        output=STORED,
    )
    return WriteCheckpoint(
        query="q", fragment="f", program="abc", snapshot=snapshot(), stored=stored
    )


READS = ReadCheckpoint(query="q", fragment="f", programs=("abc",), name="7-1000-n1.checkpoint")


class Driver:
    def __init__(self, folder: Path | str, cluster_id: str = "5ea") -> None:
        self.woken = threading.Event()
        settings = ClusterRecord(
            name="sea", id=cluster_id, delays_ms={}, state=StateSpec(folder=str(folder))
        )
        self.threads = CheckpointThreads(settings, self.woken.set)

    def told(self) -> object:
        assert self.woken.wait(30)
        self.woken.clear()
        return self.threads.take()


def test_what_was_written_can_be_decoded_again(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver.threads.write(writes())
    written = driver.told()
    size = (tmp_path / "q.f" / "7-1000-n1.checkpoint").stat().st_size
    assert written == CheckpointWritten(
        fragment="f", stored=structs.replace(writes().stored, bytes=size)
    )
    driver.threads.read(READS)
    found = driver.told()
    assert isinstance(found, FramesRead)
    assert decode(found.frames, lambda _: SCHEMA) == snapshot()


@pytest.mark.parametrize(
    ("reads", "cluster_id", "why"),
    [
        (structs.replace(READS, name="7-2000-n1.checkpoint"), "5ea", "is not in"),
        (structs.replace(READS, programs=("other",)), "5ea", "is of another statement"),
        (READS, "0ther", "is of another cluster, sea (5ea)"),
    ],
)
def test_a_checkpoint_that_cannot_be_used_says_why(
    tmp_path: Path, reads: ReadCheckpoint, cluster_id: str, why: str
) -> None:
    driver = Driver(tmp_path)
    driver.threads.write(writes())
    driver.told()
    other = Driver(tmp_path, cluster_id)
    other.threads.read(reads)
    told = other.told()
    assert isinstance(told, CheckpointUnreadable)
    assert told.why.startswith(why)


def test_a_state_that_cannot_be_encoded_is_said_and_the_next_one_is_written(
    tmp_path: Path,
) -> None:
    def fails() -> None:
        raise ValueError("no")

    driver, broken = Driver(tmp_path), writes()
    state = SavedState(lambda: (fails() or b"" for _ in range(1)))
    driver.threads.write(
        structs.replace(broken, snapshot=structs.replace(broken.snapshot, state=state))
    )
    told = driver.told()
    assert isinstance(told, CheckpointFailed)
    assert "ValueError" in told.why
    driver.threads.write(writes())
    assert isinstance(driver.told(), CheckpointWritten)


def test_without_a_folder_nothing_is_kept_or_read() -> None:
    nowhere = NoCheckpoints()
    nowhere.write(writes())
    nowhere.read(READS)
    assert isinstance(nowhere.take(), CheckpointFailed)
    assert isinstance(nowhere.take(), CheckpointUnreadable)
    assert nowhere.take() is None
