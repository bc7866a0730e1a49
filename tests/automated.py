"""A cluster in memory whose leader moves replicas by itself, and what changes around it."""

from __future__ import annotations

import msgspec

from orchestrator.control.process import Coordination
from orchestrator.records import AutomationMode, AutomationRecord
from orchestrator.store.protocol import AUTOMATION
from tests.obedient_cluster import ObedientCluster, aircraft

NORTH = "proximity.north_tracks"


class AutomatedCluster(ObedientCluster):
    """A cluster with a query that runs, in which time passes."""

    now_us: int

    def __init__(self, mode: AutomationMode = AutomationMode.APPLY, **wanted: object) -> None:
        super().__init__()
        self.apply(aircraft())
        self.settle()
        self.want(mode=mode, **wanted)

    def want(self, **wanted: object) -> None:
        """Want automation otherwise."""
        found = self.store.get(AUTOMATION)
        record = AutomationRecord() if found is None else found.record
        record = msgspec.structs.replace(record, **wanted)
        if found is None:
            self.store.create(AUTOMATION, record)
        else:
            self.store.update(AUTOMATION, record, found.version)

    def run(self, seconds: float, every_s: float = 60.0) -> None:
        """Let time pass."""
        for _ in range(round(seconds / every_s)):
            self.now_us += round(every_s * 1e6)
            self.settle()

    def another_leader(self) -> None:
        """Have another coordinator lead, which remembers nothing."""
        self.coordinator_store.close()
        self.coordinator_store = self.server.connect()
        self.coordination = Coordination(self.coordinator_store, "another")

    def farther(self, name: str, by_ms: float) -> None:
        """Have a host farther from all others, or nearer."""
        for other in self.hosts.keys() - {name}:
            for here, there in ((name, other), (other, name)):
                told = dict(self.hosts[here].record.latencies_ms)
                told[there] += by_ms
                self.hosts[here].tell(latencies_ms=told)

    def nodes(self, key: str = NORTH) -> tuple[str, ...]:
        """Where a fragment runs."""
        return tuple(each.node for each in self.view().fragments[key].record.replicas)

    def told(self, kind: str) -> list[str]:
        """Details of the events of a kind."""
        return [e.event.detail for e in self.store.history() if e.event.kind == kind]
