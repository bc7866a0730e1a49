"""Rebalancing on networks small enough to reckon by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placement.errors import GraphError, RunningError, SettingsError, Stranded
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.rebalancing.moves import Move, MoveKind, Reason, RebalanceSettings, Rebalancing
from placement.rebalancing.rebalance import rebalance
from placement.records import Request
from placement.settings import Settings
from topology.cpu import Linear, Power

IDLE = Settings(cpu=Linear(ms_per_core=0))
"""Placement by latency alone."""

EAGER = RebalanceSettings(hysteresis_share=0)
"""Anything that gains more than its price is worth it."""

AT_MS = {"a": 0.0, "b": 20.0, "c": 40.0, "d": 60.0}
"""Four nodes on a line, 10 ms one way from each to the next."""


def line(
    *, domains: Mapping[str, str] | None = None, nodes: str = "abcd", **changed: Node
) -> NetworkView:
    """The line, with a source next to node a and a sink next to node d."""
    hosts = [
        Node(name=name, position_ms=np.array([AT_MS[name]]), domain=(domains or {}).get(name, ""))
        for name in nodes
    ]
    sites = [
        Node(name="source", position_ms=np.array([0.0]), hosts_operators=False),
        Node(name="sink", position_ms=np.array([60.0]), hosts_operators=False),
    ]
    return NetworkView(nodes=(*(changed.get(node.name, node) for node in hosts), *sites))


def triangle() -> NetworkView:
    """Nodes a and c of the line, and x, equally far from both, in a failure domain of its own.

    So secondaries stay on x, and pull neither way.
    """
    a, _, c, _, source, sink = line(domains={"a": "west", "c": "west"}).nodes
    flat = [replace(n, position_ms=np.array([n.position_ms[0], 0.0])) for n in (a, c, source)]
    x = Node(name="x", position_ms=np.array([20.0, 100.0]), domain="east")
    return NetworkView(nodes=(*flat, x, replace(sink, position_ms=np.array([40.0, 0.0]))))


def at(name: str, **more: float) -> Node:
    return replace(Node(name=name, position_ms=np.array([AT_MS[name]])), **more)


def chain(
    *rates: float, name: str = "q", tuples_s: float = 100, cost_us: float = 100
) -> QueryGraph:
    """Source → operators → sink, with the data rate of each link."""
    operators = [f"{name}.{i}" for i in range(1, len(rates))]
    ends = [f"{name}.source", *operators, f"{name}.sink"]
    return QueryGraph(
        name=name,
        operators=(
            Operator(name=ends[0], pinned="source"),
            *(Operator(name=operator, cost_us=cost_us) for operator in operators),
            Operator(name=ends[-1], pinned="sink"),
        ),
        links=tuple(
            Link(source=source, target=target, rate_bytes_s=rate, tuples_s=tuples_s)
            for source, target, rate in zip(ends, ends[1:], rates, strict=False)
        ),
    )


def held_together() -> QueryGraph:
    """A chain of two with 1 MB/s between them, and a way past the second one."""
    graph = chain(100_000, 1_000_000, 10_000)
    bypass = Link(source="q.1", target="q.sink", rate_bytes_s=50_000, tuples_s=10)
    return replace(graph, links=(*graph.links, bypass))


FILTER = chain(100_000, 1_000)
"""One operator that lets little through: it belongs to its source."""


def rebalanced(
    *graphs: QueryGraph,
    running: Mapping[str, tuple[str, str]],
    view: NetworkView | None = None,
    state_bytes: Mapping[str, float] | None = None,
    deadline_ms: float = 1_000,
    bound_ms: float = 1_000,
    settings: Settings = IDLE,
    rebalancing: RebalanceSettings | None = None,
) -> Rebalancing:
    return rebalance(
        [Request(graph, deadline_ms, bound_ms, 20) for graph in graphs],
        running,
        view or line(),
        state_bytes=state_bytes or {},
        settings=settings,
        rebalancing=rebalancing,
    )


def about(value: float) -> Any:
    """The figure but for rounding, where a record wants a number."""
    return pytest.approx(value)


def told(plan: Rebalancing) -> list[tuple[str, MoveKind, str, str]]:
    return [(move.operator, move.kind, move.source, move.target) for move in plan.moves]


def test_a_primary_goes_where_its_data_is():
    plan = rebalanced(
        FILTER,
        running={"q.1": ("c", "b")},
        state_bytes={"q.1": 6e6},
        rebalancing=RebalanceSettings(max_moves=1),
    )
    (change,) = plan.changes
    assert change.moves == (
        Move(
            query="q",
            operator="q.1",
            kind=MoveKind.PRIMARY,
            source="c",
            target="a",
            bytes_to_ship=6e6,
            # At 10 MB/s, and 20 ms on the way.
            seconds=about(0.62),
            # In: 100 kB/s · 20 ms less; out: 1 kB/s · 20 ms more.
            gain=about(2000 - 20),
            # 6 MB in 600 s, 20 ms far; its input comes from next door.
            price=about(10_000 * 0.02),
            cost_after=about(1030),
        ),
    )
    assert plan.cost_before == pytest.approx(2000 + 10 + 1000)
    assert plan.cost_after == pytest.approx(1030)
    assert plan.places == {"q.1": ("a", "b")}
    assert change.hysteresis == pytest.approx(0.05 * plan.cost_before)
    net = change.gain - change.price - change.uncertainty - change.hysteresis
    assert net == pytest.approx(1980 - 200 - 0.05 * 3010)


def test_a_move_pays_for_what_its_third_replica_takes_in():
    """Input for 1.01 s of 600 s: 100 kB/s · 10 ms from the source to node b."""
    plan = rebalanced(
        FILTER,
        running={"q.1": ("c", "d")},
        view=line(nodes="bcd"),
        state_bytes={"q.1": 1e6},
        rebalancing=RebalanceSettings(bandwidth_bytes_s=1e6, max_moves=1),
    )
    # Of the two replicas the secondary gains more: it has 20 ms to come nearer.
    (move,) = plan.moves
    assert (move.kind, move.target) == (MoveKind.SECONDARY, "b")
    assert move.seconds == pytest.approx(1.01)
    # Its peer replica, the primary on c, ships the state 10 ms far.
    assert move.price == pytest.approx((1e6 * 0.01 + 1000 * 1.01) / 600)


def flowing(*nodes: str) -> QueryGraph:
    """The filter, whose input flows to some nodes because others read it there."""
    source, *others = FILTER.operators
    return replace(FILTER, operators=(replace(source, flows_to=frozenset(nodes)), *others))


def test_a_primary_stays_where_its_input_flows_anyway():
    """The planner has put it there for that. To b, 100 kB/s would travel 10 ms."""
    for far in ("b", "c", "d"):
        plan = rebalanced(flowing("d"), running={"q.1": ("d", far if far != "d" else "a")})
        assert not [move for move in plan.moves if move.source == "d"]
    plan = rebalanced(flowing("d"), running={"q.1": ("d", "a")})
    assert plan.changes == ()
    assert plan.cost_before == pytest.approx(0)
    plan = rebalanced(flowing("d"), running={"q.1": ("c", "a")})
    assert told(plan) == [("q.1", MoveKind.PRIMARY, "c", "d")]


def test_a_primary_goes_only_where_its_manifest_allows_it():
    allowed = replace(
        FILTER,
        operators=tuple(
            replace(each, allowed=("d",)) if each.pinned is None else each
            for each in FILTER.operators
        ),
    )
    plan = rebalanced(allowed, running={"q.1": ("d", "a")})
    assert plan.changes == ()
    assert plan.rejected[Reason.PRIMARIES] > 0
    assert any("may only be on d" in str(each.obstacle) for each in plan.dearest)


def test_crossings_have_their_price():
    """Source's neighbour a is cheapest for both, but together they may stay on b."""
    graph = chain(1_000, 100_000, 1_000)
    running = {"q.1": ("b", "c"), "q.2": ("b", "c")}
    free = rebalanced(graph, running=running, settings=replace(IDLE, crossing_ms=0))
    priced = rebalanced(graph, running=running, settings=replace(IDLE, crossing_ms=5))
    # Source, two operators, sink: three links, of which the middle one joins no two nodes.
    assert priced.cost_before - free.cost_before == pytest.approx((1_000 + 1_000) * 0.005)


