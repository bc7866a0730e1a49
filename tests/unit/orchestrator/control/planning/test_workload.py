"""How much of every stream there is, until that is measured."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.observe.dataflow import dataflow
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.overhead import RECEIVED
from orchestrator.control.planning.workload import (
    FragmentWork,
    Rate,
    Workload,
    rates,
    row_bytes,
    taken_by,
    workload,
)
from orchestrator.edges.sources import spec_of
from orchestrator.edges.sources.http import Http
from orchestrator.manifest import Manifests, StreamManifest
from orchestrator.records import (
    Estimate,
    HostLoad,
    QueryRecord,
    SourceSpec,
    SourceStatus,
    StreamRecord,
)
from tests.obedient_cluster import ObedientCluster, query_manifest, stream_manifest

NORTH = stream_manifest("north").record
"""100,000 bytes a second, in rows of 32: 3,125 tuples a second."""

STATEMENTS = """\
REGISTER QUERY few RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 0);
REGISTER QUERY both RSTREAM(SELECT id, x FROM few [NOW] UNION ALL SELECT id, x FROM south [NOW]);
"""


def found(
    north: StreamRecord = NORTH, batch_ms: float = 10.0, selectivity: float = 0.5
) -> dict[str, Rate]:
    streams = {"north": north, "south": stream_manifest("south").record}
    query = msgspec.structs.replace(
        query_manifest(statements=STATEMENTS, outputs={"both": "control-centre"}).record,
        estimates={"few": Estimate(selectivity=selectivity)},
    )
    return rates(dataflow(streams, {"proximity": query}), streams, {"proximity": query}, batch_ms)


def replayed(interval_ms: int, speed: float) -> StreamRecord:
    source = SourceSpec(driver="replay", together_ms=interval_ms / speed)
    return msgspec.structs.replace(NORTH, source=source)


def test_what_comes_within_a_batch_comes_at_once() -> None:
    assert row_bytes(NORTH.columns) == 32
    assert found()["north"].tuples_s == 3125
    assert found()["north"].burst == pytest.approx(31.25)
    assert found(batch_ms=20.0)["north"].burst == pytest.approx(62.5)


def test_at_least_one_tuple_comes_at_once() -> None:
    assert found(batch_ms=0.0)["north"].burst == 1.0
    slow = msgspec.structs.replace(NORTH, rate_bytes_s=32.0)
    assert found(slow)["north"].burst == 1.0


def test_a_replay_brings_an_interval_at_once() -> None:
    assert found(replayed(100, 1.0))["north"].burst == pytest.approx(312.5)
    # Ten times as fast, the interval is shorter than a batch.
    assert found(replayed(50, 10.0))["north"].burst == pytest.approx(31.25)


def test_what_a_manifest_says_of_bursts_holds() -> None:
    assert found(msgspec.structs.replace(replayed(100, 1.0), burst=7))["north"].burst == 7


def test_fragments_pass_on_their_share_of_a_burst() -> None:
    made = found()
    assert made["few"].bytes_s == 50_000
    assert made["few"].burst == pytest.approx(31.25 / 2)
    assert made["both"].burst == pytest.approx(31.25 * 1.5)
    assert made["both"].tuples_s == pytest.approx(3125 * 1.5)
    assert found(selectivity=0.0)["few"].burst == 0.0


def test_nothing_comes_of_nothing() -> None:
    flow = dataflow(
        {"north": NORTH},
        {
            "q": QueryRecord(
                name="q",
                statements="REGISTER QUERY a RSTREAM(SELECT id FROM north [NOW]);",
                outputs={"a": "x"},
                deadline_ms=1,
                recovery_bound_ms=1,
            )
        },
    )
    nothing = {"north": Rate(bytes_s=0.0, tuples_s=0.0, burst=0.0)}
    assert taken_by(flow.fragments["a"], nothing) == nothing["north"]


def test_nodes_that_primaries_may_take_reach_the_planner() -> None:
    streams = {"north": NORTH, "south": stream_manifest("south").record}
    query = msgspec.structs.replace(
        query_manifest(statements=STATEMENTS, outputs={"both": "control-centre"}).record,
        primaries={"few": ("paris", "lyon")},
    )
    flow = dataflow(streams, {"proximity": query})
    graph = workload(ClusterView(), flow, streams, {"proximity": query}).graph("proximity", {}, {})
    assert graph.by_name["few"].allowed == ("paris", "lyon")
    assert graph.by_name["both"].allowed == ()


def test_a_fragment_is_sent_the_columns_that_it_uses_and_a_sink_all() -> None:
    streams = {"north": NORTH}
    text = """\
    REGISTER QUERY near RSTREAM(SELECT id, x FROM north [NOW] WHERE x > 0);
    REGISTER QUERY counted RSTREAM(SELECT count(*) AS n, max(x) AS top FROM near [NOW]);
    """
    query = query_manifest(statements=text, outputs={"counted": "control-centre"}).record
    flow = dataflow(streams, {"proximity": query})
    work = workload(ClusterView(), flow, streams, {"proximity": query})
    sent = {
        (link.source, link.target): link.rate_bytes_s / work.rates[link.source].bytes_s
        for link in work.graph("proximity", {}, {}).links
    }
    # Of 32 bytes, all; of the same, without 16 of the text; and both results.
    assert sent == {
        ("north", "near"): 1.0,
        ("near", "counted"): 0.5,
        ("counted", "counted at control-centre"): 1.0,
    }


@pytest.mark.parametrize(
    ("queries", "evaluations_s", "standby_s"),
    [
        (1, 20.0, 20.0),
        (10, 20.0, 20.0),
        (50, 12.5, 6.25),
        (100, 6.25, 3.125),
        (300, 1e3 / 240, 3.125),
    ],
)
def test_where_many_fragments_share_a_node_each_is_evaluated_more_rarely(
    queries: int, evaluations_s: float, standby_s: float
) -> None:
    # As hosts do: from 13 replicas on, primaries rest for 80 ms, and from 38 on for 240 of 500.
    work = of_many(queries).fragments["f0"]
    assert work.evaluations_s == pytest.approx(evaluations_s)
    # Secondaries rest twice as long there, up to 320 ms.
    assert work.standby_evaluations_s == pytest.approx(standby_s)


def test_slower_processors_evaluate_more_rarely() -> None:
    # Small batches take no greater share of the time; faster ones need not be more frequent.
    assert of_many(50, speed=0.5).fragments["f0"].evaluations_s == pytest.approx(6.25)
    assert of_many(50, speed=2.0).fragments["f0"].evaluations_s == pytest.approx(12.5)


def test_fragments_that_share_a_node_with_many_are_evaluated_as_rarely() -> None:
    names = [f"f{n}" for n in range(12)]
    reader = (
        "REGISTER QUERY reader RSTREAM(SELECT f.id AS id FROM f0 [NOW] AS f, north [NOW] AS n);"
    )
    made = query_manifest(
        "q",
        "".join(f"REGISTER QUERY {n} RSTREAM(SELECT id FROM north [NOW]);" for n in names) + reader,
        outputs=dict.fromkeys((*names, "reader"), "control-centre"),
        deadline_ms=1000.0,
        recovery_bound_ms=2000.0,
    )
    on_one = {**dict.fromkeys(names, ("paris",)), "reader": ("lyon",)}
    query = msgspec.structs.replace(
        made, record=msgspec.structs.replace(made.record, primaries=on_one)
    )
    north = msgspec.structs.replace(replayed(10, 1.0), rate_bytes_s=3_200.0)
    cluster = ObedientCluster()
    stream = StreamManifest(file="streams.yaml:1", record=north)
    cluster.apply(Manifests(cluster=None, streams=(stream,), queries=(query,)))
    before = work_of(cluster.view(), "f0")
    cluster.settle()
    # Four replicas on each of six nodes would rest for 20 ms, 12 on one rest for 60 ms.
    assert before.evaluations_s == pytest.approx(1e3 / 20)
    after = work_of(cluster.view(), "f0")
    assert after.evaluations_s == pytest.approx(1e3 / 60)
    # A fragment that reads what they make rests for less, and in vain.
    reads = work_of(cluster.view(), "reader")
    assert reads.evaluations_s == pytest.approx(after.evaluations_s)
    assert reads.standby_evaluations_s <= after.evaluations_s


def work_of(view: ClusterView, fragment: str) -> FragmentWork:
    found = workload(view, view.dataflow, view.stream_records, view.query_records)
    return found.fragments[fragment]


def test_a_tight_recovery_bound_leaves_no_time_for_long_rests() -> None:
    # 125 ms are left of it after detection: three lags of a quarter, and four.
    work = of_many(300, bound_ms=300.0).fragments["f0"]
    assert work.evaluations_s == pytest.approx(1e3 / 80)
    assert work.standby_evaluations_s == pytest.approx(1e3 / 120)
    # Where detection takes longer than that, the deadline counts.
    assert of_many(300, bound_ms=100.0).fragments["f0"].evaluations_s == pytest.approx(1e3 / 240)


def test_what_enters_at_once_is_evaluated_at_once() -> None:
    statement = "REGISTER QUERY f RSTREAM(SELECT id FROM north [NOW]);"
    query = query_manifest(statements=statement, outputs={"f": "control-centre"}).record
    streams, queries = {"north": NORTH}, {"proximity": query}
    flow = dataflow(streams, queries)
    tuples_s = rates(flow, streams, queries, 1.0)["north"].tuples_s

    def evaluations_s(together: float | None) -> float:
        cluster = ObedientCluster()
        status = SourceStatus(next_seq=1000, together=together)
        cluster.hosts["north-receiver"].tell(sources={"north": status})
        return workload(cluster.view(), flow, streams, queries).fragments["f"].evaluations_s

    assert evaluations_s(None) == pytest.approx(100.0), "once in a batch interval at most"
    assert evaluations_s(2.0) == pytest.approx(100.0)
    assert evaluations_s(tuples_s / 10) == pytest.approx(10.0)
    # Few of a chunk may have been shed, so that none comes in some.
    assert evaluations_s(0.5) == pytest.approx(100.0)


def test_a_cost_that_is_assumed_is_greater_on_slow_processors() -> None:
    fast, slow = (of_many(1, speed=speed).fragments["f0"].cost for speed in (1.0, 0.25))
    assert slow.per_tuple_us == pytest.approx(4 * fast.per_tuple_us)


def test_what_hosts_are_assigned_does_not_change_with_the_speed_of_processors() -> None:
    fast, slow = (of_many(1, speed=speed).fragments["f0"] for speed in (1.0, 0.25))
    assert (slow.cost_us, slow.instance_ms) == (fast.cost_us, fast.instance_ms)


def test_parts_of_a_stream_that_are_put_together_again_come_at_the_same_time() -> None:
    parts = ("x > 90", "x > 50", "x <= 50")
    statements = "".join(
        f"REGISTER QUERY p{n} RSTREAM(SELECT id FROM north [NOW] WHERE {each});"
        for n, each in enumerate(parts)
    )
    union = " UNION ALL ".join(f"SELECT id FROM p{n} [NOW]" for n in range(len(parts)))
    query = query_manifest(
        statements=f"{statements}REGISTER QUERY whole RSTREAM({union});",
        outputs={"whole": "control-centre"},
    ).record
    streams = {"north": replayed(1000, 1.0)}
    of = {"proximity": query}
    work = workload(ObedientCluster().view(), dataflow(streams, of), streams, of)
    assert work.fragments["whole"].evaluations_s == pytest.approx(1.0)


def test_watermarks_of_the_clock_arrive_where_hardly_any_tuples_do() -> None:
    live = SourceSpec(driver="http", advances_ms=100.0)
    rare = msgspec.structs.replace(NORTH, source=live, rate_bytes_s=32 * 0.1)
    assert found(rare)["north"].arrivals_s == pytest.approx(10.0)
    often = msgspec.structs.replace(rare, rate_bytes_s=32 * 50.0)
    assert found(often)["north"].arrivals_s == pytest.approx(50.0)
    by_column = msgspec.structs.replace(live, advances_after_ms=1000.0)
    for tuples_s, chunks_s in ((0.5, 10.0), (2.0, 2.0)):
        stream = msgspec.structs.replace(NORTH, source=by_column, rate_bytes_s=32 * tuples_s)
        assert found(stream)["north"].arrivals_s == pytest.approx(chunks_s)
    arriving, dated = spec_of("http", Http()), spec_of("http", Http(time_column="at"))
    assert (arriving.advances_ms, arriving.advances_after_ms) == (100.0, 0.0)
    assert (dated.advances_ms, dated.advances_after_ms) == (100.0, 1000.0)
    silent = Http(time_column="at", idle_after_ms=None)
    assert spec_of("http", silent).advances_ms == 0.0


@pytest.mark.parametrize(
    ("tuples_s", "evaluations_s"),
    # Of so few timestamps, all that have waited for a second are evaluated at once; of more, 64.
    [(10.0, 2.0), (3125.0, (1000 + 100 + 10 + 1) / 64)],
)
def test_the_slowest_input_decides_how_often_a_fragment_is_evaluated(
    tuples_s: float, evaluations_s: float
) -> None:
    north = msgspec.structs.replace(replayed(10, 1.0), rate_bytes_s=32 * tuples_s)
    south = msgspec.structs.replace(replayed(1000, 1.0), name="south", rate_bytes_s=320.0)
    query = query_manifest(
        statements="REGISTER QUERY both RSTREAM("
        "SELECT n.id AS id FROM north [NOW] AS n, south [NOW] AS s WHERE n.id = s.id);",
        outputs={"both": "control-centre"},
    ).record
    streams, of = {"north": north, "south": south}, {"proximity": query}
    work = workload(ObedientCluster().view(), dataflow(streams, of), streams, of)
    assert work.fragments["both"].evaluations_s == pytest.approx(evaluations_s)


def of_many(queries: int, bound_ms: float = 500.0, speed: float = 1.0) -> Workload:
    """The work of so many small queries on six nodes."""
    streams = {"north": replayed(50, 1.0)}
    like = query_manifest(outputs={}, deadline_ms=500.0, recovery_bound_ms=bound_ms).record
    many = {
        f"q{n}": msgspec.structs.replace(
            like,
            name=f"q{n}",
            statements=f"REGISTER QUERY f{n} RSTREAM(SELECT id FROM north [NOW]);",
            outputs={f"f{n}": "control-centre"},
        )
        for n in range(queries)
    }
    cluster = ObedientCluster()
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.0, evaluating_cores=0.0, speed=speed))
    view = cluster.view()
    assert len(view.executors) == 6
    return workload(view, dataflow(streams, many), streams, many)


def test_placement_knows_what_chunks_cost_that_come_from_other_hosts() -> None:
    # Otherwise it takes a node that has no room for them, and admission refuses.
    work = of_many(1)
    (fragment,) = work.fragments.values()
    received_s = RECEIVED * work.rates["north"].arrivals_s
    placed = work.graph("q0", {}, {}).by_name["f0"]
    assert placed.cores == pytest.approx(fragment.cores + received_s * work.overhead_us / 1e6)
