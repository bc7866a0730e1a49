"""Files of checkpoints go once no list needs them, and never while one does."""

from __future__ import annotations

from pathlib import Path

from msgspec import structs

from orchestrator.checkpoints.checkpoint_folder import CheckpointFolder
from orchestrator.control.checkpoint_sweep import UNLISTED_S, CheckpointSweep
from orchestrator.records import (
    CheckpointsRecord,
    ClusterRecord,
    StateSpec,
    StoredCheckpoint,
    StoredPosition,
)
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import CHECKPOINTS, CLUSTER


def stored(generation: int, at_ms: int) -> StoredCheckpoint:
    position = StoredPosition(next_seq=1, watermark_ms=at_ms)
    return StoredCheckpoint(
        name=f"{generation}-{at_ms}-n1.checkpoint",
        at_us=at_ms * 1000,
        generation=generation,
        inputs={},
        log_base=position,
        output=position,
    )


class Swept:
    """A folder with checkpoints, a store that lists some of them, and a clock."""

    def __init__(self, folder: Path, *checkpoints: StoredCheckpoint) -> None:
        self.folder = CheckpointFolder(str(folder))
        self.store: MemoryStore = MemoryServer().connect()
        state = StateSpec(folder=str(folder))
        self.store.create(CLUSTER, ClusterRecord(name="c", delays_ms={}, state=state))
        for each in checkpoints:
            self.folder.write("q.f", each.name, [b"x"])
        self.now_s = 1000.0
        self.leads = True
        self.sweep = CheckpointSweep(self.store, lambda: self.leads, lambda: self.now_s)

    def list(self, *checkpoints: StoredCheckpoint) -> None:
        record = CheckpointsRecord(query="q", fragment="f", stored=checkpoints)
        self.store.create(CHECKPOINTS.key("q.f"), record)

    def left(self) -> list[str]:
        self.sweep.sweep()
        return self.folder.names().get("q.f", [])


def test_what_is_older_than_the_list_goes_and_what_is_newer_has_time(tmp_path: Path) -> None:
    former, old, kept, new = stored(6, 9000), stored(7, 1000), stored(7, 2000), stored(7, 3000)
    swept = Swept(tmp_path, former, old, kept, new)
    swept.list(kept)
    assert swept.left() == [kept.name, new.name]
    swept.now_s += UNLISTED_S + 1
    assert swept.left() == [kept.name]


def test_of_output_that_stands_still_the_times_say_what_is_older(tmp_path: Path) -> None:
    made = [
        structs.replace(stored(7, 2000), name=f"7-2000-{at_us}-n1.checkpoint", at_us=at_us)
        for at_us in (98, 99, 100, 101)
    ]
    without = stored(7, 2000)
    swept = Swept(tmp_path, without, *made)
    swept.list(made[2])
    assert swept.left() == sorted([made[2].name, made[3].name, without.name])


def test_files_of_a_fragment_that_is_gone_go_after_a_while(tmp_path: Path) -> None:
    swept = Swept(tmp_path, stored(7, 1000))
    assert swept.left() == ["7-1000-n1.checkpoint"]
    swept.now_s += UNLISTED_S + 1
    assert swept.left() == []


def test_what_a_process_was_writing_when_it_was_killed_goes_after_a_while(tmp_path: Path) -> None:
    kept = stored(7, 2000)
    swept = Swept(tmp_path, kept)
    swept.list(kept)
    partial = tmp_path / "q.f" / f".{stored(7, 1000).name}.0a1b2c3d"
    partial.write_bytes(b"x")
    assert swept.left() == [partial.name, kept.name], "somebody may be writing it"
    swept.now_s += UNLISTED_S + 1
    assert swept.left() == [kept.name]


def test_whoever_does_not_lead_removes_nothing_and_forgets_what_it_saw(tmp_path: Path) -> None:
    swept = Swept(tmp_path, stored(7, 1000))
    swept.left()
    swept.now_s += UNLISTED_S + 1
    swept.leads = False
    assert swept.left() == ["7-1000-n1.checkpoint"]
    swept.leads = True
    assert swept.left() == ["7-1000-n1.checkpoint"]


def test_files_with_other_names_are_left_alone(tmp_path: Path) -> None:
    swept = Swept(tmp_path)
    (tmp_path / "notes").mkdir(parents=True)
    (tmp_path / "notes" / "mine.checkpoint").write_text("mine")
    swept.sweep.sweep()
    swept.now_s += UNLISTED_S + 1
    swept.sweep.sweep()
    assert (tmp_path / "notes" / "mine.checkpoint").exists()
