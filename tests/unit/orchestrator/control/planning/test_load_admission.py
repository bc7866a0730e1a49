"""Queries that would overload a node or a machine are refused; what overloads later is told."""

from __future__ import annotations

import msgspec
import pytest

from orchestrator.control.decide.admission import Admission, admit
from orchestrator.control.observe.measured_load import NODE_SHARE
from orchestrator.control.planning.overhead import OFTEN_S, OVERHEAD_US, RECEIVED
from orchestrator.control.planning.site_load import SITE_US
from orchestrator.control.planning.utilisation import PredictedPlace, advice, room_cores
from orchestrator.errors import Refused
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import (
    CordonRecord,
    CostStatus,
    Estimate,
    HostLoad,
    Processors,
    ReplicaLoad,
    SourceSpec,
)
from orchestrator.records.figures import MACHINE_SHARE
from orchestrator.records.speed import HOST_CORES
from orchestrator.store.protocol import CLUSTER, CORDONS, QUERIES
from tests.obedient_cluster import EXECUTORS, ObedientCluster, aircraft, places_ms, query_manifest

STREAMS = aircraft().streams
PROCESSORS = 2.0


def on_machines(cluster: ObedientCluster, machines: int, processors: float = PROCESSORS) -> None:
    """Have the hosts of a cluster share so many machines."""
    for number, host in enumerate(cluster.hosts.values()):
        machine = number % machines
        own = Processors(machine=f"machine-{machine}", shared=f"boot-{machine}", count=processors)
        host.tell(processors=own)


@pytest.fixture
def cluster() -> ObedientCluster:
    cluster = ObedientCluster()
    on_machines(cluster, 1)
    return cluster


def costing(cost_us: float, *primaries: str) -> QueryManifest:
    """A query whose primaries are on one of these nodes; on any, if there are none."""
    query = query_manifest()
    names = ("north_tracks", "south_tracks", "alerts")
    estimates = {name: Estimate(cost_us=cost_us, selectivity=0.5) for name in names}
    allowed = dict.fromkeys(names, primaries) if primaries else {}
    record = msgspec.structs.replace(query.record, estimates=estimates, primaries=allowed)
    return msgspec.structs.replace(query, record=record)


def admitted(cluster: ObedientCluster, query: QueryManifest) -> Admission:
    return admit(cluster.view(), STREAMS, [query])


def refusal(cluster: ObedientCluster, query: QueryManifest) -> Refused:
    with pytest.raises(Refused) as caught:
        admitted(cluster, query)
    return caught.value


def place(admission: Admission, name: str) -> PredictedPlace:
    return next(each for each in admission.places if each.name == name)


def change_settings(cluster: ObedientCluster, **fields: object) -> None:
    found = cluster.store.get(CLUSTER)
    assert found is not None
    cluster.store.update(CLUSTER, msgspec.structs.replace(found.record, **fields), found.version)


def test_cheap_query_is_admitted_and_the_plan_tells_what_it_takes(cluster: ObedientCluster) -> None:
    idle = admit(cluster.view())
    busy = admitted(cluster, costing(5.0))
    before, after = place(idle, "machine-0"), place(busy, "machine-0")
    assert after.limit_cores == MACHINE_SHARE * PROCESSORS
    assert before.predicted_cores < after.predicted_cores < after.limit_cores
    # Primaries and secondaries both; every node is part of the machine.
    assert after.predicted_cores == pytest.approx(
        sum(each.predicted_cores for each in busy.places if not each.is_machine)
    )
    assert after.fragments["alerts"] == pytest.approx(
        sum(each.fragments.get("alerts", 0.0) for each in busy.places if not each.is_machine)
    )


def test_query_that_needs_more_than_the_machine_has_is_refused_with_the_figures(
    cluster: ObedientCluster,
) -> None:
    before = dict(cluster.server.entries)
    error = refusal(cluster, costing(100.0))
    assert (error.field, error.value, error.exit_status) == ("load", "machine machine-0", 2)
    figures = error.figures
    used, added = float(figures["used_cores"]), float(figures["added_cores"])
    assert figures["limit_cores"] == MACHINE_SHARE * PROCESSORS
    assert figures["processors"] == PROCESSORS
    assert used + added > MACHINE_SHARE * PROCESSORS
    # Each tuple is evaluated by two replicas.
    assert float(figures["added_cores.north_tracks"]) >= 2 * 3125 * 100e-6
    for part in (f"{added:.2f}", f"{used:.2f}", "1.60", "alerts", "100 us a tuple, stated"):
        assert part in str(error)
    assert "admission: off" in str(error)
    assert cluster.server.entries == before


