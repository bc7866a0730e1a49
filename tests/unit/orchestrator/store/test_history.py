"""The bound of the audit trail."""

from __future__ import annotations

from orchestrator.records import HistoryEvent
from orchestrator.simulation.world.memory_store import MemoryServer, MemoryStore
from orchestrator.store.protocol import MOST_REPORTS

LIMIT = 100


class Counting(MemoryStore):
    """Counts how often a folder is listed."""

    listed = 0

    def _names(self, folder: str) -> list[str]:
        self.listed += 1
        return super()._names(folder)


def test_history_is_listed_rarely_and_stays_near_its_bound() -> None:
    store = Counting(MemoryServer(history_limit=LIMIT))
    store.resume()
    for number in range(3 * LIMIT):
        store.append_history(HistoryEvent(at_us=number, kind="planned", subject="q", detail=""))
    assert store.listed <= 3 * 20 + 1
    assert LIMIT <= len(store.history()) <= LIMIT + LIMIT // 20


def test_other_events_do_not_push_the_reports_of_drills_out() -> None:
    store = MemoryServer(history_limit=LIMIT).connect()
    begun = HistoryEvent(at_us=0, kind="drill passed", subject="hang", detail="", report={"a": 1})
    store.append_history(begun)
    for number in range(2 * LIMIT):
        store.append_history(HistoryEvent(at_us=number, kind="planned", subject="q", detail=""))
    found = [each.event for each in store.history()]
    assert found[0] == begun
    assert len(found) <= LIMIT + LIMIT // 20 + 1


def test_the_oldest_reports_are_dropped_beyond_their_bound() -> None:
    store = MemoryServer(history_limit=LIMIT).connect()
    for number in range(MOST_REPORTS + LIMIT):
        store.append_history(
            HistoryEvent(at_us=number, kind="drill passed", subject="x", detail="", report={})
        )
    times_us = [each.event.at_us for each in store.history()]
    assert MOST_REPORTS <= len(times_us) <= MOST_REPORTS + LIMIT // 20
    assert times_us[-1] == MOST_REPORTS + LIMIT - 1