def test_a_secondary_goes_where_its_data_is():
    plan = rebalanced(FILTER, running={"q.1": ("a", "d")})
    assert told(plan) == [("q.1", MoveKind.SECONDARY, "d", "b")]
    assert plan.moves[0].gain == pytest.approx(100_000 * 0.02)


def test_roles_swap_when_only_the_output_matters():
    """Both are fed alike; the primary's place decides how far the output goes."""
    graph = chain(100_000, 50_000)
    plan = rebalanced(
        graph, running={"q.1": ("a", "b")}, view=line(nodes="ab"), state_bytes={"q.1": 6e6}
    )
    assert told(plan) == [("q.1", MoveKind.SWAP, "a", "b")]
    (move,) = plan.moves
    assert (move.bytes_to_ship, move.price) == (0, 0)
    assert move.seconds == pytest.approx(0.01)
    assert move.gain == pytest.approx(50_000 * 0.01)


def test_operators_that_hold_each_other_move_together():
    """1 MB/s between them: neither leaves alone."""
    graph = held_together()
    running = {"q.1": ("c", "x"), "q.2": ("c", "x")}
    plan = rebalanced(graph, running=running, view=triangle(), rebalancing=EAGER)
    assert told(plan) == [
        ("q.1", MoveKind.PRIMARY, "c", "a"),
        ("q.2", MoveKind.PRIMARY, "c", "a"),
    ]
    (change,) = plan.changes
    first, second = change.moves
    assert first.gain == pytest.approx(2_000 - 1_000 - 20_000)
    assert second.gain == pytest.approx(20_000 - 200)
    assert first.cost_after == pytest.approx(plan.cost_before + 19_000)
    assert change.gain == pytest.approx(800)
    assert plan.cost_after == pytest.approx(plan.cost_before - 800)


