"""Deadlines divided among fragments, and kept for what runs already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from orchestrator.control.decide.admission import admit
from orchestrator.control.decide.decision import DecisionSettings
from orchestrator.control.decide.writes import decide
from orchestrator.control.observe.dataflow import Dataflow, dataflow
from orchestrator.control.observe.view import LEAST_SAMPLES, ClusterView
from orchestrator.control.planning.sub_deadlines import (
    SPARE,
    DeadlineTask,
    SubDeadlines,
    admitted_work,
    best_effort,
    deadline_problem,
    kept_by_cheapest,
    other_primaries,
)
from orchestrator.control.planning.task import RunningFragment, network_view
from orchestrator.control.planning.workload import Workload, urgency_ms, workload
from orchestrator.errors import EXIT_REFUSED, InvalidInput, Refused
from orchestrator.manifest import Manifests, QueryManifest
from orchestrator.records import CostStatus, Estimate, QueryRecord, Timing
from placement.deadline.contraction import contract
from placement.deadline.errors import DeadlinesUnattainable
from placement.deadline.paper_model import place_by_paper_model
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted
from tests.obedient_cluster import (
    ObedientCluster,
    aircraft,
    query_manifest,
    stream_manifest,
)
from tests.unit.placement.deadline.two_nodes import chain as chain_of
from tests.unit.placement.deadline.two_nodes import operator, problem

NORTH = {"north": stream_manifest("north").record, "south": stream_manifest("south").record}
CENTRE = "control-centre"


def divide(problem: DeadlineProblem, places: Mapping[str, str]) -> SubDeadlines:
    """Sub-deadlines, with other primaries if those given leave too little time."""
    return kept_by_cheapest(problem, places) or other_primaries(problem)


def statement(name: str, reads: str) -> str:
    parts = [f"SELECT id, x FROM {stream} [NOW]" for stream in reads.split()]
    return f"REGISTER QUERY {name} RSTREAM({' UNION ALL '.join(parts)});"


def query(
    name: str,
    fragments: Mapping[str, str],
    outputs: Mapping[str, float],
    *,
    costs_us: Mapping[str, float] | None = None,
    primaries: Mapping[str, tuple[str, ...]] | None = None,
    deadline_ms: float = 300.0,
) -> QueryManifest:
    """Fragments by what they read; outputs by their deadlines."""
    made = query_manifest(
        name,
        "".join(statement(each, reads) for each, reads in fragments.items()),
        outputs=dict.fromkeys(outputs, CENTRE),
        deadline_ms=deadline_ms,
        recovery_bound_ms=5000.0,
    )
    record = msgspec.structs.replace(
        made.record,
        deadlines_ms=dict(outputs),
        estimates={each: Estimate(cost_us=us) for each, us in (costs_us or {}).items()},
        primaries=dict(primaries or {}),
    )
    return msgspec.structs.replace(made, record=record)


def flow_of(*queries: QueryManifest) -> tuple[Dataflow, dict[str, QueryRecord]]:
    records = {each.record.name: each.record for each in queries}
    return dataflow(NORTH, records), records


def work_of(*queries: QueryManifest) -> Workload:
    flow, records = flow_of(*queries)
    return workload(ClusterView(), flow, NORTH, records)


def chained(*queries: QueryManifest, apart: tuple[str, ...] = ()) -> list[str]:
    """Chains as words; `apart`: those that are not where the one before them is."""
    work = work_of(*queries)

    def together(one: str, other: str) -> bool:
        return other not in apart

    return sorted(" ".join(chain) for chain in work.chains(work.fragments, together))


# Chains


def test_fragments_that_only_follow_each_other_are_one_chain() -> None:
    line = query("q", {"a": "north", "b": "a", "c": "b"}, {"c": 100})
    assert chained(line) == ["a b c"]
    assert chained(line, apart=("c",)) == ["a b", "c"]
    assert chained(line, apart=("b",)) == ["a", "b c"]


def test_a_chain_ends_where_somebody_else_reads() -> None:
    fork = query("q", {"a": "north", "b": "a", "c": "a"}, {"b": 100, "c": 100})
    assert chained(fork) == ["a", "b", "c"]
    line = query("q", {"a": "north", "b": "a"}, {"b": 100})
    reader = query("r", {"c": "a"}, {"c": 100})
    assert chained(line, reader) == ["a", "b", "c"]


def test_a_chain_ends_where_a_sink_reads() -> None:
    line = query("q", {"a": "north", "b": "a"}, {"a": 50, "b": 100})
    assert chained(line) == ["a", "b"]


def test_a_fragment_with_two_inputs_begins_a_chain() -> None:
    join = query("q", {"a": "north", "b": "south", "c": "a b", "d": "c"}, {"d": 100})
    assert chained(join) == ["a", "b", "c d"]


def test_a_chain_may_reach_into_another_query() -> None:
    assert chained(
        query("q", {"a": "north", "z": "south"}, {"z": 100}), query("r", {"b": "a"}, {"b": 100})
    ) == ["a b", "z"]


# Problem and division


def task(
    manifest: QueryManifest,
    costs_ms: Mapping[str, float],
    *where: str,
    running: Mapping[str, tuple[Admitted, ...]] | None = None,
) -> DeadlineTask:
    """A query whose fragments are all on one node, the first of those that they may take."""
    work = work_of(manifest)
    names = list(work.fragments)
    problem = deadline_problem(
        [replace(work.fragments[name], instance_ms=costs_ms[name]) for name in names],
        work,
        {"north": "north-receiver", "south": "south-receiver"},
        dict.fromkeys(names, where),
        running or {},
        network_view(ObedientCluster().view().hosts, Counter()),
        2.0,
    )
    contraction = contract(problem)
    return DeadlineTask(contraction=contraction, places=dict.fromkeys(contraction.parts, where[0]))


def test_a_chain_is_one_operator_and_its_fragments_share_by_cost() -> None:
    line = query("q", {"a": "north", "b": "a", "c": "b"}, {"c": 100})
    made = task(line, {"a": 1.0, "b": 2.0, "c": 5.0}, "paris")
    (one,) = made.problem.operators
    assert (one.name, one.cost_ms, one.weight) == ("a…c", 8.0, 3)
    assert (one.inputs, one.outputs) == (("north",), ("c",))
    divided = made.of_fragments(
        SubDeadlines(places={"a…c": "paris"}, sub_deadlines_ms={"a…c": 40.0})
    )
    assert divided.places == dict.fromkeys("abc", "paris")
    assert divided.sub_deadlines_ms == pytest.approx({"a": 5.0, "b": 10.0, "c": 25.0})


def test_links_cost_a_hop_and_the_way_to_oneself_nothing() -> None:
    view = network_view(ObedientCluster().view().hosts, Counter())
    line = query("q", {"a": "north"}, {"a": 100})
    posed = task(line, {"a": 1.0}, "paris").problem
    assert posed.one_way_ms is not None
    assert np.diag(posed.one_way_ms).tolist() == [0.0] * len(view.nodes)
    paris, lyon = view.index["paris"], view.index["lyon"]
    # A round trip of 10 ms.
    assert posed.one_way_ms[paris, lyon] == pytest.approx(5.0 + 2.0)


def test_a_stream_that_nobody_reads_yet_has_its_querys_deadline() -> None:
    pair = query("q", {"a": "north", "b": "south"}, {"a": 100}, deadline_ms=250.0)
    posed = task(pair, {"a": 1.0, "b": 1.0}, "paris").problem
    found = {output.stream: (output.deadline_ms, output.sink) for output in posed.outputs}
    assert found == {"a": (100.0, CENTRE), "b": (250.0, "paris")}


def test_the_cheapest_placement_stays_if_it_leaves_time() -> None:
    places = {"o0": "a", "o1": "a"}
    divided = divide(chain_of(10.0, 10.0, deadline_ms=100.0), places)
    assert divided.places == places
    assert divided.sub_deadlines_ms == pytest.approx({"o0": 50.0, "o1": 50.0})


def test_another_placement_is_looked_for_when_the_cheapest_leaves_too_little() -> None:
    # Two operators of 10 ms that are due after 22 each: one node would have 2 ms to spare.
    pair = problem(
        [operator("p", 10.0, "in"), operator("q", 10.0, "in")], {"p.out": 22.0, "q.out": 22.0}
    )
    assert (1 - SPARE) * 22.0 < 2 * 10.0
    divided = divide(pair, {"p": "a", "q": "a"})
    assert divided.places["p"] != divided.places["q"]


def test_a_tight_placement_is_better_than_none() -> None:
    pair = problem(
        [
            operator("p", 10.0, "in", candidates=("a",)),
            operator("q", 10.0, "in", candidates=("a",)),
        ],
        {"p.out": 22.0, "q.out": 22.0},
    )
    divided = divide(pair, {"p": "a", "q": "a"})
    assert divided.places == {"p": "a", "q": "a"}
    assert max(divided.sub_deadlines_ms.values()) >= 20.0


def test_work_that_is_admitted_is_not_broken() -> None:
    old = Admitted(name="old", cost_ms=30.0, deadline_ms=35.0)
    one = problem([operator("p", 10.0, "in", candidates=("a",))], {"p.out": 20.0})
    assert divide(one, {"p": "a"}).places == {"p": "a"}
    busy = problem(
        [operator("p", 10.0, "in", candidates=("a",))], {"p.out": 20.0}, admitted={"a": (old,)}
    )
    with pytest.raises(DeadlinesUnattainable) as caught:
        divide(busy, {"p": "a"})
    assert caught.value.excess_ms or caught.value.relaxation_ms


def test_shares_are_dealt_out_even_if_nothing_can_be_kept() -> None:
    late = chain_of(10.0, 30.0, deadline_ms=20.0, latency_ms=500.0)
    divided = best_effort(late, {"o0": "a", "o1": "b"})
    assert divided.places == {"o0": "a", "o1": "b"}
    assert divided.sub_deadlines_ms == pytest.approx({"o0": 5.0, "o1": 15.0})


def test_urgency_is_that_of_the_most_urgent_output_downstream() -> None:
    first = query("q", {"a": "north", "b": "a", "unread": "a"}, {"b": 200})
    second = query("r", {"c": "a b", "d": "c"}, {"c": 500, "d": 90})
    flow, records = flow_of(first, second)
    found = urgency_ms(flow, records)
    assert found == {
        "north": 90,
        "a": 90,
        "b": 90,
        "c": 90,
        "d": 90,
        "unread": float("inf"),
    }
    flow, records = flow_of(first)
    assert urgency_ms(flow, records)["b"] == 200


def test_work_on_nodes_is_counted_by_chain() -> None:
    work = work_of(query("q", {"a": "north", "b": "a", "c": "south"}, {"b": 90, "c": 80}))

    def together(one: str, other: str) -> bool:
        return True

    running = {
        name: RunningFragment(
            primary=node,
            secondary=secondary,
            timing=Timing(cost_ms=cost_ms, sub_deadline_ms=due_ms, standby_lag_ms=0.0),
        )
        for name, node, secondary, cost_ms, due_ms in (
            ("a", "paris", "lyon", 1.0, 10.0),
            ("b", "paris", None, 2.0, 20.0),
            ("c", "lyon", "paris", 3.0, 30.0),
        )
    }
    found = admitted_work(work.chains(work.fragments, together), running)
    assert found == {
        "paris": (Admitted(name="a", cost_ms=3.0, deadline_ms=30.0),),
        "lyon": (Admitted(name="c", cost_ms=3.0, deadline_ms=30.0),),
    }


# In a cluster


def applied(cluster: ObedientCluster, *queries: QueryManifest, streams: bool = True) -> None:
    sources = aircraft().streams if streams else ()
    cluster.apply(Manifests(cluster=None, streams=sources, queries=queries))


def running(*queries: QueryManifest) -> ObedientCluster:
    cluster = ObedientCluster()
    applied(cluster, *queries)
    cluster.settle()
    assert cluster.coordination.problems == ()
    return cluster


def timing(cluster: ObedientCluster, key: str) -> Timing:
    return cluster.view().fragments[key].record.timing


def longest_ms(cluster: ObedientCluster, name: str) -> float:
    """Latencies and sub-deadlines on the longest path to a fragment's output, as written."""
    view = cluster.view()
    network = network_view(view.hosts, Counter())
    hop_overhead_ms = view.settings.hop_overhead_ms + view.settings.batch_ms

    def way_ms(one: str, other: str) -> float:
        between = network.one_way_between(
            np.array([network.index[one]]), np.array([network.index[other]])
        )
        return 0.0 if one == other else float(between[0, 0]) + hop_overhead_ms

    fragment = view.dataflow.fragments[name]
    record = view.fragments[fragment.key].record
    here, before_ms = record.primary.node, 0.0
    for stream in fragment.inputs:
        if stream in view.streams:
            came_ms = way_ms(view.streams[stream].record.site, here)
        else:
            maker = view.fragments[view.dataflow.fragments[stream].key].record
            came_ms = longest_ms(cluster, stream) + way_ms(maker.primary.node, here)
        before_ms = max(before_ms, came_ms)
    return before_ms + record.timing.sub_deadline_ms


