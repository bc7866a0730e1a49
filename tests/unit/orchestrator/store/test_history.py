"""The bound of the audit trail."""

from __future__ import annotations

from orchestrator.records import HistoryEvent
from orchestrator.simulation.memory_store import MemoryServer, MemoryStore

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