def test_query_fits_if_nodes_have_machines_of_their_own(cluster: ObedientCluster) -> None:
    on_machines(cluster, 9)
    found = admitted(cluster, costing(100.0))
    assert not any(each.is_machine for each in found.places)
    assert all(each.limit_cores == NODE_SHARE for each in found.places)


def test_fragment_that_no_single_node_can_evaluate_is_refused(cluster: ObedientCluster) -> None:
    on_machines(cluster, 9, processors=64.0)
    error = refusal(cluster, costing(400.0))
    assert str(error.value).startswith("node ")
    assert error.figures["limit_cores"] == NODE_SHARE


def test_full_node_is_left_alone_if_others_have_room(cluster: ObedientCluster) -> None:
    on_machines(cluster, 9)
    (first, *_) = admitted(cluster, costing(50.0)).plan.placements
    for name, host in cluster.hosts.items():
        cores = 0.9 if name == first.primary else 0.1
        host.tell(load=HostLoad(cores=cores, evaluating_cores=0.05))
    placements = admitted(cluster, costing(50.0)).plan.placements
    assert all(first.primary not in (each.primary, each.secondary) for each in placements)


def test_what_hosts_have_taken_counts_if_it_is_more_than_predicted(
    cluster: ObedientCluster,
) -> None:
    admitted(cluster, costing(5.0))
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.18, evaluating_cores=0.1))
    error = refusal(cluster, costing(5.0))
    assert error.figures["used_cores"] == pytest.approx(9 * 0.18)


def test_admission_can_be_turned_off(cluster: ObedientCluster) -> None:
    change_settings(cluster, admission=False)
    found = place(admitted(cluster, costing(100.0)), "machine-0")
    assert found.predicted_cores > found.limit_cores


def test_hosts_that_do_not_tell_their_processors_have_no_limit() -> None:
    assert admitted(ObedientCluster(), costing(100.0)).places == ()


def test_emulated_costs_take_nodes_and_no_machine(cluster: ObedientCluster) -> None:
    change_settings(cluster, emulate_costs=True)
    found = admitted(cluster, costing(100.0))
    assert not any(each.is_machine for each in found.places)
    error = refusal(cluster, costing(400.0))
    assert str(error.value).startswith("node ")


def test_refused_query_leaves_the_plans_of_others_as_they_were(cluster: ObedientCluster) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()
    before = admit(cluster.view()).places
    second = query_manifest(
        name="second",
        statements="REGISTER QUERY heavy RSTREAM(SELECT id FROM north [NOW]);",
        outputs={"heavy": "control-centre"},
    )
    heavy = msgspec.structs.replace(
        second,
        record=msgspec.structs.replace(second.record, estimates={"heavy": Estimate(cost_us=250.0)}),
    )
    error = refusal(cluster, heavy)
    assert "Delete one of proximity" in str(error)
    assert admit(cluster.view()).places == before


def test_leader_too_waits_with_a_query_that_does_not_fit(cluster: ObedientCluster) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(100.0),)))
    cluster.settle()
    assert not cluster.view().fragments
    (problem,) = cluster.coordination.problems
    assert "machine machine-0" in problem
    change_settings(cluster, admission=False)
    cluster.settle()
    assert cluster.view().fragments


def busy(cluster: ObedientCluster, cores: float) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=cores, evaluating_cores=cores / 2))
    cluster.settle()


