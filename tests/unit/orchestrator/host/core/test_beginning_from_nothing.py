"""Replicas that begin from nothing, and sources that are asked for what came before their logs."""

from __future__ import annotations

from msgspec import structs

from ha.beginning import Beginning
from ha.messages import Data, Subscribe, Subscribed
from orchestrator.edges.events import (
    Durable,
    SinkFlushed,
    SinkOpened,
    SourceEmitted,
    SourceLocated,
    SourceOpened,
    SourceReread,
    Wanted,
)
from orchestrator.host.core.events import Report
from orchestrator.records import (
    Assignment,
    Guarantee,
    LostInput,
    SinkAssignment,
    SourceAssignment,
    SourceSpec,
)
from streams.vectors.chunk import Chunk, Position
from tests.driven_host import COLUMNS, Driven, assigned, assignment_of, data, peers, subscribed
from tests.streams_of_numbers import chunk, numbers

BEGINS = Beginning(after_ms=20, delivered_ms=25)

ASKED = Subscribe(stream="s", position=None, generation=None, begins=BEGINS)


def founder(begins: Beginning | None = BEGINS) -> Driven:
    host = Driven("one")
    mine = structs.replace(assigned("primary", peer_replica="two"), begins=begins)
    host.assign(assignment_of(mine))
    return host


def lost_by(host: Driven) -> dict[str, LostInput]:
    return host.core.replica_statuses(host.now_us)["f"].lost_input


def test_a_replica_that_begins_from_nothing_asks_for_what_it_needs() -> None:
    host = founder()
    (request,) = host.sent_to("site", Subscribe)
    assert (request.position, request.begins) == (None, BEGINS)
    host.hear("site", subscribed(next_seq=2, watermark_ms=20))
    host.hear("site", data(chunk(2, [(30, 1)])))
    host.wait(1000, hearing="site")
    assert lost_by(host) == {}
    assert "input lost" not in [each.kind for each in host.take(Report)]


def test_other_replicas_begin_where_output_is_kept() -> None:
    later = assigned("primary", epoch=3, peer_replica="two")
    for mine in (assigned("secondary", peer_replica="two"), later):
        host = Driven("one")
        host.assign(assignment_of(structs.replace(mine, begins=BEGINS)))
        assert {each.begins for each in host.sent_to("site", Subscribe)} == {None}


def test_input_that_nobody_keeps_is_counted_and_said_once() -> None:
    host = founder()
    answer = subscribed(next_seq=9, watermark_ms=60)
    host.hear("site", structs.replace(answer, lost=4))
    host.wait(1000, hearing="site")
    host.wait(1000, hearing="site")
    (report,) = [each for each in host.take(Report) if each.kind == "input lost"]
    assert (report.subject, report.detail) == (
        "f",
        "up to 4 tuples with timestamps after 1970-01-01T00:00:00.025Z up to "
        "1970-01-01T00:00:00.060Z of s have no results, and no producer keeps them",
    )
    assert lost_by(host) == {"s": LostInput(after_ms=25, until_ms=60, tuples=4)}
    assert host.core.counters["tuples_lost"] == 4


def test_input_of_which_nobody_knows_how_much_it_was_is_no_nothing() -> None:
    host = founder()
    host.hear("site", structs.replace(subscribed(next_seq=9, watermark_ms=60), lost=None))
    host.wait(1000, hearing="site")
    assert lost_by(host)["s"].detail.startswith("an unknown number of tuples")
    assert host.core.counters["tuples_lost"] == 1


def resumed_source() -> Driven:
    """A site that was started again when 5 tuples had entered."""
    host = Driven("site")
    recorded = SourceSpec(driver="replay", guarantee=Guarantee.REPLAYABLE)
    source = SourceAssignment(stream="s", columns=COLUMNS, source=recorded, start_at_us=1)
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    host.handle(SourceOpened(stream="s", position=Position(next_seq=5, watermark_ms=40)))
    return host


def emitted(part: Chunk) -> SourceEmitted:
    return SourceEmitted(
        stream="s",
        rows=part.rows,
        watermarks_ms=part.watermarks_ms,
        ingestion_times_us=part.ingestion_times_us,
    )


def test_a_source_looks_up_where_a_reader_begins_and_reads_that_again_for_it() -> None:
    host = resumed_source()
    host.hear("one", ASKED)
    host.hear("one", ASKED)
    assert host.take(Subscribed) == []
    assert list(host.core.sought()) == [("s", 20)]
    cut = Position(next_seq=3, watermark_ms=20)
    host.handle(SourceLocated(stream="s", after_ms=20, position=cut))
    (answer,) = host.take(Subscribed)
    assert (answer.position, answer.lost) == (cut, 0)
    assert list(host.core.sought()) == []
    assert host.core.wanted() == [Wanted("s", "one", cut, Position(next_seq=5, watermark_ms=40))]
    part = emitted(chunk(3, [(30, 1), (40, 1)]))
    host.handle(SourceReread(node="one", after=cut, emitted=part))
    assert numbers([each.chunk for each in host.take(Data)]) == [3, 4]


def test_a_source_that_keeps_less_than_a_reader_needs_says_that_some_is_lost() -> None:
    host = resumed_source()
    first = Position(next_seq=4, watermark_ms=30)
    host.core.replica_manager.sources["s"].log.retained = first
    host.hear("one", ASKED)
    (answer,) = host.take(Subscribed)
    assert (answer.position, answer.lost) == (first, None)


def test_a_stream_that_began_anew_counts_what_was_not_delivered_before() -> None:
    host = Driven("site")
    sensor = SourceSpec(driver="sensor")
    source = SourceAssignment(
        stream="s", columns=COLUMNS, source=sensor, start_at_us=1, generation=9
    )
    host.assign(
        Assignment(incarnation="1", sources=(source,), consumers={"s": ("one",)}, peers=peers())
    )
    host.handle(SourceOpened(stream="s", position=Position()))
    host.handle(emitted(chunk(0, [(50, 2)])))
    host.hear("one", ASKED)
    (skipped,) = host.core.unexplained().values()
    assert (skipped.after_ms, skipped.until_ms) == (25, 49)


def test_a_sink_tells_up_to_where_it_has_kept_all_results() -> None:
    host = Driven("exit")
    sink = SinkAssignment(stream="f", columns=COLUMNS, deadline_ms=100)
    host.assign(Assignment(incarnation="1", sinks=(sink,), producers={"f": ("one",)}))
    found = host.core.replica_manager.sinks["f"]
    host.handle(SinkOpened(stream="f", durable=None))
    assert found.status(host.now_us).kept_ms is None
    for generation, at_ms in ((1, 10), (2, 20)):
        kept = Durable(generation=generation, position=Position(next_seq=2, watermark_ms=at_ms))
        host.handle(SinkFlushed(stream="f", durable=kept))
        assert found.status(host.now_us).kept_ms == at_ms
    host.handle(SinkOpened(stream="f", durable=kept))
    assert found.status(host.now_us).kept_ms == 20