def test_a_group_of_which_one_stands_by_on_the_target_swaps_that_one():
    graph = chain(1_000, 1_000_000, 100_000)
    running = {"q.1": ("a", "c"), "q.2": ("a", "x")}
    plan = rebalanced(graph, running=running, view=triangle(), rebalancing=EAGER)
    assert told(plan) == [("q.1", MoveKind.SWAP, "a", "c"), ("q.2", MoveKind.PRIMARY, "a", "c")]
    assert plan.changes[0].gain == pytest.approx(2_000)


def test_a_group_moves_in_an_order_that_keeps_the_deadline():
    """Towards the sink: with the first operator ahead, data goes there, back and there again."""
    graph = chain(1_000, 1_000_000, 100_000)
    running = {"q.1": ("b", "c"), "q.2": ("b", "c")}
    # 10 ms and three hops of 2 ms each, and 0.2 ms of work; 70 ms the wrong way round.
    plan = rebalanced(graph, running=running, deadline_ms=37)
    assert told(plan) == [
        ("q.2", MoveKind.PRIMARY, "b", "d"),
        ("q.1", MoveKind.PRIMARY, "b", "d"),
    ]


def test_a_group_stays_if_it_would_miss_the_deadline_on_the_way():
    """Nodes a and c are far from each other, though source and sink are near to both."""
    rtt_ms = {("a", "c"): 400.0, ("source", "c"): 40.0, ("sink", "a"): 0.0, ("sink", "c"): 0.0}
    view = NetworkView(nodes=triangle().nodes, rtt_ms=rtt_ms)
    graph = held_together()
    running = {"q.1": ("c", "x"), "q.2": ("c", "x")}
    plan = rebalanced(graph, running=running, view=view, rebalancing=EAGER)
    assert len(plan.moves) == 2
    plan = rebalanced(graph, running=running, view=view, rebalancing=EAGER, deadline_ms=150)
    assert plan.changes == ()
    assert plan.rejected[Reason.NO_LEGAL_ORDER] == 1


