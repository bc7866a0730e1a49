"""Consumers with different output of one fragment, after a primary has given up: who goes on?"""

from __future__ import annotations

import pytest
from msgspec import structs

from ha.messages import Ack, Contradiction, Control, Data, Subscribe, Unsubscribe
from ha.replica import Replica
from ha.roles import ReplicaRole
from orchestrator.host.core.events import PeerLost, Report
from streams.vectors.chunk import Position
from tests.driven_host import (
    SETTINGS,
    Driven,
    assigned,
    assignment_of,
    data,
    primary,
    standby,
    subscribed,
)
from tests.streams_of_numbers import chunk
from tests.unit.orchestrator.host.core.test_behind_a_predecessor import cross

AT_20 = Position(next_seq=4, watermark_ms=20)
"""Where the output of the hosts below ends."""

OTHER = Position(next_seq=3, watermark_ms=20)
"""What a predecessor that had less input has sent."""

DEPARTS_MS = 10


def claim(
    had: Position,
    *,
    patient: bool = False,
    demands: bool = True,
    departs_ms: int | None = None,
) -> Control:
    said = Ack(
        position=had,
        furthest=had,
        epoch=2,
        generation=1,
        patient=patient,
        demanded=had if demands else None,
        departs_ms=departs_ms,
    )
    return Control(acks={"f": said})


def departing(first_seq: int, at_ms: int, tuples: int, epoch: int = 1) -> Data:
    said = data(chunk(first_seq, [(at_ms, tuples)]), epoch=epoch)
    return structs.replace(said, departs_ms=DEPARTS_MS)


def read_by(host: Driven, *nodes: str) -> None:
    """As a standby of `one`, with these consumers."""
    assignment = assignment_of(assigned("secondary", peer_replica="one"))
    host.assign(structs.replace(assignment, consumers={"f": nodes}))
    for node in nodes:
        asks = Subscribe(stream="f", position=None, generation=None, patient=node == "site")
        host.hear(node, asks)


def successor(*nodes: str) -> Driven:
    """It took over at 10 ms, and its input departs from there."""
    host = standby()
    read_by(host, *(nodes or ("exit", "next")))
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.handle(PeerLost(node="one"))
    host.hear("site", departing(2, 20, 4))
    host.work()
    host.commands.clear()
    return host


def replica(host: Driven) -> Replica:
    return host.core.replica_manager.replicas["f"].replica


def told(host: Driven, node: str = "next") -> list[Contradiction]:
    return host.sent_to(node, Contradiction)


@pytest.mark.parametrize("subscribes", [False, True])
def test_a_consumer_that_was_fed_by_another_gives_up_if_others_rely_on_this(
    subscribes: bool,
) -> None:
    host = successor()
    host.hear("exit", claim(AT_20))
    host.commands.clear()
    asks = Subscribe(stream="f", position=OTHER, generation=1, furthest=OTHER)
    host.hear("next", asks if subscribes else claim(OTHER))
    said = Contradiction(stream="f", epoch=2, generation=1, had=OTHER, departs_ms=DEPARTS_MS)
    assert set(told(host)) == {said}
    assert host.role is ReplicaRole.PRIMARY


def test_that_others_rely_on_it_may_have_been_said_to_a_standby() -> None:
    host = standby()
    read_by(host, "exit", "next")
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.hear("site", departing(2, 20, 4))
    host.work()
    host.hear("exit", claim(AT_20))
    host.handle(PeerLost(node="one"))
    host.hear("next", claim(OTHER))
    assert host.role is ReplicaRole.PRIMARY
    assert told(host)


def test_a_consumer_may_have_other_output_from_beyond_the_end() -> None:
    host = standby()
    read_by(host, "exit", "next")
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.handle(PeerLost(node="one"))
    cross(host)
    host.work()
    end = replica(host).log.end
    host.hear("exit", claim(end))
    host.commands.clear()
    host.hear("next", claim(Position(next_seq=end.next_seq + 3, watermark_ms=60)))
    assert host.role is ReplicaRole.PRIMARY
    assert told(host)


BEFORE = Position(next_seq=0, watermark_ms=10)


