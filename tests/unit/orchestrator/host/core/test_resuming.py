"""Sources that resume and sinks that continue, at the host's core."""

from __future__ import annotations

import msgspec
from msgspec import structs

from ha.messages import Ack, Control, Data, Subscribe, Subscribed
from ha.roles import ReplicaRole
from orchestrator.edges.events import (
    Deliver,
    Durable,
    InputSkipped,
    SinkFailed,
    SinkFlushed,
    SinkOpened,
    SourceEmitted,
    SourceOpened,
    SourceReread,
    Wanted,
)
from orchestrator.host.core.events import PeerLost, Report
from orchestrator.records import (
    Assignment,
    Guarantee,
    SinkAssignment,
    Skipped,
    SourceAssignment,
    SourceSpec,
)
from streams.vectors.chunk import Chunk, Position
from tests.driven_host import (
    COLUMNS,
    Driven,
    assigned,
    assignment_of,
    data,
    peers,
    primary,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk, numbers


def test_sink_continues_after_what_its_driver_has_kept_for_good() -> None:
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    host.assign(
        Assignment(incarnation="1", sinks=(sink,), producers={"f": ("one",)}, peers=peers())
    )
    kept = Durable(generation=1, position=Position(next_seq=2, watermark_ms=10))
    host.handle(SinkOpened(stream="f", durable=kept))
    (request,) = host.sent_to("one", Subscribe)
    assert (request.position, request.generation, request.patient) == (kept.position, 1, True)
    host.hear("one", subscribed(stream="f"))
    host.hear("one", data(chunk(0, [(10, 2), (20, 1)]), "f"))
    assert numbers([each.chunk for each in host.take(Deliver)]) == [2]
    # Its driver fails before it has kept that: it comes again.
    host.handle(SinkFailed(stream="f"))
    host.commands.clear()
    host.hear("one", data(chunk(3, [(30, 1)]), "f"))
    host.wait(1000)
    assert host.take(Deliver) == []
    assert host.sent_to("one", Subscribe) == []
    assert not any(c.acks for c in host.sent_to("one", Control))
    host.handle(SinkOpened(stream="f", durable=kept))
    (request,) = host.sent_to("one", Subscribe)
    assert request.position == kept.position
    host.hear("one", subscribed(stream="f"))
    host.hear("one", data(chunk(2, [(20, 1), (30, 1)]), "f"))
    assert numbers([each.chunk for each in host.take(Deliver)]) == [2, 3]


def test_sink_that_asks_another_producer_asks_from_what_its_driver_has_kept() -> None:
    """The producer takes that position for acknowledged."""
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    assignment = Assignment(
        incarnation="1", sinks=(sink,), producers={"f": ("one",)}, peers=peers()
    )
    host.assign(assignment)
    host.handle(SinkOpened(stream="f", durable=None))
    host.hear("one", subscribed(stream="f"))
    host.hear("one", data(chunk(0, [(10, 2)]), "f"))
    kept = Position(next_seq=2, watermark_ms=10)
    host.handle(SinkFlushed(stream="f", durable=Durable(generation=1, position=kept)))
    host.hear("one", data(chunk(2, [(20, 1)]), "f"))
    host.commands.clear()
    host.assign(msgspec.structs.replace(assignment, producers={"f": ("one", "two")}))
    (request,) = host.sent_to("two", Subscribe)
    assert request.position == kept


def test_sink_of_another_query_of_the_same_name_begins_anew() -> None:
    host = Driven("exit")
    for life in (1, 2):
        sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100, life=life)
        host.assign(
            Assignment(incarnation="1", sinks=(sink,), producers={"f": ("one",)}, peers=peers())
        )
        host.handle(SinkOpened(stream="f", durable=None))
        host.hear("one", subscribed(stream="f"))
        host.hear("one", data(chunk(0, [(10, 2)]), "f"))
        assert numbers([each.chunk for each in host.take(Deliver)]) == [0, 1]


RECORDED = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)


def resumed_source() -> Driven:
    """A site that was started again when 5 tuples had entered."""
    host = Driven("site")
    source = SourceAssignment(
        stream="s", columns=COLUMNS, source=RECORDED, start_at_us=1, generation=9
    )
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    asked = Subscribe(stream="s", position=Position(next_seq=2, watermark_ms=10), generation=9)
    host.hear("one", asked)
    assert host.take(Subscribed) == [], "it is not known yet where the log begins"
    host.handle(SourceOpened(stream="s", position=Position(next_seq=5, watermark_ms=40)))
    host.hear("one", asked)
    return host