def test_a_pair_turns_round_between_two_failure_domains():
    """The primary wants to the domain of its secondary: they swap, then it goes on."""
    domains = {"a": "west", "b": "east", "c": "west", "d": "east"}
    graph = chain(1_000, 100_000)
    plan = rebalanced(graph, running={"q.1": ("a", "b")}, view=line(domains=domains))
    assert told(plan) == [("q.1", MoveKind.SWAP, "a", "b"), ("q.1", MoveKind.PRIMARY, "b", "d")]
    (change,) = plan.changes
    assert [move.gain for move in change.moves] == [pytest.approx(1_000), pytest.approx(1_980)]


def test_replicas_in_one_failure_domain_may_stay_in_it_but_not_come_into_it():
    apart = {"a": "west", "b": "west", "c": "east", "d": "east"}
    plan = rebalanced(FILTER, running={"q.1": ("a", "d")}, view=line(domains=apart))
    # Node b is nearer, but in the primary's domain.
    assert told(plan) == [("q.1", MoveKind.SECONDARY, "d", "c")]
    assert plan.rejected[Reason.FAILURE_DOMAIN] > 0
    together = apart | {"d": "west"}
    plan = rebalanced(FILTER, running={"q.1": ("a", "d")}, view=line(domains=together))
    assert plan.places == {"q.1": ("a", "b")}


def test_a_full_node_takes_nothing():
    """One core there, of which 95 % would be needed twice."""
    graphs = [chain(100_000, 1_000, name=name, cost_us=9_500) for name in ("p", "q")]
    view = line(a=at("a", capacity_cores=1.0))
    running = {"p.1": ("a", "b"), "q.1": ("c", "b")}
    plan = rebalanced(*graphs, running=running, view=view)
    assert plan.changes == ()
    assert plan.rejected[Reason.CAPACITY] > 0
    roomy = line(a=at("a", capacity_cores=2.0))
    assert rebalanced(*graphs, running=running, view=roomy).places["q.1"] == ("a", "b")


@pytest.mark.parametrize(("bound_ms", "node"), [(51, "b"), (49, "c"), (30, "c")])
def test_a_secondary_stays_where_the_bound_keeps_it(bound_ms: float, node: str):
    """Most data comes from the source, so b is cheaper, but it is 30 ms from the other one.

    From c it is 20 ms to both, and 20 pass until the death is noticed. Where the bound is broken
    already, nothing may become worse.
    """
    other = Node(name="other", position_ms=np.array([80.0]), hosts_operators=False)
    view = NetworkView(nodes=(*line().nodes, other))
    graph = QueryGraph(
        name="q",
        operators=(
            Operator(name="big", pinned="source"),
            Operator(name="small", pinned="other"),
            Operator(name="q.1"),
        ),
        links=(
            Link(source="big", target="q.1", rate_bytes_s=100_000, tuples_s=1_000),
            Link(source="small", target="q.1", rate_bytes_s=10, tuples_s=1),
        ),
    )
    plan = rebalanced(graph, running={"q.1": ("a", "c")}, view=view, bound_ms=bound_ms)
    assert plan.places == {"q.1": ("a", node)}
    assert (Reason.RECOVERY_BOUND in plan.rejected) == (node == "c")


def test_what_the_network_broke_does_not_stand_in_the_way():
    """50 ms of recovery where 30 are allowed: planning mends that, and moving makes it better."""
    graph = chain(1_000, 1_000_000)
    plan = rebalanced(graph, running={"q.1": ("c", "d")}, bound_ms=30)
    assert told(plan) == [("q.1", MoveKind.SWAP, "c", "d"), ("q.1", MoveKind.SECONDARY, "c", "a")]


