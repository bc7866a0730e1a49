"""Savepoints are copied step by step, whoever leads, and are whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec import structs

from orchestrator.checkpoints.checkpoint_file import CheckpointRefused
from orchestrator.checkpoints.savepoint import KeptFiles, Savepoint, savepoints_of
from orchestrator.checkpoints.savepoint_index import INDEX
from orchestrator.control.checkpoint_sweep import UNLISTED_S, CheckpointSweep
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.savepoints import FAILED
from orchestrator.control.decide.since import with_times
from orchestrator.control.decide.writes import decide
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.savepoint_work import DELETED, FORGOTTEN_US, KEPT, SavepointWork
from orchestrator.records import FormerStatement, SavepointRecord, SavepointState
from orchestrator.store.protocol import CHECKPOINTS, FRAGMENTS, QUERIES, SAVEPOINTS
from tests.saved_cluster import AT_US, SavedCluster


@pytest.fixture
def saved(tmp_path: Path) -> SavedCluster:
    return SavedCluster(tmp_path / "state")


def events(saved: SavedCluster) -> list[str]:
    return [each.event.kind for each in saved.store.history()]


def test_every_prefix_of_the_steps_has_no_index_and_another_leader_goes_on(
    saved: SavedCluster,
) -> None:
    pieces = len(saved.begin().pieces)
    for done in range(pieces):
        assert len(saved.files()) == done
        # Each step by a leader of its own.
        assert SavepointWork(saved.store, lambda: True, now_us=lambda: AT_US).step()
        assert INDEX not in saved.files()
        assert sum(each.crc32 is not None for each in saved.record().pieces) == done + 1
    assert saved.record().copied_bytes == saved.record().bytes > 0
    saved.work.step()
    assert saved.record().state is SavepointState.KEPT
    found = Savepoint(KeptFiles(savepoints_of(saved.folder).folder, "before"))
    assert len([*found.check()]) == pieces
    state = found.state_of("proximity.alerts")
    assert state is not None
    assert (state[0].fragment, state[1]) == ("alerts", [b"proximity.alerts", b"state"])
    assert found.state_of("proximity.nothing") is None
    assert events(saved)[-1] == KEPT


def test_whoever_does_not_lead_saves_nothing(saved: SavedCluster) -> None:
    saved.begin()
    saved.leads = False
    assert not saved.work.step()
    assert not saved.files()


def test_a_damaged_checkpoint_fails_it_and_leaves_nothing(saved: SavedCluster) -> None:
    piece = saved.begin().pieces[1]
    file = Path(saved.folder) / piece.fragment / piece.checkpoint
    file.write_bytes(file.read_bytes()[:-3])
    while saved.work.step():
        pass
    record = saved.record()
    assert record.state is SavepointState.FAILED
    assert f"checkpoint {piece.checkpoint} of {piece.fragment} is damaged" in record.why
    assert not saved.files()
    assert events(saved)[-1] == FAILED


def test_a_query_that_changes_meanwhile_fails_it(saved: SavedCluster) -> None:
    saved.begin()
    saved.work.step()
    found = saved.store.get(QUERIES.key("proximity"))
    assert found is not None
    saved.store.update(QUERIES.key("proximity"), found.record, found.version)
    while saved.work.step():
        pass
    record = saved.record()
    assert (record.state, record.why) == (
        SavepointState.FAILED,
        "queries/proximity changed while it was taken. Ask for it again",
    )
    assert not saved.files()


def test_a_change_of_which_only_a_part_is_written_fails_it(saved: SavedCluster) -> None:
    """Whoever went on from it would carry out a change to the statement that there is already."""
    saved.begin()
    key = FRAGMENTS.key("proximity.alerts")
    found = saved.store.get(key)
    assert found is not None
    former = FormerStatement(statement="REGISTER QUERY alerts …", change=7, keeps=False)
    saved.store.update(key, structs.replace(found.record, former=(former,)), found.version)
    while saved.work.step():
        pass
    record = saved.record()
    assert (record.state, record.why) == (
        SavepointState.FAILED,
        "queries/proximity changed while it was taken. Ask for it again",
    )


def test_a_copy_that_the_disk_has_lost_fails_it(saved: SavedCluster) -> None:
    pieces = saved.begin().pieces
    for _ in pieces:
        saved.work.step()
    copy = Path(saved.folder) / "savepoints" / "before" / f"{pieces[0].fragment}.piece"
    copy.write_bytes(b"?" + copy.read_bytes()[1:])
    while saved.work.step():
        pass
    assert saved.record().state is SavepointState.FAILED
    assert "is damaged" in saved.record().why


def test_one_that_is_deleted_goes_with_its_files_also_in_the_middle(saved: SavedCluster) -> None:
    for steps in (1, 50):
        saved.begin()
        for _ in range(steps):
            saved.work.step()
        found = saved.store.get(SAVEPOINTS.key("before"))
        assert found is not None
        deleted = structs.replace(found.record, state=SavepointState.DELETED)
        saved.store.update(SAVEPOINTS.key("before"), deleted, found.version)
        while saved.work.step():
            pass
        assert saved.store.get(SAVEPOINTS.key("before")) is None
        assert not saved.files()
        assert events(saved)[-1] == DELETED


def test_one_that_failed_is_forgotten_after_a_while(saved: SavedCluster) -> None:
    record = structs.replace(saved.begin(), state=SavepointState.FAILED, ended_us=AT_US)
    saved.store.update(SAVEPOINTS.key("before"), record, 0)
    saved.work.step()
    assert saved.record().emptied
    later = SavepointWork(saved.store, lambda: True, now_us=lambda: AT_US + FORGOTTEN_US + 1)
    later.step()
    assert saved.store.get(SAVEPOINTS.key("before")) is None


def test_what_is_yet_to_be_copied_is_not_swept(saved: SavedCluster) -> None:
    pieces = saved.begin().pieces
    saved.work.step()
    for key, found in saved.view.checkpoints.items():
        saved.store.delete(CHECKPOINTS.key(key), found.version)
    now_s = 0.0
    sweep = CheckpointSweep(saved.store, lambda: True, lambda: now_s)
    sweep.sweep()
    now_s = UNLISTED_S + 1
    sweep.sweep()
    assert sorted(saved.checkpoints.names()) == [each.fragment for each in pieces[1:]]
    while saved.work.step():
        pass
    assert saved.record().state is SavepointState.KEPT
    sweep.sweep()
    assert not saved.checkpoints.names()
    # The sweep looks at checkpoints only.
    assert INDEX in saved.files()


def test_a_savepoint_without_index_is_none(saved: SavedCluster) -> None:
    saved.begin()
    saved.work.step()
    with pytest.raises(CheckpointRefused, match=r"index\.json is not in"):
        Savepoint(KeptFiles(savepoints_of(saved.folder).folder, "before"))


def test_a_leader_that_comes_after_an_hour_awaits_what_sites_have_to_copy(
    saved: SavedCluster,
) -> None:
    """Everything was dead meanwhile."""
    record = structs.replace(saved.begin(), journals={"north": None})
    saved.store.update(SAVEPOINTS.key("before"), record, 0)
    settings = DecisionSettings()

    def fails(view: ClusterView, now_us: int) -> bool:
        written = [each.record for each in decide(view, now_us, settings).writes]
        found = [each for each in written if isinstance(each, SavepointRecord)]
        return any(each.state is SavepointState.FAILED for each in found)

    now_us = record.asked_us + 3_600_000_000
    first = with_times(saved.view, None, now_us)
    assert not fails(first, now_us)
    for minutes, failed in ((1, False), (3, True)):
        at_us = now_us + minutes * 60_000_000
        assert fails(with_times(saved.view, first, at_us), at_us) == failed