@pytest.mark.parametrize(
    "others",
    [
        [],
        [claim(BEFORE)],
        [claim(AT_20, demands=False)],
        [Subscribe(stream="f", position=AT_20, generation=1, furthest=AT_20, patient=True)],
        [claim(AT_20), Unsubscribe(stream="f")],
    ],
    ids=[
        "nobody",
        "they have what came before",
        "only a standby",
        "only an observer",
        "it reads no more",
    ],
)
def test_the_producer_gives_up_if_nobody_relies_on_it(
    others: list[Control | Subscribe | Unsubscribe],
) -> None:
    host = successor()
    for said in others:
        host.hear("exit", said)
    host.commands.clear()
    host.hear("next", claim(OTHER))
    assert host.role is ReplicaRole.WARMING
    assert told(host) == []


def test_the_producer_gives_up_if_a_sink_has_other_output() -> None:
    host = successor()
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER, patient=True))
    assert host.role is ReplicaRole.WARMING
    assert told(host) == []


@pytest.mark.parametrize("has", [OTHER, AT_20])
def test_nobody_else_gives_up_before_a_sink_has_been_heard(has: Position) -> None:
    host = successor("exit", "next", "site")
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER))
    assert told(host) == []
    assert host.role is ReplicaRole.PRIMARY
    host.hear("site", claim(has, patient=True))
    host.hear("next", claim(OTHER))
    assert bool(told(host)) is (has == AT_20)
    assert host.role is (ReplicaRole.PRIMARY if has == AT_20 else ReplicaRole.WARMING)


def test_a_sink_that_is_away_is_not_waited_for() -> None:
    host = successor("exit", "next", "site")
    host.hear("exit", claim(AT_20))
    host.handle(PeerLost(node="site"))
    host.hear("next", claim(OTHER))
    assert told(host)


def test_a_sink_is_heard_again_where_the_output_departs_earlier() -> None:
    host = successor("exit", "next", "site")
    host.hear("site", claim(BEFORE, patient=True, departs_ms=DEPARTS_MS))
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER))
    assert told(host)
    replica(host).learn_departure(DEPARTS_MS - 5)
    host.hear("next", claim(OTHER))
    assert told(host) == []


def test_what_a_sink_has_said_to_a_standby_is_final_too() -> None:
    host = standby()
    read_by(host, "exit", "next", "site")
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.hear("site", claim(OTHER, patient=True))
    host.handle(PeerLost(node="one"))
    host.hear("site", departing(2, 20, 4))
    host.work()
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER))
    assert host.role is ReplicaRole.WARMING


def test_who_is_lost_does_not_rely_on_it() -> None:
    host = successor()
    host.hear("exit", claim(AT_20))
    host.handle(PeerLost(node="exit"))
    host.commands.clear()
    host.hear("next", claim(OTHER))
    assert told(host) == []


def test_who_has_nothing_of_it_does_not_rely_on_it() -> None:
    """Where the log begins beyond the departure, those begin who have nothing."""
    host = successor()
    log = replica(host).log
    log.capacity_bytes = 1
    host.hear("site", departing(6, 30, 2))
    host.work()
    assert log.base.watermark_ms > DEPARTS_MS
    host.hear("exit", Unsubscribe(stream="f"))
    host.hear("exit", Subscribe(stream="f", position=None, generation=None, demands=True))
    host.commands.clear()
    host.hear("next", claim(Position(next_seq=log.end.next_seq - 1, watermark_ms=30)))
    assert told(host) == []


def reader(*producers: str) -> Driven:
    """A primary on `next` that reads `s` from these."""
    made = Driven("next")
    assignment = assignment_of(assigned("primary", peer_replica=None))
    made.assign(structs.replace(assignment, producers={"s": producers}))
    for each in producers:
        made.hear(each, subscribed())
    return made


def acks_of(host: Driven, to: str) -> list[Control]:
    """What a reader of `s` acknowledges, as acknowledgements of `f`."""
    host.commands.clear()
    for _ in range(4):
        host.wait(50, hearing=to)
        host.core.heard("one", host.now_us)
    said = [each.acks["s"] for each in host.sent_to(to, Control) if "s" in each.acks]
    return [Control(acks={"f": structs.replace(each, epoch=2)}) for each in said]