def reread(node: str, after: Position, part: Chunk) -> SourceReread:
    emitted = SourceEmitted(
        stream="s",
        rows=part.rows,
        watermarks_ms=part.watermarks_ms,
        ingestion_times_us=part.ingestion_times_us,
    )
    return SourceReread(node=node, after=after, emitted=emitted)


def emit(host: Driven, part: Chunk) -> None:
    host.handle(
        SourceEmitted(
            stream="s",
            rows=part.rows,
            watermarks_ms=part.watermarks_ms,
            ingestion_times_us=part.ingestion_times_us,
        )
    )


def test_resumed_source_sends_what_lies_before_its_log_and_then_its_log() -> None:
    host = resumed_source()
    (answer,) = host.take(Subscribed)
    after = Position(next_seq=2, watermark_ms=10)
    assert (answer.position, answer.generation) == (after, 9)
    emit(host, chunk(5, [(50, 2)]))
    assert host.take(Data) == []
    base = Position(next_seq=5, watermark_ms=40)
    assert host.core.wanted() == [Wanted("s", "one", after, base)]
    host.handle(reread("one", after, chunk(2, [(20, 1)])))
    assert numbers([each.chunk for each in host.take(Data)]) == [2]
    after = Position(next_seq=3, watermark_ms=20)
    assert host.core.wanted() == [Wanted("s", "one", after, base)]
    host.handle(reread("one", after, chunk(3, [(30, 1), (40, 1)])))
    assert numbers([each.chunk for each in host.take(Data)]) == [3, 4, 5, 6]
    assert host.core.wanted() == []


def test_no_more_than_two_pieces_are_under_way() -> None:
    host = resumed_source()
    after = Position(next_seq=2, watermark_ms=10)
    for seq, at in ((2, 20), (3, 30)):
        host.handle(reread("one", after, chunk(seq, [(at, 1)])))
        after = Position(next_seq=seq + 1, watermark_ms=at)
    assert host.core.wanted() == []
    ack = Ack(position=Position(next_seq=3, watermark_ms=20), epoch=9, generation=9)
    host.hear("one", Control(acks={"s": ack}))
    assert [part.after for part in host.core.wanted()] == [after]


def test_a_piece_that_was_read_before_the_host_asked_again_is_not_sent() -> None:
    host = resumed_source()
    host.hear("one", Subscribe(stream="s", position=Position(), generation=9))
    host.commands.clear()
    host.handle(reread("one", Position(next_seq=2, watermark_ms=10), chunk(2, [(20, 1)])))
    assert host.take(Data) == []


def test_a_source_of_another_generation_begins_anew() -> None:
    host = resumed_source()
    source = SourceAssignment(
        stream="s", columns=COLUMNS, source=RECORDED, start_at_us=None, generation=12
    )
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    host.handle(SourceOpened(stream="s", position=Position()))
    host.commands.clear()
    known = Position(next_seq=5, watermark_ms=40)
    host.hear("one", Subscribe(stream="s", position=known, generation=9))
    (answer,) = host.take(Subscribed)
    assert (answer.position, answer.generation) == (Position(), 12)


def begun_anew(position: Position) -> Driven:
    """A site that was started again, with a source that does not resume."""
    host = Driven("site")
    source = SourceAssignment(
        stream="s", columns=COLUMNS, source=SourceSpec(driver="sensor"), start_at_us=1, generation=9
    )
    host.assign(
        Assignment(
            incarnation="1",
            sources=(source,),
            consumers={"s": ("one", "two")},
            peers=peers(),
        )
    )
    host.handle(SourceOpened(stream="s", position=position))
    return host


def had(watermark_ms: int, generation: int = 8, *, demands: bool = False) -> Subscribe:
    position = Position(next_seq=2, watermark_ms=watermark_ms)
    return Subscribe(
        stream="s",
        position=position,
        generation=generation,
        demands=demands,
        complete_ms=watermark_ms,
    )


