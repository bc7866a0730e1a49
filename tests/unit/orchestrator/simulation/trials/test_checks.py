"""The checkers find what is wrong: a trial that kept every promise is tampered with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import pyarrow as pa
import pytest
from msgspec import structs

from orchestrator.records import MemoryStatus, ReplicaId
from orchestrator.simulation.trials.campaign import check
from orchestrator.simulation.trials.checks import (
    _kept_back,  # pyright: ignore[reportPrivateUsage]
    findings,
)
from orchestrator.simulation.trials.faults import Pause, Slow
from orchestrator.simulation.trials.observed import Arrival, Entry, Observed
from orchestrator.simulation.trials.oracle import expected
from orchestrator.simulation.trials.schedule import STRUCK, Schedule, Shape, random_schedule
from orchestrator.simulation.trials.setting import EVEN_WATCHES, LITTLE_MEMORY_BYTES
from orchestrator.simulation.trials.timing_checks import FULL_LOG_MS
from tests.driven_host import data, primary, standby, subscribed
from tests.streams_of_numbers import chunk

pytestmark = pytest.mark.slow

SCHEDULE = Schedule(
    seed=4001, shape=Shape.SINGLE, faults=(Slow(at_ms=500, for_ms=10, target="n1", factor=1.0),)
)


CALM = structs.replace(SCHEDULE, shape=Shape.NONE, faults=())


@pytest.fixture(scope="module")
def kept() -> Observed:
    """A trial without any harm."""
    seen, found = check(SCHEDULE)
    assert found == []
    return seen


def _fullest(seen: Observed) -> str:
    """The output with most tuples."""
    return max(seen.arrivals, key=lambda stream: sum(map(_rows, seen.arrivals[stream])))


def _rows(arrival: Arrival) -> int:
    return arrival.delivery.chunk.rows.num_rows


def _with_arrivals(seen: Observed, tamper: Callable[[list[Arrival]], list[Arrival]]) -> Observed:
    stream = _fullest(seen)
    return replace(seen, arrivals=seen.arrivals | {stream: tamper(seen.arrivals[stream])})


def _found(seen: Observed, calm: Observed | None = None) -> set[str]:
    """Kinds of findings, beside a trial without faults."""
    made = findings(seen, expected(seen.setting, seen.entered), lambda: calm or check(CALM)[0])
    return {finding.partition(":")[0] for finding in made}


def _middle(arrivals: list[Arrival]) -> int:
    """A delivery with tuples, about half way."""
    return [i for i, arrival in enumerate(arrivals) if _rows(arrival)][len(arrivals) // 9]


def test_a_missing_delivery(kept: Observed) -> None:
    def drop(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        return arrivals[:i] + arrivals[i + 1 :]

    assert "content" in _found(_with_arrivals(kept, drop))


def test_a_repeated_delivery(kept: Observed) -> None:
    def repeat(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        return arrivals[: i + 1] + arrivals[i:]

    assert {"content", "order"} <= _found(_with_arrivals(kept, repeat))


def test_deliveries_in_another_order(kept: Observed) -> None:
    def swap(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        return [*arrivals[:i], arrivals[i + 1], arrivals[i], *arrivals[i + 2 :]]

    assert "order" in _found(_with_arrivals(kept, swap))


def test_a_loss_is_reported_that_did_not_happen(kept: Observed) -> None:
    def tell(arrivals: list[Arrival]) -> list[Arrival]:
        first = arrivals[0]
        return [replace(first, delivery=structs.replace(first.delivery, lost=1)), *arrivals[1:]]

    assert _found(_with_arrivals(kept, tell)) == {"truth"}


def test_a_loss_by_right_must_be_said(kept: Observed) -> None:
    def drop(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        return arrivals[:i] + arrivals[i + 1 :]

    exposed = {_fullest(kept): kept.began_us}
    silent = replace(_with_arrivals(kept, drop), exposed_us=exposed)
    assert "truth" in _found(silent)


def lost_at_the_end(seen: Observed) -> Observed:
    """The last warm replica of a fragment was lost by right in the end, which was said."""
    fragment = _fullest(seen)
    at_us = seen.arrivals[fragment][-1].at_us
    name = f"{seen.setting.query_of[fragment]}.{fragment}"
    said = Entry(at_us, "history", f"state lost {name}: n1 is gone")
    return replace(seen, exposed_us={fragment: at_us}, entries=[*seen.entries, said])


def test_a_loss_excuses_nothing_that_came_before_it(kept: Observed) -> None:
    def drop(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        return arrivals[:i] + arrivals[i + 1 :]

    assert _found(lost_at_the_end(kept)) == set()
    assert _found(lost_at_the_end(_with_arrivals(kept, drop))) == {"content"}


def test_a_timestamp_that_is_delivered_again_after_it_was_complete(kept: Observed) -> None:
    def again(arrivals: list[Arrival]) -> list[Arrival]:
        i = _middle(arrivals)
        had, after = arrivals[i], arrivals[i + 1]
        rows, follows = had.delivery.chunk.rows, after.delivery.chunk
        last = rows.slice(rows.num_rows - 1)
        chunk = replace(follows, rows=pa.concat_batches([last, follows.rows]))
        delivery = structs.replace(after.delivery, chunk=chunk)
        return [*arrivals[: i + 1], replace(after, delivery=delivery), *arrivals[i + 2 :]]

    assert "order" in _found(lost_at_the_end(_with_arrivals(kept, again)))


def test_state_lost_without_need(kept: Observed) -> None:
    fragment = _fullest(kept)
    name = f"{kept.setting.query_of[fragment]}.{fragment}"
    said = Entry(kept.began_us, "history", f"state lost {name}: n1 is gone")
    assert _found(replace(kept, entries=[*kept.entries, said])) == {"state"}


def test_two_primaries_accepted_in_one_epoch(kept: Observed) -> None:
    both = {ReplicaId(node=node, incarnation="1") for node in ("n1", "n2")}
    accepted = kept.accepted | {("q1.f1", 7): both}
    assert _found(replace(kept, accepted=accepted)) == {"epochs"}


def test_output_that_resumes_too_late(kept: Observed) -> None:
    def hold_up(arrivals: list[Arrival]) -> list[Arrival]:
        last = arrivals[-1]
        # The hosts of this setting have little memory, so that a full log may wait.
        late_us = last.delivery.arrived_us + round(FULL_LOG_MS * 1000) + 1_000_000
        return [
            *arrivals[:-1],
            replace(last, delivery=structs.replace(last.delivery, arrived_us=late_us)),
        ]

    pause = Pause(at_ms=500, for_ms=10, target="n1")
    schedule = msgspec.structs.replace(SCHEDULE, faults=(pause,))
    late = _with_arrivals(kept, hold_up)
    assert _found(replace(late, schedule=schedule)) == {"bound"}


def test_redundancy_that_is_not_restored(kept: Observed) -> None:
    assert "redundancy" in _found(replace(kept, healed=False))


def test_replicas_that_may_die_together(kept: Observed) -> None:
    assert _found(replace(kept, together=["q1.f1"])) == {"redundancy"}


def test_an_observer_that_lacks_a_tuple(kept: Observed) -> None:
    stream = _fullest(kept)
    arrivals = kept.arrivals[stream]
    i = _middle(arrivals)
    watched = {("watch", stream): arrivals[:i] + arrivals[i + 1 :]}
    assert _found(replace(kept, watched={("watch", stream): arrivals})) == set()
    assert _found(replace(kept, watched=watched)) == {"observer"}


def test_a_query_that_came_later_lacks_a_tuple() -> None:
    # Its groups come in another order than those of a query that was there from the beginning.
    seen, found = check(random_schedule(25003609, shapes=STRUCK, edition=EVEN_WATCHES))
    assert found == []
    (stream,) = seen.visited
    arrivals = seen.visited[stream]
    *_, last, _ = (i for i, arrival in enumerate(arrivals) if _rows(arrival))
    without = arrivals[:last] + arrivals[last + 1 :]
    assert _found(replace(seen, visited={stream: without})) == {"visitor"}
    swapped = [*arrivals[:last], arrivals[last + 1], arrivals[last], *arrivals[last + 2 :]]
    assert _found(replace(seen, visited={stream: swapped})) == {"order"}


def test_an_observer_lacks_what_a_full_log_has_dropped(kept: Observed) -> None:
    """Observers demand nothing: where memory is little, what they lose must only be said."""
    stream = _fullest(kept)
    arrivals = kept.arrivals[stream]
    i = _middle(arrivals)
    lost, after = _rows(arrivals[i]), arrivals[i + 1]
    said = replace(after, delivery=structs.replace(after.delivery, lost=lost))
    wrong = replace(after, delivery=structs.replace(after.delivery, lost=lost + 1))
    little = msgspec.structs.replace(kept.setting.cluster, memory_bytes=LITTLE_MEMORY_BYTES)
    tight = replace(kept, setting=replace(kept.setting, cluster=little))

    def watched(seen: Observed, next_one: Arrival) -> set[str]:
        received = [*arrivals[:i], next_one, *arrivals[i + 2 :]]
        return _found(replace(seen, watched={("watch", stream): received}))

    assert watched(tight, said) == set()
    assert watched(tight, after) == {"observer"}
    assert watched(tight, wrong) == {"observer"}
    assert watched(kept, said) == {"observer"}


def test_queues_that_take_more_than_their_budget(kept: Observed) -> None:
    over = {"n1": MemoryStatus(budget=10, logs=11)}
    assert "memory" in _found(replace(kept, over_budget=over))


def test_a_slow_host_that_is_taken_for_dead_again_and_again(kept: Observed) -> None:
    entries = [Entry(kept.began_us, "n1", "took over f1: silent; epoch 2") for _ in range(3)]
    assert "overload" in _found(replace(kept, entries=[*kept.entries, *entries]))
    assert "overload" not in _found(replace(kept, entries=[*kept.entries, *entries[:2]]))


def test_output_that_is_late_long_after_an_overload(kept: Observed) -> None:
    def delay(arrivals: list[Arrival]) -> list[Arrival]:
        return [*arrivals[:-1], replace(arrivals[-1], at_us=arrivals[-1].at_us + 2_000_000)]

    late = _with_arrivals(kept, delay)
    assert "overload" in _found(late)
    assert "overload" not in _found(late, late), "it is as late without the overload"


def test_a_standby_that_is_sent_batches_is_behind_by_less_than_one_and_no_different() -> None:
    one, other = primary(), standby()
    for host in (one, other):
        host.hear("site", data(chunk(0, [(10, 4)])))
        host.work()
    one.hear("site", data(chunk(4, [(20, 3)])))
    one.work()
    replicas = [host.core.replica_manager.replicas["f"].replica for host in (one, other)]
    assert list(_kept_back("f", 4, *replicas)) == []
    assert list(_kept_back("f", 3, *replicas)) == ["reader: the standby of f lacks 3 tuples of s"]
    different = standby()
    different.hear("site", data(chunk(0, [(10, 5)])))
    different.work()
    differing = different.core.replica_manager.replicas["f"].replica
    (found,) = _kept_back("f", 4, replicas[0], differing)
    assert "unlike its primary" in found
    one.hear("site", subscribed(generation=8))
    (found,) = _kept_back("f", 64, *replicas)
    assert found == "reader: the replicas of f read generations [8, 1] of s"