def claimed(host: Driven, to: str = "site") -> list[Position]:
    """What a host tells a producer that it has."""
    said = [each.acks["f"] for each in acks_of(host, to)]
    return [had for each in said for had in (each.position, each.furthest) if had is not None]


def contradiction(had: Position, epoch: int = 1, generation: int = 1) -> Contradiction:
    return Contradiction(
        stream="s", epoch=epoch, generation=generation, had=had, departs_ms=DEPARTS_MS
    )


OF_INPUT = Position(next_seq=6, watermark_ms=20)


def with_input_up_to_20(host: Driven | None = None) -> Driven:
    host = host or primary()
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    assert OF_INPUT in claimed(host)
    return host


def test_a_primary_with_other_input_gives_up_and_says_why() -> None:
    host = with_input_up_to_20()
    host.commands.clear()
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.WARMING
    (report,) = [each for each in host.take(Report) if each.kind == "cannot continue"]
    assert report.detail == "site has other tuples of s, and others rely on those"
    assert host.core.replica_statuses(host.now_us)["f"].failure is not None


def test_a_standby_with_other_input_takes_its_primarys_state() -> None:
    host = with_input_up_to_20(standby())
    host.commands.clear()
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.WARMING
    assert [each for each in host.take(Report) if each.kind == "cannot continue"] == []
    host.wait(100)
    request = host.sent_to("site", Subscribe)[0]
    assert request.position is None


@pytest.mark.parametrize(
    ("epoch", "generation"), [(0, 1), (1, 2)], ids=["a former primary", "another generation"]
)
def test_what_others_say_of_former_output_does_not_count(epoch: int, generation: int) -> None:
    host = with_input_up_to_20()
    host.hear("site", contradiction(OF_INPUT, epoch, generation))
    assert host.role is ReplicaRole.PRIMARY


def test_only_what_a_reader_has_said_can_be_contradicted() -> None:
    host = with_input_up_to_20()
    host.hear("site", contradiction(Position(next_seq=7, watermark_ms=20)))
    assert host.role is ReplicaRole.PRIMARY


def test_what_is_processed_is_contradicted_though_more_has_been_processed_since() -> None:
    host = with_input_up_to_20()
    host.hear("site", data(chunk(6, [(30, 5)])))
    host.work()
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.WARMING


def test_a_contradicted_reader_never_takes_what_continues_other_tuples() -> None:
    """By chance as many come up to a later watermark."""
    two = successor()
    two.hear("exit", claim(AT_20))
    host = reader("two")
    host.hear("two", data(chunk(0, [(10, 2), (20, 1)])))
    host.work()
    host.hear("two", data(chunk(3, [(30, 5)])))

    def acknowledge() -> list[Contradiction]:
        two.commands.clear()
        for control in acks_of(host, "two"):
            two.hear("next", control)
        return told(two)

    for each in acknowledge():
        host.hear("two", structs.replace(each, stream="s"))
    two.hear("site", departing(6, 30, 4))
    two.work()
    host.work()
    acknowledge()
    two.hear("site", departing(10, 40, 2))
    two.work()
    for each in two.sent_to("next", Data):
        host.hear("two", structs.replace(each, stream="s"))
    end = replica(host).inputs["s"].cursor.position
    assert end is None or end.watermark_ms < 40


def resting_with(host: Driven, *parts: tuple[int, int]) -> list[Position]:
    """It has evaluated four tuples up to 10 ms; what follows waits until its rest ends."""
    host.hear("site", data(chunk(0, [(10, 4)])))
    host.work()
    seq = 4
    for at_ms, tuples in parts:
        host.hear("site", data(chunk(seq, [(at_ms, tuples)])))
        seq += tuples
    assert replica(host).processed_of("s") == Position(next_seq=4, watermark_ms=10)
    return claimed(host)


@pytest.mark.parametrize(
    "parts", [((20, 2),), ((15, 1), (20, 1))], ids=["in its queue", "let wait"]
)
def test_a_state_is_kept_if_nothing_was_evaluated_that_others_do_not_have(
    parts: tuple[tuple[int, int], ...],
) -> None:
    host = primary()
    assert OF_INPUT in resting_with(host, *parts)
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.PRIMARY
    host.work()
    assert replica(host).processed_of("s") == Position(next_seq=4, watermark_ms=10)
    host.commands.clear()
    host.wait(100)
    request = host.sent_to("site", Subscribe)[0]
    assert request.position == Position(next_seq=4, watermark_ms=10)
    host.hear("site", subscribed(next_seq=4, watermark_ms=10))
    host.hear("site", departing(4, 20, 3))
    host.work()
    assert replica(host).processed_of("s") == Position(next_seq=7, watermark_ms=20)