def to_sink_ms(cluster: ObedientCluster, name: str) -> float:
    view = cluster.view()
    network = network_view(view.hosts, Counter())
    here = view.fragments[view.dataflow.fragments[name].key].record.primary.node
    between = network.one_way_between(
        np.array([network.index[here]]), np.array([network.index[CENTRE]])
    )
    return float(between[0, 0]) + view.settings.hop_overhead_ms + view.settings.batch_ms


def test_sub_deadlines_and_latencies_use_up_the_deadline_and_no_more() -> None:
    cluster = running(*aircraft().queries)
    whole_ms = longest_ms(cluster, "alerts") + to_sink_ms(cluster, "alerts")
    assert whole_ms == pytest.approx(300.0)


def test_outputs_have_deadlines_of_their_own() -> None:
    two = query("q", {"a": "north", "b": "a", "c": "a"}, {"b": 120, "c": 280})
    cluster = running(two)
    for name, deadline_ms in (("b", 120.0), ("c", 280.0)):
        whole_ms = longest_ms(cluster, name) + to_sink_ms(cluster, name)
        assert whole_ms <= deadline_ms + 1e-6
    found = cluster.view().assignments[CENTRE].record.sinks
    assert {sink.stream: sink.deadline_ms for sink in found} == {"b": 120.0, "c": 280.0}


