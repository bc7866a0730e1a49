"""The record by which a process shows that it is alive, when the store's answer is lost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.ephemeral import EphemeralRecord
from orchestrator.store.protocol import (
    PROBLEMS,
    ProblemsRecord,
    StoreUnavailable,
    VersionConflict,
)


def problems(*texts: str) -> ProblemsRecord:
    return ProblemsRecord(problems=texts)


def without_answer(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next update succeeds, and nobody is told."""
    update: Callable[..., int] = store.update

    def unanswered(*arguments: object, **options: object) -> int:
        monkeypatch.undo()
        update(*arguments, **options)
        raise StoreUnavailable("update", "the connection was lost")

    monkeypatch.setattr(store, "update", unanswered)


@pytest.fixture
def server() -> MemoryServer:
    return MemoryServer()


def test_a_write_that_succeeded_without_an_answer_is_no_successor_s(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = server.connect()
    record = EphemeralRecord(store, PROBLEMS)
    record.publish(problems("one"))
    without_answer(store, monkeypatch)
    with pytest.raises(StoreUnavailable):
        record.publish(problems("two"))
    record.publish(problems("three"))
    record.publish(problems("four"))
    found = store.get(PROBLEMS)
    assert found is not None
    assert found.record == problems("four")


def test_a_successor_that_writes_after_a_lost_answer_is_noticed(
    server: MemoryServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, other = server.connect(), server.connect()
    record = EphemeralRecord(store, PROBLEMS)
    record.publish(problems("one"))
    without_answer(store, monkeypatch)
    with pytest.raises(StoreUnavailable):
        record.publish(problems("two"))
    found = other.get(PROBLEMS)
    assert found is not None
    other.update(PROBLEMS, problems("another's"), found.version)
    with pytest.raises(VersionConflict):
        record.publish(problems("three"))


def test_a_record_of_a_session_that_has_ended_is_not_withdrawn(server: MemoryServer) -> None:
    """The version of another process's record may be the same."""
    store, other = server.connect(), server.connect()
    record = EphemeralRecord(store, PROBLEMS)
    record.publish(problems("one"))
    store.expire()
    EphemeralRecord(other, PROBLEMS).publish(problems("another's"))
    store.resume()
    record.withdraw()
    found = other.get(PROBLEMS)
    assert found is not None
    assert found.record == problems("another's")