def test_overload_is_a_problem_with_advice_until_it_is_clearly_over(
    cluster: ObedientCluster,
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()
    assert not cluster.coordination.problems
    busy(cluster, 1.75 / 9)
    (problem,) = cluster.coordination.problems
    assert "machine machine-0 is overloaded" in problem
    assert "Delete one of proximity" in problem
    # Just below the limit it still counts as overloaded.
    busy(cluster, 1.65 / 9)
    assert cluster.coordination.problems == (problem,)
    busy(cluster, 1.4 / 9)
    assert not cluster.coordination.problems
    events = [event for event in cluster.history() if "machine-0" in event]
    assert events == ["overloaded: machine machine-0", "overload over: machine machine-0"]


def test_advice_names_a_node_that_has_room(cluster: ObedientCluster) -> None:
    on_machines(cluster, 9)
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()
    node = cluster.view().fragments["proximity.alerts"].record.primary.node
    cluster.hosts[node].tell(load=HostLoad(cores=0.99, evaluating_cores=0.9))
    cluster.settle()
    (problem,) = cluster.coordination.problems
    assert f"node {node} is overloaded" in problem
    assert "with `primaries` on" in problem


@pytest.mark.parametrize(("machines", "named"), [(9, {"london"}), (1, set[str]())])
def test_advice_names_only_nodes_that_may_run_primaries_and_whose_machine_has_room(
    cluster: ObedientCluster, machines: int, named: set[str]
) -> None:
    """Sites are idle, and so is a node that is cordoned."""
    on_machines(cluster, machines)
    for node in EXECUTORS:
        cores = {"london": 0.3, "lyon": 0.2}.get(node, 0.9)
        cluster.hosts[node].tell(load=HostLoad(cores=cores, evaluating_cores=0.05))
    cluster.store.create(CORDONS.key("lyon"), CordonRecord(node="lyon", since_us=0))
    view = cluster.view()
    found = admit(view).places
    full = next(each for each in found if each.name == "paris")
    told = advice(view, full, {"q": 0.5}, found)
    assert {name for name in places_ms if name in told} == named


def test_advice_leaves_out_what_is_not_applied_and_deletes_what_is(
    cluster: ObedientCluster,
) -> None:
    on_machines(cluster, 1)
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()
    view = cluster.view()
    found = admit(view).places
    told = advice(view, found[0], {"new": 0.5, "proximity": 0.3}, found)
    assert told.startswith("Leave out new (0.5 cores), delete one of proximity (0.3 cores), ")
    told = advice(view, found[0], {"proximity": 0.3}, found)
    assert told.startswith("Delete one of proximity (0.3 cores), ")


def test_host_short_of_time_is_predicted_by_tuples_not_by_its_long_evaluations(
    cluster: ObedientCluster,
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0, "frankfurt"),)))
    cluster.settle()
    for host in cluster.hosts.values():
        # A tenth of the evaluations, each of ten times the timestamps and cost.
        host.costs["alerts"] = CostStatus(fixed_us=2000.0, per_tuple_us=1.0, samples=100)
        host.loads["alerts"] = ReplicaLoad(
            cores=0.02, evaluations_s=10, timestamps_s=1000, tuples_s=1000
        )
    cluster.settle()
    found = admit(cluster.view())
    fragments = place(found, "machine-0").fragments
    # 3,125 tuples a second at 20 µs, and the overhead of 100 evaluations, twice; and the sink.
    # Three fragments on six nodes: each node evaluates a hundred times a second.
    overhead_us = OVERHEAD_US / (1 + 100 / OFTEN_S)
    # The secondary's two inputs come from the primary's node, a hundred chunks a second of each.
    counted_s = 2 * 100 + RECEIVED * 2 * 100
    expected = 2 * 0.02 * 3.125 + counted_s * overhead_us / 1e6 + 100 * SITE_US / 1e6
    assert fragments["alerts"] == pytest.approx(expected)


@pytest.mark.parametrize("quiet_tuples_s", [2.0, 5.0, 100.0])
def test_what_evaluations_take_in_a_quiet_stretch_is_no_cost_of_its_few_tuples(
    cluster: ObedientCluster, quiet_tuples_s: float
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0, "frankfurt"),)))
    cluster.settle()
    cores = (50 * 200.0 + quiet_tuples_s) / 1e6
    for host in cluster.hosts.values():
        # Half of the evaluations, of hardly more than watermarks.
        host.costs["alerts"] = CostStatus(fixed_us=200.0, per_tuple_us=1.0, samples=100)
        host.loads["alerts"] = ReplicaLoad(
            cores=cores, evaluations_s=50, timestamps_s=50, tuples_s=quiet_tuples_s
        )
    cluster.settle()
    found = admit(cluster.view())
    overhead_us = OVERHEAD_US / (1 + 100 / OFTEN_S)
    counted_s = 2 * 100 + RECEIVED * 2 * 100
    evaluating = 2 * (100 * 200.0 + 3125) / 1e6
    expected = evaluating + counted_s * overhead_us / 1e6 + 100 * SITE_US / 1e6
    assert place(found, "machine-0").fragments["alerts"] == pytest.approx(expected)


def test_stated_cost_that_is_off_is_told_once_with_the_line_to_write(
    cluster: ObedientCluster,
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(costing(5.0),)))
    cluster.settle()

    def takes(cost_us: float, tuples_s: float = 1000) -> None:
        for host in cluster.hosts.values():
            host.costs["alerts"] = CostStatus(fixed_us=0.0, per_tuple_us=cost_us, samples=100)
            host.loads["alerts"] = ReplicaLoad(
                cores=cost_us * 1e-6 * tuples_s,
                evaluations_s=100,
                timestamps_s=100,
                tuples_s=tuples_s,
            )
        cluster.settle()

    def told() -> list[str]:
        events = [each.event for each in cluster.store.history()]
        return [each.detail for each in events if each.kind == "cost differs"]

    takes(6.0)
    assert told() == []
    # So few tuples that it hardly matters, and what is measured is not their cost.
    takes(3000.0, tuples_s=2)
    assert told() == []
    takes(40.0)
    assert len(told()) == 1
    assert "alerts: {cost: 40 us}" in told()[0]
    for cost_us in (44.0, 70.0, 25.0):
        takes(cost_us)
    assert len(told()) == 1
    takes(3200.0)
    assert "a tuple takes 3,200 us, the manifest states 5 us" in told()[1]
    assert "alerts: {cost: 3200 us}" in told()[1]