def test_hosts_are_told_sub_deadlines_and_who_reads() -> None:
    cluster = running(query("q", {"a": "north", "b": "a", "c": "a"}, {"b": 120, "c": 280}))
    replicas = [
        replica
        for found in cluster.view().assignments.values()
        for replica in found.record.fragments
    ]
    assert len(replicas) == 6
    for replica in replicas:
        told = timing(cluster, f"q.{replica.fragment}")
        assert replica.sub_deadline_ms == told.sub_deadline_ms
        assert replica.standby_lag_ms == told.standby_lag_ms > 0
    readers = {replica.fragment: replica.readers_ms for replica in replicas}
    assert readers == {
        "a": {"b": 120.0, "c": 280.0},
        "b": {"sink:b": 120.0},
        "c": {"sink:c": 280.0},
    }


def test_a_querys_sub_deadlines_are_what_it_alone_would_get_beside_others() -> None:
    first = query("first", {"a": "north"}, {"a": 200})
    second = query("second", {"b": "north"}, {"b": 100})
    alone = running(first)
    before = timing(alone, "first.a")
    applied(alone, second, streams=False)
    alone.settle()
    assert timing(alone, "first.a") == before
    assert "sub-deadline changed: first.a" not in alone.history()


def heavy(name: str, stream: str, deadline_ms: float = 200.0) -> QueryManifest:
    """What comes at once takes it 94 ms, on one node only."""
    return query(
        name,
        {f"{name}_out": stream},
        {f"{name}_out": deadline_ms},
        costs_us={f"{name}_out": 3000.0},
        primaries={f"{name}_out": ("paris",)},
    )


