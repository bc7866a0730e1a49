"""A host is sent the columns of a stream that its readers use, and no others."""

import msgspec
import numpy as np
import pyarrow as pa
import pytest

from ha.messages import Columns, Control, Data, Subscribe
from orchestrator.host.core.events import Send
from orchestrator.host.shell.wire import as_received
from orchestrator.records import Assignment, FragmentAssignment, SinkAssignment
from streams.vectors.chunk import Chunk, Position, stream_schema
from tests.driven_host import Driven, assigned, assignment_of, subscribed
from tests.driven_host import data as numbered
from tests.streams_of_numbers import chunk

COLUMNS = {"a": "int", "b": "string", "c": "int"}
A, C = 1, 3


def fragment(name: str, statement: str) -> FragmentAssignment:
    made = assigned("primary", peer_replica="two")
    text = f"REGISTER QUERY {name} RSTREAM({statement});"
    return msgspec.structs.replace(made, fragment=name, statement=text, inputs={"s": COLUMNS})


BY_A = fragment("f", "SELECT a FROM s [NOW] WHERE a >= 0")
BY_C = fragment("g", "SELECT c FROM s [NOW]")
COUNT = fragment("h", "SELECT count(*) AS n FROM s [NOW]")


def part(first_seq: int, at_ms: int, rows: int = 1) -> Chunk:
    numbers = list(range(first_seq, first_seq + rows))
    columns = {
        "_ts": [at_ms] * rows,
        "a": numbers,
        "b": [f"text {number}" for number in numbers],
        "c": [10 * number for number in numbers],
    }
    return Chunk(
        first_seq=first_seq,
        rows=pa.RecordBatch.from_pydict(columns, schema=stream_schema(COLUMNS)),
        watermarks_ms=np.array([at_ms]),
        ingestion_times_us=np.array([at_ms * 1000]),
    )


def data(chunk: Chunk, columns: Columns | None) -> Data:
    """As it arrives from a site that has sent these columns."""
    sent = Data(stream="s", epoch=1, generation=1, chunk=chunk, columns=columns)
    received = as_received(sent)
    assert isinstance(received, Data)
    return received


def reading(*fragments: FragmentAssignment) -> Driven:
    host = Driven("one")
    host.assign(assignment_to(*fragments))
    return host


def assignment_to(*fragments: FragmentAssignment) -> Assignment:
    consumers = {each.fragment: ("exit",) for each in fragments}
    made = assignment_of(*fragments)
    return msgspec.structs.replace(made, consumers=consumers, producers={"s": ("site", "two")})


def asked_for(host: Driven) -> Columns | None:
    return host.sent_to("site", Subscribe)[-1].columns


def results(host: Driven, stream: str, column: str) -> list[int]:
    log = host.core.replica_manager.replicas[stream].replica.log
    return [value for chunk in log.chunks() for value in chunk.rows.column(column).to_pylist()]


@pytest.mark.parametrize(
    ("fragments", "columns"),
    [((BY_A,), (A,)), ((COUNT,), ()), ((BY_C, BY_A), (A, C)), ((BY_A, COUNT), (A,))],
)
def test_a_host_asks_for_what_its_replicas_use(
    fragments: tuple[FragmentAssignment, ...], columns: Columns
) -> None:
    assert asked_for(reading(*fragments)) == columns


def test_a_sink_is_given_all_columns() -> None:
    host = Driven("exit")
    sink = SinkAssignment(stream="s", columns=COLUMNS, deadline_ms=100.0)
    host.assign(msgspec.structs.replace(assignment_of(BY_A), sinks=(sink,)))
    host.core.replica_manager.open_sink("s", None)
    host.commands.clear()
    host.wait(400)
    assert host.sent_to("site", Subscribe)[-1].columns is None


def test_results_do_not_depend_on_what_does_not_come() -> None:
    host = reading(BY_A, COUNT)
    host.hear("site", subscribed())
    host.hear("site", data(part(0, 10, rows=3), (A,)))
    host.work()
    assert results(host, "f", "a") == [0, 1, 2]
    assert results(host, "h", "n") == [3]


