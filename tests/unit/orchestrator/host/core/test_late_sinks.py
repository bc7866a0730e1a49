"""A host whose sink has yet to be opened."""

from __future__ import annotations

import dataclasses
import threading

from orchestrator.edges.sinks.driver import OpenSink
from orchestrator.edges.sinks.sink_drivers import HandingSink, SinkDrivers
from orchestrator.edges.supervision import LONG_OPENING_US
from orchestrator.host.shell.loop import HostLoop, host_identity
from orchestrator.host.shell.name_claim import Claimed
from orchestrator.records import Assignment, ClusterRecord, ReplicaId, SinkAssignment
from orchestrator.store.protocol import ASSIGNMENTS
from tests.unit.orchestrator.host.shell.test_loop import SPEC, Host

SINK = SinkAssignment(stream="alerts", columns={"number": "int"}, deadline_ms=5.0, life=1)


class Hanging(Host):
    def __init__(self) -> None:
        super().__init__()
        self.may_open = threading.Event()

        def open_sink(_: SinkAssignment) -> OpenSink:
            self.may_open.wait(20.0)
            return HandingSink(lambda _delivery: None)

        self.surroundings = dataclasses.replace(
            self.surroundings, sinks=SinkDrivers(open_sink, aside=True)
        )
        claimed = Claimed(replica_of=ReplicaId(node="desk", incarnation="1"), precondition=None)
        self.loop = HostLoop(
            self.surroundings,
            ClusterRecord(name="c", delays_ms={}),
            self.store,
            host_identity(SPEC, "1", ""),
            claimed,
        )
        self.store.create(ASSIGNMENTS.key("desk"), Assignment(incarnation="1", sinks=(SINK,)))

    def end(self) -> None:
        self.may_open.set()
        self.surroundings.sinks.close()


def test_a_sink_that_is_being_opened_does_not_count_as_listening() -> None:
    """`decide._ready` lets streams start once `stream in host.sinks` at each output's site."""
    host = Hanging()
    try:
        record = host.record()
        assert "alerts" not in record.sinks
    finally:
        host.end()


def test_a_sink_that_takes_long_to_open_has_not_failed() -> None:
    """The history says `sink failed` of one that is merely slow; of a source it does not."""
    host = Hanging()
    try:
        host.record()
        host.now_us += LONG_OPENING_US
        assert host.incidents() == []
    finally:
        host.end()