def test_query_that_would_break_admitted_work_is_refused_with_figures() -> None:
    cluster = running(heavy("first", "north"))
    assert timing(cluster, "first.first_out").cost_ms == pytest.approx(93.75)
    before = dict(cluster.server.entries)
    with pytest.raises(Refused) as caught:
        admit(cluster.view(), (), [heavy("second", "south")])
    error = caught.value
    assert (error.subject, error.field) == ("query second (query.yaml:1)", "deadline")
    assert error.exit_status == EXIT_REFUSED == 2
    allowed = {name: ms for name, ms in error.figures.items() if name.startswith("allow_ms.")}
    assert list(allowed) == ["allow_ms.second_out"]
    assert "relieve_ms.paris" in error.figures
    assert str(error).startswith(
        "query second (query.yaml:1) refused: deadline '200 ms of second_out': no placement keeps "
        "all deadlines. Allow second_out by "
    )
    assert cluster.server.entries == before
    # As late as it says, it fits.
    later_ms = 200.0 + float(allowed["allow_ms.second_out"]) + 0.01
    admit(cluster.view(), (), [heavy("second", "south", later_ms)])
    # Elsewhere, too.
    elsewhere = heavy("second", "south")
    record = msgspec.structs.replace(elsewhere.record, primaries={})
    admit(cluster.view(), (), [msgspec.structs.replace(elsewhere, record=record)])


