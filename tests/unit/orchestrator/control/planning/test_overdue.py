from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from orchestrator.control.decide.admission import admit
from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.planning.overdue import Ways, overdue_control, steady_ms
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import Overdue, QueryRecord, StreamRecord
from placement.network import NetworkView, Node
from tests.obedient_cluster import ObedientCluster, aircraft

ROUND_TRIP_MS = 20.0


def stream(name: str, overdue: Overdue = Overdue.DROP) -> StreamRecord:
    return StreamRecord(
        name=name, site="edge", columns={"n": "int"}, rate_bytes_s=1.0, overdue=overdue
    )


def query(
    name: str,
    reads: str,
    overdue: Overdue = Overdue.DROP,
    deadline_ms: float = 1000.0,
    made: str | None = None,
) -> QueryRecord:
    made = made or f"{name}_made"
    return QueryRecord(
        name=name,
        statements=f"REGISTER QUERY {made} RSTREAM(SELECT n FROM {reads} [NOW]);",
        outputs={made: "edge"},
        deadline_ms=deadline_ms,
        recovery_bound_ms=500.0,
        overdue=overdue,
    )


def control(streams: list[StreamRecord], queries: list[QueryRecord]) -> object:
    by_name, asking = {s.name: s for s in streams}, {q.name: q for q in queries}
    found = overdue_control(dataflow(by_name, asking), by_name, asking)
    return set(found.dropping), set(found.paced), dict(found.kept_by)


def test_a_stream_drops_if_all_that_read_it_allow_it() -> None:
    streams = [stream("a"), stream("b", Overdue.KEEP)]
    one = query("one", "a")
    assert control(streams, [one]) == ({"a"}, {"a", "one_made"}, {})
    assert control(streams, [one, query("two", "b")]) == ({"a"}, {"a", "one_made"}, {})
    assert control(streams, []) == (set(), set(), {"a": ()})


def test_a_later_query_that_does_not_allow_it_ends_it_directly_or_through_another() -> None:
    kept = query("two", "a", Overdue.KEEP)
    assert control([stream("a")], [query("one", "a"), kept]) == (set(), set(), {"a": ("two",)})
    through = query("two", "one_made", Overdue.KEEP)
    assert control([stream("a")], [query("one", "a"), through]) == (set(), set(), {"a": ("two",)})


def test_a_fragment_that_reads_a_kept_stream_as_well_is_not_paced() -> None:
    both = QueryRecord(
        name="both",
        statements="REGISTER QUERY m RSTREAM(SELECT a.n FROM a [NOW], b [NOW] WHERE a.n = b.n);",
        outputs={"m": "edge"},
        deadline_ms=1000.0,
        recovery_bound_ms=500.0,
        overdue=Overdue.DROP,
    )
    assert control([stream("a"), stream("b", Overdue.KEEP)], [both]) == ({"a"}, {"a"}, {})


def ways(**sub_deadlines_ms: float) -> Ways:
    queries = [
        query("one", "a", deadline_ms=1000.0),
        query("two", "one_made", deadline_ms=3000.0),
    ]
    by_name, asking = {"a": stream("a")}, {q.name: q for q in queries}
    places = [Node(name=name, position_ms=np.zeros(2)) for name in ("edge", "x", "y")]
    pairs = [(p.name, q.name) for p in places for q in places if p is not q]
    return Ways(
        flow=dataflow(by_name, asking),
        queries=asking,
        network=NetworkView(nodes=tuple(places), rtt_ms=dict.fromkeys(pairs, ROUND_TRIP_MS)),
        where={"a": "edge", "one_made": "x", "two_made": "y"},
        sub_deadlines_ms=sub_deadlines_ms,
        link_overhead_ms=5.0,
        ack_interval_ms=50.0,
    )


def test_tuples_wait_for_what_links_and_half_of_the_sub_deadlines_leave() -> None:
    # Three links of 10 + 5 ms to the second output, two to the first.
    found = ways(one_made=800.0, two_made=400.0)
    assert found.may_wait_ms("a") == pytest.approx(3000 - 3 * 15 - 400 - 200)
    assert found.may_wait_ms("elsewhere") is None
    less = replace(found, flow=dataflow({"a": stream("a")}, {"one": found.queries["one"]}))
    assert less.may_wait_ms("a") == pytest.approx(1000 - 2 * 15 - 400)