def test_a_state_is_given_up_with_what_was_evaluated_from_beyond_the_departure() -> None:
    """Its number may agree by chance where its evaluation stands."""
    host = primary()
    host.hear("site", data(chunk(0, [(10, 4), (15, 1)])))
    host.work()
    host.hear("site", data(chunk(5, [(20, 1)])))
    assert OF_INPUT in claimed(host)
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.WARMING


def test_a_former_primary_contradicts_nobody_who_follows_its_successor() -> None:
    """`one` has not heard yet that `two` has taken over, further behind, and crossed as well."""
    host = reader("two", "one")
    host.hear("two", structs.replace(data(chunk(0, [(10, 2), (20, 1)]), epoch=3), departs_ms=10))
    former = successor()
    former.hear("exit", claim(AT_20))
    former.commands.clear()
    asks = Subscribe(stream="f", position=OTHER, generation=1, furthest=OTHER, departs_ms=10)
    former.hear("next", asks)
    said = told(former)
    assert said
    for each in said:
        host.hear("one", structs.replace(each, stream="s"))
    assert host.role is ReplicaRole.PRIMARY


def test_a_stranger_contradicts_nobody() -> None:
    host = with_input_up_to_20()
    host.hear("exit", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.PRIMARY
    assert host.core.counters["responses_refused"] == 1


def test_what_is_not_read_here_is_contradicted_in_vain() -> None:
    host = with_input_up_to_20()
    host.hear("site", structs.replace(contradiction(OF_INPUT), stream="other"))
    assert host.role is ReplicaRole.PRIMARY


def decided(host: Driven) -> bool:
    return host.role is ReplicaRole.WARMING or bool(told(host))


@pytest.mark.parametrize("waits_for_a_sink", [False, True])
def test_a_reader_never_takes_what_continues_other_tuples(waits_for_a_sink: bool) -> None:
    two = successor(*(("exit", "next", "site") if waits_for_a_sink else ()))
    two.hear("exit", claim(AT_20))
    host = reader("two")
    host.hear("two", data(chunk(0, [(10, 2), (20, 1)])))
    host.work()

    def acknowledge() -> list[Contradiction]:
        two.commands.clear()
        for control in acks_of(host, "two"):
            two.hear("next", control)
        return told(two)

    said = acknowledge()
    assert bool(said) is not waits_for_a_sink  # It is lost, or waits until the sink is heard.
    host.hear("two", data(chunk(3, [(30, 5)])))  # Of the predecessor; it was under way.
    host.work()
    two.hear("site", departing(6, 30, 4))  # By chance as many up to 30 ms.
    two.work()
    if waits_for_a_sink:
        two.hear("site", claim(AT_20, patient=True))
    for _ in range(3):
        for each in acknowledge():
            host.hear("two", structs.replace(each, stream="s"))
    two.hear("site", departing(10, 40, 2))
    two.work()
    for each in two.sent_to("next", Data):
        host.hear("two", structs.replace(each, stream="s"))
    end = replica(host).inputs["s"].cursor.position
    assert end is None or end.watermark_ms < 40, "it goes on with other input than `exit`"


def test_a_consumer_that_is_sent_nothing_does_not_hold_the_producer_up() -> None:
    """It has received other output up to 60 ms, and waits for an input that `exit` is to make."""
    host = successor()
    host.hear("exit", claim(AT_20))
    host.commands.clear()
    waiting = Ack(
        position=BEFORE,
        demanded=BEFORE,
        epoch=2,
        generation=1,
        room_bytes=100,
        furthest=Position(next_seq=3, watermark_ms=60),
    )
    said = Control(acks={"f": waiting})
    host.hear("next", said)
    for at_ms, seq in ((30, 6), (40, 7), (50, 8), (60, 9), (70, 10)):
        host.hear("site", departing(seq, at_ms, 1))
        host.work()
    for _ in range(100):
        for _ in range(4):
            host.wait(50, hearing="next")
            host.core.heard("one", host.now_us)
        host.hear("exit", claim(replica(host).log.end))
        host.hear("next", said)
        host.work()
    assert replica(host).differs_from("next")
    assert decided(host) or not replica(host).throttle.held_up


def test_a_sink_that_says_nothing_any_more_is_not_waited_for_for_ever() -> None:
    host = standby()
    read_by(host, "exit", "next", "site")
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.hear("site", claim(OTHER, patient=True))  # The last that is heard of the sink.
    host.handle(PeerLost(node="one"))
    host.hear("site", departing(2, 20, 4))
    host.work()
    for i in range(300):
        host.wait(200, hearing="exit")
        host.hear("exit", claim(AT_20))
        host.hear("next", claim(OTHER))
        host.hear("site", departing(6 + i, 30 + i, 1))
        host.work()
    assert decided(host), "after a minute"


def test_what_a_sink_said_before_it_heard_of_the_departure_does_not_count() -> None:
    host = successor("exit", "next", "site")
    host.hear("site", claim(BEFORE, patient=True))  # Sent before more of the predecessor's came.
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER))
    gave_up = bool(told(host))
    host.hear("site", claim(OTHER, patient=True))
    assert not (gave_up and host.role is ReplicaRole.WARMING), "both camps give up"