def test_leader_does_not_place_what_would_break_admitted_work() -> None:
    cluster = running(heavy("first", "north"))
    before = timing(cluster, "first.first_out")
    applied(cluster, heavy("second", "south"), streams=False)
    cluster.settle()
    assert list(cluster.view().fragments) == ["first.first_out"]
    assert timing(cluster, "first.first_out") == before
    (problem_said,) = cluster.coordination.problems
    assert "second_out" in problem_said


def test_queries_that_share_fragments_are_divided_together_before_the_new_one_is_created() -> None:
    cluster = running(query("first", {"a": "north", "b": "a"}, {"b": 250}))
    before = {name: timing(cluster, f"first.{name}") for name in ("a", "b")}
    seen = len(cluster.history())
    applied(cluster, query("second", {"c": "a"}, {"c": 100}), streams=False)
    cluster.settle_coordinator()
    after = timing(cluster, "first.a")
    assert after.sub_deadline_ms < before["a"].sub_deadline_ms
    history = cluster.history()[seen:]
    changed = history.index("sub-deadline changed: first.a")
    assert changed < history.index("planned: second")
    for name, deadline_ms in (("b", 250.0), ("c", 100.0)):
        whole_ms = longest_ms(cluster, name) + to_sink_ms(cluster, name)
        assert whole_ms <= deadline_ms + 1e-6
    # Hosts are told.
    (primary,) = (
        replica
        for found in cluster.view().assignments.values()
        for replica in found.record.fragments
        if replica.fragment == "a" and replica.role == "primary"
    )
    assert primary.sub_deadline_ms == after.sub_deadline_ms
    assert primary.readers_ms == {"b": 250.0, "c": 100.0}


