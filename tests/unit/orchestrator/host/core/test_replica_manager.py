"""What a host's replicas, sources and sinks demand of others, and what others may demand here."""

import msgspec
import pytest

from ha.memory import MemoryBudget
from ha.messages import Ack, Control, Subscribe
from orchestrator.edges.events import SinkOpened, SourceEmitted
from orchestrator.records import Assignment, Overflow, SinkAssignment, SourceAssignment
from streams.vectors.chunk import Position
from tests.driven_host import COLUMNS, SETTINGS, Driven, assigned, assignment_of, peers
from tests.streams_of_numbers import chunk


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


def site_of(*readers: str) -> Driven:
    """The site of `s`, where two tuples have entered."""
    made = Driven("site")
    source = SourceAssignment(stream="s", columns=COLUMNS, source=None, start_at_us=None)
    made.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": readers}, peers=peers())
    )
    part = chunk(0, [(10, 2)])
    made.handle(
        SourceEmitted(
            stream="s",
            rows=part.rows,
            watermarks_ms=part.watermarks_ms,
            ingestion_times_us=part.ingestion_times_us,
        )
    )
    return made


def acknowledge(host: Driven, reader: str, *, patient: bool = False, demands: bool = False) -> None:
    at = Position(next_seq=2, watermark_ms=10)
    generation = host.core.replica_manager.sources["s"].generation
    demanded = at if demands else None
    told = Ack(position=at, epoch=0, generation=generation, patient=patient, demanded=demanded)
    host.hear(reader, Control(acks={"s": told}))


def test_input_is_safe_once_every_reader_has_it_also_one_that_has_yet_to_subscribe() -> None:
    host = site_of("one", "two", "three")
    manager = host.core.replica_manager
    acknowledge(host, "one", demands=True)
    # A site that has started again hears one replica of a fragment before the other.
    assert manager.held_by_readers("s") is None
    acknowledge(host, "two")
    assert manager.held_by_readers("s") == manager.sources["s"].log.end


def test_an_observer_that_acknowledges_nothing_keeps_no_input_from_being_safe() -> None:
    host = site_of("one", "exit")
    manager = host.core.replica_manager
    host.hear("exit", Subscribe(stream="s", position=None, generation=None, patient=True))
    acknowledge(host, "one", demands=True)
    assert manager.held_by_readers("s") == manager.sources["s"].log.end
    host.hear("exit", Subscribe(stream="s", position=None, generation=None, demands=True))
    assert manager.held_by_readers("s") == Position()


def test_input_that_nobody_reads_is_safe() -> None:
    manager = site_of().core.replica_manager
    assert manager.held_by_readers("s") == manager.sources["s"].log.end