def test_what_a_stream_left_out_lies_between_its_consumers_and_its_new_beginning() -> None:
    host = begun_anew(Position())
    host.hear("one", had(10))
    assert host.core.unexplained() == {}, "it has not begun"
    emit(host, chunk(0, [(50, 2)]))
    assert host.core.unexplained() == {"s": Skipped(after_ms=10, until_ms=49)}
    host.hear("two", had(20))
    (left_out,) = host.core.unexplained().values()
    assert left_out == Skipped(after_ms=20, until_ms=49), "it did enter as far as anybody has it"
    host.handle(InputSkipped(stream="s", skipped=left_out))
    assert host.core.unexplained() == {}
    assert host.core.replica_manager.sources["s"].status.skipped == left_out
    (said,) = [r for r in host.take(Report) if r.kind == "input lost"]
    assert said.detail.startswith("an unknown number of tuples")
    host.handle(InputSkipped(stream="s", skipped=Skipped(after_ms=20, until_ms=49, tuples=0)))
    assert not [r for r in host.take(Report) if r.kind == "input lost"]


def test_of_those_who_demand_a_stream_the_one_that_had_least_lacks_most() -> None:
    """A standby may be sent part of it by design; one fragment may be slower than another."""
    host = begun_anew(Position())
    host.hear("one", had(0, demands=True))
    host.hear("two", had(40, demands=True))
    host.hear("one", had(-10))
    host.hear("two", had(45))
    emit(host, chunk(0, [(61, 1)]))
    assert host.core.unexplained() == {"s": Skipped(after_ms=0, until_ms=60)}


def test_a_standby_that_takes_over_asks_as_one_that_demands_the_stream() -> None:
    """Its predecessor had more, and said so; both had less than what was left out."""
    reader = standby()
    reader.hear("site", data(chunk(0, [(20, 4)])))
    reader.work()
    host = begun_anew(Position())
    host.hear("one", had(40, demands=True))
    emit(host, chunk(0, [(61, 1)]))
    begun = structs.replace(subscribed(generation=8), position=Position(watermark_ms=60))
    reader.hear("site", begun)
    reader.commands.clear()
    reader.handle(PeerLost(node="one"))
    assert reader.role is ReplicaRole.PRIMARY
    for _ in range(5):
        for request in reader.sent_to("site", Subscribe):
            host.hear("two", request)
            reader.hear("site", begun)
        reader.wait(50)
    assert host.core.unexplained() == {"s": Skipped(after_ms=20, until_ms=60)}


def test_what_was_left_out_counts_though_the_stream_begins_anew_twice() -> None:
    """Nothing has entered in between: consumers have a position that says nothing."""
    reader = primary()
    reader.hear("site", data(chunk(0, [(10, 2), (20, 2)])))
    reader.work()
    reader.hear("site", subscribed(generation=8))
    reader.commands.clear()
    again = peers(renewed="site")
    reader.assign(assignment_of(assigned("primary", peer_replica="two"), at=again))
    host = begun_anew(Position())
    for request in reader.sent_to("site", Subscribe):
        host.hear("one", request)
    emit(host, chunk(0, [(61, 1)]))
    assert host.core.unexplained() == {"s": Skipped(after_ms=20, until_ms=60)}


def test_a_source_that_skips_to_the_present_left_out_what_came_due_before() -> None:
    host = begun_anew(Position(next_seq=5, watermark_ms=40))
    host.hear("one", had(10))
    assert host.core.unexplained() == {"s": Skipped(after_ms=10, until_ms=40)}


def test_a_stream_that_begins_anew_after_its_end_says_that_this_is_the_end() -> None:
    host = begun_anew(Position(next_seq=5, watermark_ms=40))
    host.hear("one", Subscribe(stream="s", position=None, generation=None))
    (sent,) = host.sent_to("one", Data)
    assert (sent.chunk.rows.num_rows, sent.chunk.watermarks_ms.tolist()) == (0, [40])


def test_nothing_is_left_out_if_the_stream_goes_on_or_if_consumers_had_it() -> None:
    host = resumed_source()
    host.hear("one", had(10))
    assert host.core.unexplained() == {}
    host = begun_anew(Position(next_seq=5, watermark_ms=40))
    host.hear("one", had(10, generation=9))
    host.hear("one", Subscribe(stream="s", position=None, generation=None))
    host.hear("two", had(40))
    assert host.core.unexplained() == {}