def costing(per_tuple_us: float, samples: int = LEAST_SAMPLES) -> CostStatus:
    return CostStatus(fixed_us=0.0, per_tuple_us=per_tuple_us, samples=samples)


def drifting(per_tuple_us: float, samples: int = LEAST_SAMPLES) -> tuple[ObedientCluster, str]:
    """A running query whose fragment says what it costs."""
    cluster = running(query("q", {"a": "north"}, {"a": 200}, costs_us={"a": 100.0}))
    primary = cluster.view().fragments["q.a"].record.primary.node
    cluster.hosts[primary].costs["a"] = costing(per_tuple_us, samples)
    cluster.settle()
    return cluster, primary


def proposals(cluster: ObedientCluster) -> int:
    return cluster.history().count("re-plan proposed: q.a")


def test_a_new_plan_is_proposed_once_when_a_cost_drifts() -> None:
    cluster, primary = drifting(1000.0)
    assert proposals(cluster) == 1
    assert timing(cluster, "q.a").cost_ms == pytest.approx(31.25)
    cluster.hosts[primary].costs["a"] = costing(1100.0)
    cluster.settle()
    assert proposals(cluster) == 1
    cluster.hosts[primary].costs["a"] = costing(3000.0)
    cluster.settle()
    assert proposals(cluster) == 2


def test_sub_deadlines_stay_when_a_new_plan_is_proposed() -> None:
    quiet, _ = drifting(100.0)
    loud, _ = drifting(1000.0)
    assert timing(loud, "q.a").sub_deadline_ms == timing(quiet, "q.a").sub_deadline_ms


@pytest.mark.parametrize(
    ("per_tuple_us", "samples"),
    [
        (100.0, LEAST_SAMPLES),
        # Half as much again, and not more.
        (149.0, LEAST_SAMPLES),
        # Four times as much, and nothing beside the sub-deadline of more than 100 ms.
        (250.0, LEAST_SAMPLES),
        (1000.0, LEAST_SAMPLES - 1),
    ],
)
def test_no_new_plan_is_proposed_for_little(per_tuple_us: float, samples: int) -> None:
    cluster, _ = drifting(per_tuple_us, samples)
    assert proposals(cluster) == 0
    assert timing(cluster, "q.a").cost_ms == pytest.approx(3.125)
    assert DecisionSettings().drift == 0.5


def test_costs_that_a_secondary_measures_are_no_reason() -> None:
    cluster = running(query("q", {"a": "north"}, {"a": 200}, costs_us={"a": 100.0}))
    secondary = cluster.view().fragments["q.a"].record.secondary
    assert secondary is not None
    cluster.hosts[secondary.node].costs["a"] = costing(1000.0)
    cluster.settle()
    assert proposals(cluster) == 0


def test_measured_costs_decide_whether_the_next_query_fits() -> None:
    cluster = running(heavy("first", "north"))
    cluster.hosts["paris"].costs["first_out"] = costing(300.0)
    cluster.settle()
    assert timing(cluster, "first.first_out").cost_ms == pytest.approx(9.375)
    admit(cluster.view(), (), [heavy("second", "south")])


def test_a_decision_rests_on_the_costs_that_it_notes() -> None:
    cluster = running(heavy("first", "north"))
    cluster.hosts["paris"].costs["first_out"] = costing(300.0)
    cluster.hosts["paris"].obey()
    applied(cluster, heavy("second", "south"), streams=False)
    for write in decide(cluster.view(), cluster.now_us, DecisionSettings()).writes:
        cluster.write(write)
        cluster.check_invariants()
    assert timing(cluster, "first.first_out").cost_ms == pytest.approx(9.375)
    assert "second.second_out" in cluster.view().fragments
    assert decide(cluster.view(), cluster.now_us, DecisionSettings()).writes == ()


def late() -> ObedientCluster:
    """What comes at once takes the fragment on paris ten times as long as was thought."""
    cluster = running(heavy("first", "north"))
    cluster.hosts["paris"].costs["first_out"] = costing(30_000.0)
    cluster.settle()
    assert timing(cluster, "first.first_out").cost_ms > 900.0
    return cluster