@pytest.mark.parametrize(
    ("one_way_ms", "wait_ms"), [(460, 3000 - 3 * 465 - 600), (480, 4 * (2 * 480 + 50))]
)
def test_what_slow_links_explain_is_not_overdue(one_way_ms: float, wait_ms: float) -> None:
    found = ways(one_made=800.0, two_made=400.0)
    slow = dict.fromkeys(found.network.rtt_ms, 2.0 * one_way_ms)
    slowed = replace(found, network=replace(found.network, rtt_ms=slow))
    assert slowed.may_wait_ms("a") == pytest.approx(wait_ms)


def test_the_least_deadline_grows_with_each_link() -> None:
    found = ways()
    assert found.least_ms("a", "one_made") == pytest.approx(4 * (20 + 50))
    assert found.least_ms("a", "two_made") == pytest.approx(8 * (20 + 50))
    assert found.least_ms("b", "two_made") is None


def test_a_limit_does_not_follow_every_measurement() -> None:
    assert steady_ms(108.0, 100.0) == 100.0
    assert steady_ms(112.04, 100.0) == 112.0
    assert steady_ms(7.0, None) == 7.0


def dropping(deadline_ms: float) -> Manifests:
    found = aircraft()
    streams = tuple(
        msgspec.structs.replace(
            each, record=msgspec.structs.replace(each.record, overdue=Overdue.DROP)
        )
        for each in found.streams
    )
    (only,) = found.queries
    record = msgspec.structs.replace(only.record, overdue=Overdue.DROP, deadline_ms=deadline_ms)
    return msgspec.structs.replace(
        found, streams=streams, queries=(msgspec.structs.replace(only, record=record),)
    )


def test_a_deadline_too_short_to_tell_overload_is_refused_with_the_figure() -> None:
    cluster, asked = ObedientCluster(), dropping(300.0)
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), asked.streams, asked.queries)
    error = caught.value
    assert (error.field, error.exit_status) == ("deadline", 2)
    least_ms = float(error.figures["least_ms"])
    assert least_ms > 300
    for part in ("query proximity", "overdue tuples cannot be dropped for alerts", "`ackInterval`"):
        assert part in str(error)
    enough = dropping(least_ms + 1)
    admit(cluster.view(), enough.streams, enough.queries)


def sources_of(cluster: ObedientCluster) -> dict[str, float | None]:
    assigned = [found.record for found in cluster.view().assignments.values()]
    return {each.stream: each.overdue_after_ms for a in assigned for each in a.sources}


def paced(cluster: ObedientCluster) -> set[str]:
    assigned = [found.record for found in cluster.view().assignments.values()]
    return {stream for a in assigned for each in a.fragments for stream in each.paced}


def keeping(name: str, reads: str) -> QueryManifest:
    return QueryManifest(
        file="more.yaml:1",
        statements_line=1,
        record=QueryRecord(
            name=name,
            statements=f"REGISTER QUERY more RSTREAM(SELECT id FROM {reads} [NOW]);",
            outputs={"more": "control-centre"},
            deadline_ms=5000.0,
            recovery_bound_ms=500.0,
        ),
    )


def test_hosts_are_told_and_a_query_that_keeps_ends_it_as_long_as_it_is_there() -> None:
    cluster = ObedientCluster()
    cluster.apply(dropping(5000.0))
    cluster.settle()
    limits = sources_of(cluster)
    assert all(limit is not None and 0 < limit < 5000 for limit in limits.values())
    assert {"north", "south", "north_tracks", "south_tracks"} <= paced(cluster)
    more = keeping("more", "north")
    cluster.apply(Manifests(cluster=None, streams=(), queries=(more,)))
    cluster.settle()
    after = sources_of(cluster)
    assert after["north"] is None
    assert after["south"] == limits["south"]
    assert paced(cluster) == {"south", "south_tracks"}


def test_a_changed_query_that_drops_needs_such_a_deadline_too() -> None:
    cluster, asked = ObedientCluster(), dropping(5000.0)
    cluster.apply(asked)
    cluster.settle()
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), (), dropping(300.0).queries)
    assert caught.value.field == "deadline"
    admit(cluster.view(), (), dropping(4000.0).queries)