def test_the_budget_goes_to_what_gains_most():
    graphs = [chain(rate, 1_000, name=name) for name, rate in (("p", 100_000), ("q", 200_000))]
    running = {"p.1": ("c", "b"), "q.1": ("c", "b")}
    one = rebalanced(*graphs, running=running, rebalancing=RebalanceSettings(max_moves=1))
    assert told(one) == [("q.1", MoveKind.PRIMARY, "c", "a")]
    assert one.rejected[Reason.BUDGET] > 0
    sizes = {"p.1": 1e6, "q.1": 3e6}
    small = rebalanced(
        *graphs,
        running=running,
        state_bytes=sizes,
        rebalancing=RebalanceSettings(max_bytes=2e6),
    )
    # The greater does not fit.
    assert small.places["q.1"] == running["q.1"]
    assert "a" in small.places["p.1"]
    both = rebalanced(*graphs, running=running, state_bytes=sizes)
    assert all("a" in pair for pair in both.places.values())
    none = rebalanced(*graphs, running=running, rebalancing=RebalanceSettings(max_moves=0))
    assert none.changes == ()


@pytest.mark.parametrize(
    "rebalancing",
    [
        RebalanceSettings(hysteresis_share=0.7),
        RebalanceSettings(hysteresis_bytes=2_000),
        # 60 MB within 6 s, 20 ms far: 200 kB.
        RebalanceSettings(horizon_s=6),
    ],
)
def test_what_gains_too_little_stays(rebalancing: RebalanceSettings):
    running = {"q.1": ("c", "b")}
    plan = rebalanced(FILTER, running=running, state_bytes={"q.1": 6e7}, rebalancing=rebalancing)
    assert plan.changes == ()
    assert plan.cost_after == plan.cost_before
    assert plan.places == running
    assert plan.rejected[Reason.MARGIN] > 0


def test_uncertain_latencies_move_nothing_and_measured_ones_do():
    """1980 bytes to be gained; the source's link to c alone is 100 kB/s · 20 ms uncertain."""
    vague = NetworkView(nodes=tuple(replace(node, error_ms=10) for node in line().nodes))
    running = {"q.1": ("c", "b")}
    plan = rebalanced(FILTER, running=running, view=vague)
    assert plan.changes == ()
    assert plan.rejected[Reason.MARGIN] > 0
    measured = {
        (x, y): abs(AT_MS[x] - at_ms)
        for x in AT_MS
        for y, at_ms in (("source", 0.0), ("sink", 60.0))
    }
    known = NetworkView(nodes=vague.nodes, rtt_ms=measured)
    plan = rebalanced(FILTER, running=running, view=known)
    assert told(plan) == [("q.1", MoveKind.PRIMARY, "c", "a")]
    assert plan.changes[0].uncertainty == 0


def test_uncertainty_counts_the_links_given_up_and_those_taken_on():
    errors = {"c": 1.0, "a": 2.0, "source": 4.0, "sink": 8.0}
    view = NetworkView(
        nodes=tuple(replace(n, error_ms=errors.get(n.name, 0.0)) for n in line().nodes)
    )
    plan = rebalanced(FILTER, running={"q.1": ("c", "b")}, view=view)
    (change,) = plan.changes
    assert change.uncertainty == pytest.approx(100_000 * (5 + 6) / 1e3 + 1_000 * (9 + 10) / 1e3)


def test_full_nodes_disperse_under_a_load_price():
    """Six filters next to the source: together so expensive there that some go 10 ms farther."""
    graphs = [chain(1_000, 10, name=f"q{i}") for i in range(6)]
    running = {f"q{i}.1": ("a", "b") for i in range(6)}
    busy = Settings(cpu=Power(ms_per_core=10, exponent=2), operator_load=0.5)
    plan = rebalanced(*graphs, running=running, settings=busy)
    replicas = [node for pair in plan.places.values() for node in pair]
    assert {replicas.count(node) for node in "abcd"} != {6, 0}
    assert max(replicas.count(node) for node in "abcd") < 6
    assert plan.cost_after < plan.cost_before


def test_measured_load_is_not_run_away_from():
    """Three nodes side by side: what one measures is the operator itself, and would come along."""
    here_ms = np.array([0.0])
    busy = replace(at("a"), cpu_ms=80.0)
    view = line(
        nodes="abc",
        a=busy,
        b=replace(at("b"), position_ms=here_ms),
        c=replace(at("c"), position_ms=here_ms),
    )
    assert rebalanced(FILTER, running={"q.1": ("a", "b")}, view=view).changes == ()