@pytest.mark.parametrize("intervals", [1, 5])
def test_a_sink_that_is_far_away_is_waited_for(intervals: int) -> None:
    host = standby()
    read_by(host, "exit", "next", "site")
    host.hear("site", data(chunk(0, [(10, 2)])))
    host.work()
    host.handle(PeerLost(node="one"))
    ends: list[Position] = []
    for i in range(40):
        host.hear("site", data(chunk(2 + 3 * i, [(20 + i, 3)])))
        host.work()
        ends.append(replica(host).log.end)
        host.hear("site", claim(ends[max(i - intervals, 0)], patient=True))
        host.hear("exit", claim(ends[-1]))
        host.hear("next", claim(ends[-1]))
        host.wait(50, hearing="exit")
        host.core.heard("one", host.now_us)
    host.hear("site", structs.replace(data(chunk(122, [(100, 4)])), departs_ms=60))
    host.work()
    end = replica(host).log.end
    host.hear("exit", claim(end))
    host.commands.clear()
    host.hear("next", claim(Position(next_seq=end.next_seq - 1, watermark_ms=100)))
    assert not told(host), "the sink has yet to say what it has"


def test_a_reader_does_not_obey_the_other_successor_of_its_producers_epoch() -> None:
    host = reader("two", "one")
    host.hear("two", structs.replace(data(chunk(0, [(10, 2), (20, 1)]), epoch=2), departs_ms=10))
    host.work()
    assert OTHER in claimed(host, "two")
    host.hear("one", contradiction(OTHER, epoch=2))
    assert host.role is ReplicaRole.PRIMARY


def test_an_answer_within_a_quarter_of_a_second_is_not_ignored() -> None:
    """A host with little memory grants credit often: 32 claims last for a moment."""
    host = Driven("one", structs.replace(SETTINGS, memory_bytes=100_000))
    host.assign(assignment_of(assigned("primary", peer_replica="two")))
    host.hear("site", subscribed())
    host.hear("exit", Subscribe(stream="f", position=None, generation=None))
    host.hear("site", data(chunk(0, [(10, 4), (20, 2)])))
    host.work()
    assert OF_INPUT in claimed(host)
    began_us = host.now_us
    for i in range(40):
        host.hear("site", data(chunk(6 + 200 * i, [(30 + i, 200)])))
        host.work()
        host.wait(1)
    assert host.now_us - began_us < 250_000
    host.hear("site", contradiction(OF_INPUT))
    assert host.role is ReplicaRole.WARMING


def test_a_consumer_that_stands_before_the_departure_again_is_fed() -> None:
    host = successor()
    host.hear("exit", claim(AT_20))
    host.hear("next", claim(OTHER))
    assert replica(host).differs_from("next")
    host.commands.clear()
    host.hear("next", Subscribe(stream="f", position=BEFORE, generation=1, furthest=BEFORE))
    assert host.sent_to("next", Data)