def test_data_from_before_a_reader_was_heard_of_is_asked_for_again() -> None:
    """It would be NULL for that reader, and looks as if it continued what the reader has."""
    host = reading(BY_A)
    host.hear("site", subscribed())
    host.hear("site", data(part(0, 10), (A,)))
    host.work()
    host.assign(assignment_to(BY_A, BY_C))
    assert asked_for(host) == (A, C)
    # The other replica has responded before the one that sends has heard of the reader.
    host.hear("two", subscribed(next_seq=1, watermark_ms=10))
    host.hear("site", data(part(1, 20), (A,)))
    host.work()
    assert results(host, "g", "c") == []
    assert results(host, "f", "a") == [0, 1]
    host.hear("site", subscribed(next_seq=1, watermark_ms=10))
    host.hear("site", data(part(1, 20), (A, C)))
    host.hear("site", data(part(2, 30), (A, C)))
    host.work()
    assert results(host, "g", "c") == [10, 20]
    assert results(host, "f", "a") == [0, 1, 2]


def test_a_producer_that_has_answered_and_sends_too_little_is_asked_again() -> None:
    host = reading(BY_A, BY_C)
    host.hear("site", subscribed())
    host.commands.clear()
    host.hear("site", data(part(0, 10), (A,)))
    assert asked_for(host) == (A, C)


@pytest.mark.parametrize("watermark_first", [False, True])
def test_a_reader_that_rests_is_not_given_data_without_its_columns(watermark_first: bool) -> None:
    host = reading(BY_A, BY_C)
    host.hear("site", subscribed())
    host.hear("site", data(part(0, 10), (A, C)))
    host.work()
    host.hear("site", data(part(1, 20), (A, C)))
    host.hear("site", data(part(2, 30), (A, C)))
    assert host.core.replica_manager.subscriptions["s"].backlog.readers
    if watermark_first:
        host.hear("site", data(part(3, 35, rows=0), (A,)))
    host.hear("site", data(part(3, 40), (A,)))
    host.work()
    assert results(host, "f", "a") == [0, 1, 2, 3]
    assert results(host, "g", "c") == [0, 10, 20]


JOIN = msgspec.structs.replace(
    fragment("g", "SELECT s.c AS c, t.number AS n FROM s [RANGE 1 SECOND], t [RANGE 1 SECOND]"),
    inputs={"s": COLUMNS, "t": {"number": "int"}},
)


@pytest.mark.parametrize("rests", [True, False])
def test_a_reader_takes_no_watermark_that_came_without_its_columns(rests: bool) -> None:
    """Else it would take the tuples that follow, or stand where nobody keeps them for it."""
    host = reading(BY_A)
    host.hear("site", subscribed())
    host.hear("site", data(part(0, 10), (A,)))
    host.work()
    made = assignment_to(BY_A, JOIN)
    host.assign(msgspec.structs.replace(made, producers={**made.producers, "t": ("exit",)}))
    host.hear("exit", subscribed(stream="t"))
    host.hear("two", subscribed(next_seq=1, watermark_ms=10))
    for at_ms in (20, 30, 40):
        number = at_ms // 10 - 2
        host.hear("exit", numbered(chunk(number, [(at_ms, 1)]), stream="t"))
        host.hear("site", data(part(1, at_ms, rows=0), (A,)))
        if not rests:
            host.work()
    host.hear("site", data(part(1, 50, rows=2), (A,)))
    host.hear("exit", numbered(chunk(3, [(60, 1)]), stream="t"))
    host.work()
    host.hear("site", subscribed(next_seq=1, watermark_ms=10))
    host.hear("site", data(part(1, 50, rows=2), (A, C)))
    host.work()
    assert set(results(host, "g", "c")) == {10, 20}
    assert results(host, "f", "a") == [0, 1, 2]


def test_what_does_not_travel_counts_as_credit_that_was_used() -> None:
    """Producers count whole rows. The host must notice when they have no credit left."""
    host = reading(COUNT)
    for node in ("site", "two"):
        host.hear(node, subscribed())
    subscription = host.core.replica_manager.subscriptions["s"]
    whole_bytes = subscription.room_bytes // 2 + 1
    host.commands.clear()
    host.hear("site", msgspec.structs.replace(data(part(0, 10), ()), whole_bytes=whole_bytes))
    assert not any(isinstance(each, Send) for each in host.commands)
    host.work()
    (told,) = host.sent_to("site", Control)
    assert told.acks["s"].position == Position(next_seq=1, watermark_ms=10)
