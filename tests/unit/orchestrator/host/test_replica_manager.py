"""What a host's replicas, sources and sinks demand of others, and what others may demand here."""

import msgspec
import pytest

from ha.memory import MemoryBudget
from ha.messages import Subscribe
from orchestrator.host.events import SinkOpened
from orchestrator.records import Assignment, Overflow, SinkAssignment
from tests.driven_host import COLUMNS, SETTINGS, Driven, assigned, assignment_of, peers


@pytest.mark.parametrize("overflow", Overflow)
def test_a_sink_holds_producers_up_unless_its_query_says_that_output_is_dropped(
    overflow: Overflow,
) -> None:
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100, overflow=overflow)
    host.assign(
        Assignment(incarnation="1", sinks=(sink,), producers={"f": ("one",)}, peers=peers())
    )
    host.handle(SinkOpened(stream="f", durable=None))
    (request,) = host.take(Subscribe)
    assert request.demands == (overflow is Overflow.WAIT)


def test_nothing_is_kept_for_a_consumer_that_is_assigned_the_stream_no_longer() -> None:
    host = Driven("one")
    assignment = assignment_of(assigned("primary", peer_replica="two"))
    host.assign(assignment)
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, demands=True))
    log = host.core.replica_manager.replicas["f"].replica.log
    host.assign(assignment)
    assert log.subscribers["exit"].demanded is not None
    host.assign(msgspec.structs.replace(assignment, consumers={"f": ("two",)}))
    assert "exit" not in log.subscribers


def test_the_output_logs_of_a_host_share_its_memory() -> None:
    host = Driven("one", msgspec.structs.replace(SETTINGS, memory_bytes=2**20))
    first = assigned("primary", peer_replica="two")
    second = msgspec.structs.replace(
        first, fragment="g", statement=first.statement.replace(" f ", " g ")
    )
    for fragments in ((first,), (first, second), (second,)):
        host.assign(assignment_of(*fragments))
        hosted = host.core.replica_manager.replicas.values()
        part = MemoryBudget(2**20).log_bytes(len(fragments))
        assert [each.replica.log.capacity_bytes for each in hosted] == [part] * len(fragments)