def test_measured_load_of_others_is():
    """Nine operators outside the plan share the node: most of the load is theirs."""
    view = line(nodes="abc", a=replace(at("a", cpu_ms=80.0), operators=9))
    plan = rebalanced(chain(1_000, 10), running={"q.1": ("a", "c")}, view=view)
    assert told(plan) == [("q.1", MoveKind.PRIMARY, "a", "b")]


def test_few_candidates_find_the_same():
    running = {"q.1": ("c", "d")}
    plan = rebalanced(FILTER, running=running)
    few = rebalanced(FILTER, running=running, settings=replace(IDLE, exact_hosts=1, candidates=2))
    assert few.places == plan.places == {"q.1": ("b", "a")}


def test_nothing_runs_and_pinned_queries_cost_what_they_cost():
    assert rebalanced(running={}).changes == ()
    relay = QueryGraph(
        name="relay",
        operators=(Operator(name="S", pinned="source"), Operator(name="D", pinned="sink")),
        links=(Link(source="S", target="D", rate_bytes_s=1_000, tuples_s=10),),
    )
    plan = rebalanced(relay, running={})
    assert plan.changes == ()
    assert plan.cost_before == plan.cost_after == pytest.approx(30)


def test_what_lost_its_node_is_the_planners():
    for running, replica, node in (
        ({"q.1": ("x", "b")}, "primary", "x"),
        ({"q.1": ("a", "sink")}, "secondary", "sink"),
    ):
        with pytest.raises(Stranded, match="gone or takes no operators; plan first") as raised:
            rebalanced(FILTER, running=running)
        assert (raised.value.operator, raised.value.replica, raised.value.node) == (
            "q.1",
            replica,
            node,
        )


def test_what_runs_must_fit_the_queries():
    with pytest.raises(RunningError, match=r"operator q.1: query q needs it and it does not run"):
        rebalanced(FILTER, running={})
    with pytest.raises(RunningError, match=r"operator q.2: runs, but is in none of the queries"):
        rebalanced(FILTER, running={"q.1": ("a", "b"), "q.2": ("a", "b")})
    with pytest.raises(RunningError, match="its secondary is on its primary's node a"):
        rebalanced(FILTER, running={"q.1": ("a", "a")})
    for size in (-1.0, math.nan, math.inf):
        with pytest.raises(RunningError, match=f"operator q.1: a state of {size} bytes"):
            rebalanced(FILTER, running={"q.1": ("a", "b")}, state_bytes={"q.1": size})
    with pytest.raises(RunningError, match=r"operator q.7: has a size of state given"):
        rebalanced(FILTER, running={"q.1": ("a", "b")}, state_bytes={"q.7": 1.0})


def test_queries_must_fit_each_other_and_the_network():
    running = {"q.1": ("a", "b")}
    with pytest.raises(GraphError, match="is given to two queries"):
        rebalanced(FILTER, FILTER, running=running)
    with pytest.raises(GraphError, match=r"operator q.1: is placed with query q already"):
        rebalanced(FILTER, replace(FILTER, name="r"), running=running)
    with pytest.raises(GraphError, match="recovery_bound_ms: -1 is not a number of ms"):
        rebalanced(FILTER, running=running, bound_ms=-1)
    with pytest.raises(GraphError, match=r"operator q.source: cannot be pinned: no node is named"):
        rebalanced(FILTER, running=running, view=NetworkView(nodes=line().nodes[:4]))


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("hysteresis_share", -0.1),
        ("hysteresis_bytes", math.inf),
        ("horizon_s", 0),
        ("bandwidth_bytes_s", math.nan),
        ("max_bytes", math.nan),
        ("max_moves", -1),
    ],
)
def test_settings_are_checked(setting: str, value: float):
    given: dict[str, Any] = {setting: value}
    with pytest.raises(SettingsError, match=f"{setting} {value}"):
        RebalanceSettings(**given)