def test_a_host_that_has_just_come_back_does_not_hide_what_the_others_take(
    cluster: ObedientCluster,
) -> None:
    admitted(cluster, costing(5.0))
    for host in list(cluster.hosts.values())[1:]:
        host.tell(load=HostLoad(cores=0.2, evaluating_cores=0.1))
    error = refusal(cluster, costing(5.0))
    assert error.figures["used_cores"] == pytest.approx(8 * 0.2 + HOST_CORES)


def heavy(name: str, cost_us: float) -> QueryManifest:
    """A query with one fragment, on 3,125 tuples a second."""
    made = query_manifest(
        name=name,
        statements=f"REGISTER QUERY {name}_out RSTREAM(SELECT id FROM north [NOW]);",
        outputs={f"{name}_out": "control-centre"},
    )
    estimates = {f"{name}_out": Estimate(cost_us=cost_us)}
    return msgspec.structs.replace(
        made, record=msgspec.structs.replace(made.record, estimates=estimates)
    )


FIRST, SECOND = heavy("first", 30.0), heavy("second", 30.0)
"""Each takes about half a processor with its two replicas."""


def test_queries_applied_together_count_together_above_what_is_measured(
    cluster: ObedientCluster,
) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.11, evaluating_cores=0.0))
    assert admitted(cluster, FIRST).placements
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), STREAMS, [FIRST, SECOND])
    assert "second" in str(caught.value)
    assert float(caught.value.figures["used_cores"]) > 0.99 + 0.15


def apply_first(cluster: ObedientCluster) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.11, evaluating_cores=0.0))
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(FIRST,)))
    cluster.settle()
    assert cluster.view().fragments


def first_takes(cluster: ObedientCluster, load: ReplicaLoad) -> None:
    """The query's replicas report a load, and its stream flows from site to site."""
    for host in cluster.hosts.values():
        host.loads["first_out"] = load
        host.obey()
        sources, sinks = host.record.sources, host.record.sinks
        host.tell(
            sources={n: msgspec.structs.replace(s, next_seq=9) for n, s in sources.items()},
            sinks={n: msgspec.structs.replace(s, completed_timestamps=9) for n, s in sinks.items()},
        )


def test_a_query_that_has_not_taken_its_share_yet_counts_above_what_is_measured(
    cluster: ObedientCluster,
) -> None:
    apply_first(cluster)
    error = refusal(cluster, SECOND)
    assert float(error.figures["used_cores"]) > 0.99 + 0.15
    assert place(admit(cluster.view()), "machine-0").coming_cores > 0.15


def test_a_query_that_takes_its_share_is_not_counted_twice(cluster: ObedientCluster) -> None:
    apply_first(cluster)
    # Few long evaluations, as on a busy machine: what it takes is in what the hosts take.
    first_takes(cluster, ReplicaLoad(cores=0.1, evaluations_s=30, timestamps_s=100, tuples_s=3125))
    found = place(admit(cluster.view()), "machine-0")
    assert found.coming_cores == pytest.approx(0.0)
    assert found.hosts_cores == pytest.approx(max(0.99, found.predicted_cores))


def test_a_query_that_has_just_begun_to_take_its_share_is_hardly_in_what_its_host_takes(
    cluster: ObedientCluster,
) -> None:
    apply_first(cluster)
    full = ReplicaLoad(cores=0.1, evaluations_s=100, timestamps_s=100, tuples_s=3125)
    first_takes(cluster, msgspec.structs.replace(full, window_share=0.2))
    admission = admit(cluster.view())
    nodes = [each for each in admission.places if each.name in EXECUTORS]
    replicas_cores = sum(each.fragments.get("first_out", 0.0) for each in nodes)
    coming_cores = place(admission, "machine-0").coming_cores
    assert coming_cores == pytest.approx(0.8 * replicas_cores)
    assert replicas_cores > 0.2