def test_a_fragment_that_is_late_keeps_no_query_out_that_can_go_elsewhere() -> None:
    cluster = late()
    new = query("second", {"s": "south"}, {"s": 200})
    plan = admit(cluster.view(), (), [new]).plan
    assert [figures.query for figures in plan.queries] == ["first", "second"]
    (placed,) = (placed for placed in plan.placements if placed.query == "second")
    assert placed.primary != "paris"
    applied(cluster, new, streams=False)
    cluster.settle()
    assert cluster.view().fragments["second.s"].record.primary.node == placed.primary
    assert cluster.coordination.problems == ()


def test_nothing_is_placed_on_a_node_that_is_late() -> None:
    cluster = late()
    wanted = query("second", {"s": "south"}, {"s": 200}, primaries={"s": ("paris", "zurich")})
    plan = admit(cluster.view(), (), [wanted]).plan
    assert plan.placements[-1].primary == "zurich"
    with pytest.raises(Refused, match="Relieve paris of"):
        admit(cluster.view(), (), [heavy("second", "south")])


def test_what_runs_is_shown_as_it_is_whether_or_not_it_keeps_its_deadline() -> None:
    cluster = late()
    before = timing(cluster, "first.first_out")
    (placed,) = admit(cluster.view()).plan.placements
    record = cluster.view().fragments["first.first_out"].record
    assert record.secondary is not None
    assert (placed.primary, placed.secondary) == (record.primary.node, record.secondary.node)
    (figures,) = admit(cluster.view(), aircraft().streams, [heavy("first", "north")]).plan.queries
    assert (figures.deadline_ms, figures.bound_ms) == (200.0, 5000.0)
    assert timing(cluster, "first.first_out") == before


def test_work_elsewhere_and_nodes_that_are_late_are_no_part_of_the_problem() -> None:
    work = Admitted(name="old", cost_ms=5.0, deadline_ms=20.0)
    overload = Admitted(name="much", cost_ms=30.0, deadline_ms=20.0)
    asked = query("q", {"a": "north"}, {"a": 100})
    running = {"paris": (overload,), "lyon": (work,), "zurich": (work,)}
    posed = task(asked, {"a": 1.0}, "paris", "lyon", running=running).problem
    assert posed.operators[0].candidates == ("lyon",)
    assert {n.name: n.admitted for n in posed.nodes if n.admitted} == {"lyon": (work,)}
    # It may be the only one.
    posed = task(asked, {"a": 1.0}, "paris", running=running).problem
    assert posed.operators[0].candidates == ("paris",)
    assert {n.name: n.admitted for n in posed.nodes if n.admitted} == {"paris": (overload,)}


# Primaries that are told where to be


def test_primaries_are_where_their_owner_wants_them() -> None:
    for node in ("london", "zurich"):
        cluster = running(
            query("q", {"a": "north", "b": "a"}, {"b": 250}, primaries={"b": (node, "paris")})
        )
        view = cluster.view()
        assert view.fragments["q.b"].record.primary.node in (node, "paris")
        only = running(
            query("q", {"a": "north", "b": "a"}, {"b": 250}, primaries={"b": (node,)})
        ).view()
        assert only.fragments["q.b"].record.primary.node == node
        assert only.fragments["q.b"].record.secondary is not None


def test_primary_stays_where_it_was_taken_over() -> None:
    cluster = running(query("q", {"a": "north"}, {"a": 250}, primaries={"a": ("paris",)}))
    found = cluster.view().fragments["q.a"]
    cluster.take_over(found.record, found.version)
    cluster.kill("paris")
    cluster.settle()
    after = cluster.view().fragments["q.a"].record
    assert after.primary == found.record.secondary
    assert after.secondary is not None