def test_what_a_deleted_query_took_is_free_before_it_is_no_longer_measured(
    cluster: ObedientCluster,
) -> None:
    apply_first(cluster)
    first_takes(cluster, ReplicaLoad(cores=0.2, evaluations_s=100, timestamps_s=100, tuples_s=3125))
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.15, evaluating_cores=0.05))
    before = place(admit(cluster.view()), "machine-0")
    assert before.hosts_cores == pytest.approx(1.35)
    found = cluster.store.get(QUERIES.key("first"))
    assert found is not None
    cluster.store.delete(QUERIES.key("first"), found.version)
    cluster.settle_coordinator()
    after = place(admit(cluster.view()), "machine-0")
    assert after.hosts_cores < 1.35 - 2 * 0.2


def test_a_refused_query_stands_in_no_other_s_way(cluster: ObedientCluster) -> None:
    """The leader plans both in one decision."""
    queries = (heavy("a_heavy", 250.0), heavy("b_small", 5.0))
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=queries))
    cluster.settle()
    assert {found.record.query for found in cluster.view().fragments.values()} == {"b_small"}
    (problem,) = cluster.coordination.problems
    assert "a_heavy" in problem


def test_a_host_has_no_more_room_than_its_machine(cluster: ObedientCluster) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.15, evaluating_cores=0.0))
    room = room_cores(admit(cluster.view()).places)
    assert set(room) == cluster.hosts.keys()
    for cores in room.values():
        assert cores == pytest.approx(MACHINE_SHARE * PROCESSORS - 9 * 0.15)


@pytest.mark.parametrize(("speed", "told"), [(0.3, True), (0.9, False)])
def test_a_refusal_tells_that_processors_are_slow(
    cluster: ObedientCluster, speed: float, told: bool
) -> None:
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.2, evaluating_cores=0.1, speed=speed))
    error = refusal(cluster, costing(20.0))
    assert error.figures["speed"] == pytest.approx(speed)
    assert (f" at {speed:.2f} of the speed" in str(error)) is told


def test_a_refusal_with_emulated_costs_says_nothing_of_processors(cluster: ObedientCluster) -> None:
    change_settings(cluster, emulate_costs=True)
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.2, evaluating_cores=0.1, speed=0.3))
    assert "of the speed" not in str(refusal(cluster, costing(400.0)))


def test_what_a_site_takes_for_few_chunks_is_measured_too(cluster: ObedientCluster) -> None:
    rare = SourceSpec(driver="replay", together_ms=200.0)
    streams = tuple(
        msgspec.structs.replace(each, record=msgspec.structs.replace(each.record, source=rare))
        for each in STREAMS
    )
    cluster.apply(Manifests(cluster=None, streams=streams, queries=(costing(5.0),)))
    cluster.settle()
    (alerts,) = cluster.view().query_records["proximity"].outputs.values()
    chunks_s = 10.0
    assert predicted_cores(cluster, alerts) == pytest.approx(HOST_CORES + chunks_s * SITE_US / 1e6)
    # Twice the assumed time for each.
    cores = HOST_CORES + chunks_s * 2 * SITE_US / 1e6
    cluster.hosts[alerts].tell(load=HostLoad(cores=cores, evaluating_cores=0.0))
    assert predicted_cores(cluster, alerts) == pytest.approx(cores)


def test_a_stream_that_flows_takes_its_site_more_for_each_node_that_reads_it_too(
    cluster: ObedientCluster,
) -> None:
    cluster.apply(Manifests(cluster=None, streams=STREAMS, queries=(on("first", "paris"),)))
    cluster.settle()
    site = STREAMS[0].record.site
    chunks_s = 3 * 100.0
    for host in cluster.hosts.values():
        host.tell(load=HostLoad(cores=0.0, evaluating_cores=0.0))
    load = HostLoad(cores=HOST_CORES + chunks_s * 1.5 * SITE_US / 1e6, evaluating_cores=0.0)
    cluster.hosts[site].tell(load=load)
    reading = {
        replica.node
        for found in cluster.view().fragments.values()
        for replica in found.record.replicas
    }
    assert len(reading) == 2
    other = next(node for node in EXECUTORS if node not in reading)
    found = place(admitted(cluster, on("second", other)), site)
    assert found.predicted_cores >= load.cores + 0.99 * 100 * 1.5 * SITE_US / 1e6


def on(name: str, node: str) -> QueryManifest:
    made = heavy(name, 1.0)
    return msgspec.structs.replace(
        made, record=msgspec.structs.replace(made.record, primaries={f"{name}_out": (node,)})
    )


def predicted_cores(cluster: ObedientCluster, host: str) -> float:
    return place(admit(cluster.view()), host).predicted_cores