@pytest.mark.parametrize(
    ("field", "value", "change"),
    [
        ("primaries", "aa", {"primaries": {"aa": ("paris",)}}),
        ("primaries.a", "pari", {"primaries": {"a": ("lyon", "pari")}}),
        ("primaries.a", "north-receiver", {"primaries": {"a": ("north-receiver",)}}),
        ("estimates", "aa", {"estimates": {"aa": Estimate()}}),
        ("outputs", "aa", {"deadlines_ms": {"aa": 10.0}}),
    ],
)
def test_unknown_names_are_refused(field: str, value: str, change: dict[str, object]) -> None:
    made = query("q", {"a": "north"}, {"a": 250})
    wrong = msgspec.structs.replace(made, record=msgspec.structs.replace(made.record, **change))
    with pytest.raises(InvalidInput) as caught:
        admit(ObedientCluster().view(), aircraft().streams, [wrong])
    error = caught.value
    assert (error.file, error.field, error.value) == ("query.yaml:1", f"Query q: {field}", value)
    assert error.remedy


def test_query_that_runs_is_applied_again_although_its_node_is_gone() -> None:
    made = query("q", {"a": "north"}, {"a": 250}, primaries={"a": ("paris", "lyon")})
    cluster = running(made)
    away = cluster.view().fragments["q.a"].record.primary.node
    found = cluster.view().fragments["q.a"]
    cluster.take_over(found.record, found.version)
    cluster.kill(away)
    cluster.settle()
    admit(cluster.view(), (), [made])


# When parts of the cluster are gone


def test_query_is_planned_although_one_that_it_shares_with_has_lost_its_input() -> None:
    cluster = running(
        query("first", {"a": "north"}, {"a": 250}),
        query("second", {"b": "a", "c": "south", "d": "b c"}, {"d": 250}),
    )
    cluster.kill("south-receiver")
    cluster.settle()
    applied(cluster, query("third", {"e": "a"}, {"e": 100}), streams=False)
    cluster.settle()
    assert "third.e" in cluster.view().fragments


def test_fragments_lost_together_start_over_one_after_the_other() -> None:
    cluster = running(
        query("first", {"a": "north"}, {"a": 250}, primaries={"a": ("paris",)}),
        query("second", {"b": "south"}, {"b": 250}, primaries={"b": ("paris",)}),
        query("third", {"c": "a b"}, {"c": 290}, primaries={"c": ("zurich",)}),
    )
    view = cluster.view()
    gone = {
        node.node
        for key in ("first.a", "second.b")
        for node in (view.fragments[key].record.primary, view.fragments[key].record.secondary)
        if node is not None
    }
    assert "zurich" not in gone
    for name in gone:
        cluster.restart(name)
    cluster.settle()
    assert cluster.history().count("state lost: first.a") == 1
    assert cluster.history().count("state lost: second.b") == 1
    cluster.check_invariants()


@pytest.mark.parametrize("latency_ms", [0.0, 4.0])
def test_primaries_of_the_printed_program_keep_deadlines_with_latencies(latency_ms: float) -> None:
    """Two operators that do not fit on one node."""
    pair = problem(
        [operator("p", 10, "in"), operator("q", 10, "in")],
        {"p.out": 18.0, "q.out": 18.0},
        latency_ms=latency_ms,
    )
    found = other_primaries(pair, as_printed=True)
    assert sorted(found.places.values()) == ["a", "b"]
    assert found.places == place_by_paper_model(pair).places
    for name, ms in found.sub_deadlines_ms.items():
        assert 10 <= ms <= 18 - latency_ms + 1e-6, name


def test_latencies_that_the_printed_program_does_not_know_may_make_it_fail() -> None:
    far = chain_of(10.0, 10.0, deadline_ms=100.0)
    far = replace(far, one_way_ms=1e3 * (1 - np.eye(2)))
    with pytest.raises(DeadlinesUnattainable):
        other_primaries(far, as_printed=True)
