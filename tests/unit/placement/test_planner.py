"""Plans for small queries over six European regions: choices, figures, repairs."""

from __future__ import annotations

import numpy as np
import pytest

from placement.errors import BoundUnattainable, NoNode
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import plan
from placement.records import Plan, Request
from placement.settings import Settings
from tests.unit.placement.europe import europe, idle, nodes_of, papers_own, planned, proximity


def test_operators_stand_where_their_data_is():
    """§4.4: filters next to their receivers; the join between them, towards the larger rate."""
    places = nodes_of(planned(settings=papers_own()))
    assert places["north_tracks"][0] == "west-europe"
    assert places["south_tracks"][0] == "france-south"
    assert places["alerts"][0] == "france-central"


def test_secondaries_stand_near_the_upstream_that_sends_most():
    """§4.5.2: the search starts at the upstream primary with the larger rate."""
    places = nodes_of(planned(settings=papers_own()))
    assert places["alerts"][1] == "west-europe"
    # Its own node is taken by the primary; next to the north receiver comes uk-south.
    assert places["north_tracks"][1] == "uk-south"


def test_the_exact_placer_counts_primaries_and_secondaries_together():
    """One filter: the paper takes the nearest node for the primary and leaves the rest for later.

    Half a millisecond from the receiver is west-europe; germany-west-central and uk-south are 6 ms
    from it, and 8.5 and 0.5 from the centre. Whichever replica is in west-europe, the other pays
    6 ms of the input, so the output decides: 0.5 ms of it instead of west-europe's 6.
    """
    links = (
        Link(source="N", target="filter", rate_bytes_s=1000, tuples_s=10),
        Link(source="filter", target="C", rate_bytes_s=100, tuples_s=1),
    )
    pins = (Operator(name="N", pinned="north"), Operator(name="C", pinned="centre"))
    graph = QueryGraph(name="q", operators=(*pins, Operator(name="filter")), links=links)
    ours, papers = planned(graph, settings=idle), planned(graph, settings=papers_own())
    assert nodes_of(papers)["filter"] == ("west-europe", "uk-south")
    assert nodes_of(ours)["filter"] == ("uk-south", "west-europe")
    assert papers.queries[0].network_usage == pytest.approx(0.5 + 0.6 + 6)
    assert ours.queries[0].network_usage == pytest.approx(6 + 0.05 + 0.5)


def test_the_exact_placer_saves_traffic():
    ours, papers = planned(settings=idle), planned(settings=papers_own())
    assert ours.queries[0].network_usage < papers.queries[0].network_usage


def test_load_spreads_operators():
    crowded = planned(proximity("p", "p."), proximity("q", "q."), settings=idle)
    spread = planned(proximity("p", "p."), proximity("q", "q."), settings=Settings(operator_load=1))

    def most(result: Plan) -> int:
        used = [node for pair in nodes_of(result).values() for node in pair]
        return max(used.count(node) for node in used)

    assert most(spread) < most(crowded)


def test_operators_with_little_input_do_not_pile_up_on_some_nodes():
    """Where no node is nearer than another, all run as many replicas, whatever their inputs."""
    graphs: list[QueryGraph] = []
    for q in "abcdefgh":
        chain = [f"{q}.source", *(f"{q}.{step}" for step in range(4))]
        operators = (Operator(name=chain[0], pinned="n0"), *(Operator(name=n) for n in chain[1:]))
        rates = (9000.0, 4000.0, 1000.0, 100.0)
        links = tuple(
            Link(source=source, target=target, rate_bytes_s=rate, tuples_s=1)
            for source, target, rate in zip(chain, chain[1:], rates, strict=False)
        )
        graphs.append(QueryGraph(name=q, operators=operators, links=links))
    view = NetworkView(nodes=tuple(Node(name=f"n{i}", position_ms=np.zeros(2)) for i in range(8)))
    requests = [Request(graph, 1e9, 1e9, 0.0) for graph in graphs]
    settings = Settings(operator_load=1)
    found = plan(requests, view, settings=settings, rng=np.random.default_rng(0))
    used = [node for placed in found.placements for node in (placed.primary, placed.secondary)]
    assert {used.count(node.name) for node in view.nodes} == {8}


def test_operators_of_a_query_count_while_it_is_placed():
    """A chain between two sites: by latency alone on one node, under load on two."""
    chain = QueryGraph(
        name="chain",
        operators=(
            Operator(name="S", pinned="centre"),
            Operator(name="a"),
            Operator(name="b"),
        ),
        links=(
            Link(source="S", target="a", rate_bytes_s=1000, tuples_s=10),
            Link(source="a", target="b", rate_bytes_s=1000, tuples_s=10),
        ),
    )
    together = nodes_of(planned(chain, settings=papers_own()))
    assert together["a"][0] == together["b"][0] == "uk-south"
    apart = nodes_of(planned(chain, settings=papers_own(operator_load=2)))
    assert apart["a"][0] == "uk-south" != apart["b"][0]


def test_secondaries_spread_under_load():
    """Three filters on one stream: by latency alone all stand by on one node."""
    names = ("a", "b", "c")
    fan = QueryGraph(
        name="fan",
        operators=(
            Operator(name="S", pinned="centre"),
            *(Operator(name=name) for name in names),
        ),
        links=tuple(
            Link(source="S", target=name, rate_bytes_s=1000, tuples_s=10) for name in names
        ),
    )
    keep: dict[str, tuple[str, str | None]] = dict.fromkeys(names, ("uk-south", None))
    together = nodes_of(planned(fan, keep=keep, settings=idle))
    assert {together[name][1] for name in names} == {"france-central"}
    apart = nodes_of(planned(fan, keep=keep, settings=Settings(operator_load=2)))
    assert len({apart[name][1] for name in names}) == 3


def test_what_runs_counts_for_queries_placed_before_it():
    running = {f"q.{name}": ("west-europe", "france-south") for name in ("north_tracks", "alerts")}
    busy = papers_own(operator_load=2)
    alone = nodes_of(planned(proximity("p", "p."), settings=busy))
    beside = nodes_of(
        planned(proximity("p", "p."), proximity("q", "q."), settings=busy, keep=running)
    )
    assert alone["p.north_tracks"][0] == "west-europe" != beside["p.north_tracks"][0]


def test_figures_add_up():
    result = planned()
    (figures,) = result.queries
    assert figures.query == "proximity"
    assert 0 < figures.latency_ms <= figures.deadline_ms == 300
    assert figures.path[0].startswith(("north @", "south @"))
    assert figures.path[-1] == "centre @ centre"
    assert 0 < figures.standby_usage < figures.network_usage
    assert figures.recovery_ms == max(p.recovery_ms for p in result.placements) <= 300
    for p in result.placements:
        parts = p.detection_ms + p.transfer_ms + p.reprocess_ms
        assert p.recovery_ms == pytest.approx(parts)
        assert len(p.point_ms) == 2


def test_the_replicas_are_in_different_failure_domains():
    south = {"france-south": "b", "switzerland-north": "b"}
    for p in planned(view=europe(domains=south), settings=idle).placements:
        assert (p.primary in south) != (p.secondary in south)


def test_primaries_leave_the_bound_attainable_in_another_failure_domain():
    """The only node of domain b is 12.5 ms from the north receiver.

    Within 10 ms no secondary can be there, so the primary is.
    """
    view = europe(domains={"france-south": "b"})
    places = nodes_of(planned(view=view, bound_ms=160, settings=idle))
    assert places["north_tracks"] == ("france-south", "west-europe")


def test_the_own_failure_domain_does_not_serve():
    """What runs in west-europe stays there, and then only france-south is in another domain."""
    view = europe(domains={"france-south": "b"})
    keep = {"north_tracks": ("west-europe", "uk-south")}
    places = nodes_of(planned(view=view, bound_ms=170, settings=idle, keep=keep))
    assert places["north_tracks"] == ("west-europe", "france-south")
    with pytest.raises(BoundUnattainable) as raised:
        planned(view=view, bound_ms=160, settings=idle, keep=keep)
    assert raised.value.best_node == "france-south"
    assert raised.value.best_ms == pytest.approx(150 + 12.5)


def test_the_paper_knows_no_failure_domains():
    view = europe(domains={"france-south": "b"})
    places = nodes_of(planned(view=view, bound_ms=170, settings=papers_own()))
    assert places["north_tracks"] == ("west-europe", "uk-south")


def test_operators_that_die_together_are_placed_apart_if_the_bound_asks_for_it():
    """Both on p, b's secondary waits for a's: 5 ms to q, and 10 more from there to r.

    On q there is room for one operator only, so b's secondary cannot be there too. What a sends
    to the site as well keeps its primary there.
    """
    chain = QueryGraph(
        name="chain",
        operators=(
            Operator(name="S", pinned="site"),
            *(Operator(name=name, cost_us=500) for name in "ab"),
            *(Operator(name=name, pinned="site") for name in "TU"),
        ),
        links=tuple(
            Link(source=pair[0], target=pair[1], rate_bytes_s=1000, tuples_s=1000)
            for pair in ("Sa", "ab", "bT", "aU")
        ),
    )
    hosts = (("p", 0.0, 1.0), ("q", 10.0, 0.5), ("r", -10.0, 0.5))
    view = NetworkView(
        nodes=(
            Node(name="site", position_ms=np.zeros(1), hosts_operators=False),
            *(
                Node(name=name, position_ms=np.array([x]), capacity_cores=cores)
                for name, x, cores in hosts
            ),
        )
    )
    together = planned(chain, view=view, settings=idle, bound_ms=150 + 15)
    assert nodes_of(together) == {"a": ("p", "q"), "b": ("p", "r")}
    assert together.queries[0].recovery_ms == 150 + 15
    apart = planned(chain, view=view, settings=idle, bound_ms=150 + 14)
    places = nodes_of(apart)
    assert places["a"][0] != places["b"][0]
    assert apart.queries[0].recovery_ms <= 150 + 14


def test_operators_share_a_node_as_far_as_its_capacity_goes():
    """Each filter needs 0.6 cores for 1000 tuples/s; nodes have one."""
    names = ("a", "b", "c")
    fan = QueryGraph(
        name="fan",
        operators=(
            Operator(name="S", pinned="centre"),
            *(Operator(name=name, cost_us=600) for name in names),
        ),
        links=tuple(
            Link(source="S", target=name, rate_bytes_s=1000, tuples_s=1000) for name in names
        ),
    )
    places = nodes_of(planned(fan, view=europe(capacity_cores=1), settings=idle))
    used = [node for name in names for node in places[name]]
    assert len(set(used)) == len(used) == 6
    with pytest.raises(NoNode, match=r"query fan, operator .*0\.6 cores left"):
        planned(fan, view=europe(capacity_cores=1, without=("uk-south",)), settings=idle)


def test_what_runs_stays():
    keep = {
        "north_tracks": ("germany-west-central", "west-europe"),
        "alerts": ("uk-south", "switzerland-north"),
    }
    places = nodes_of(planned(keep=keep))
    assert places | keep == places


def test_a_dead_primary_is_followed_by_its_secondary():
    before = nodes_of(planned())
    dead = before["alerts"][0]
    after = nodes_of(planned(keep=before, view=europe(without=(dead,))))
    assert after["alerts"][0] == before["alerts"][1]
    assert all(dead not in pair and len(set(pair)) == 2 for pair in after.values())
    for operator, pair in before.items():
        if dead not in pair:
            assert after[operator] == pair


def test_a_kept_secondary_that_breaks_the_bound_moves():
    keep = {"north_tracks": ("west-europe", "france-south")}
    assert nodes_of(planned(keep=keep, bound_ms=160))["north_tracks"][1] != "france-south"


def tight_deadline() -> float:
    """Just less than what the nearest nodes take."""
    return planned(settings=idle).queries[0].latency_ms - 0.1


def test_a_missed_deadline_is_repaired():
    deadline_ms = tight_deadline()
    (figures,) = planned(deadline_ms=deadline_ms, settings=idle).queries
    assert figures.latency_ms <= deadline_ms


def test_running_operators_move_only_if_nothing_else_meets_the_deadline():
    far = {"per_minute": ("switzerland-north", "germany-west-central")}
    latency_ms = planned(keep=far, settings=idle).queries[0].latency_ms
    kept = planned(keep=far, deadline_ms=latency_ms - 0.1, settings=idle)
    assert nodes_of(kept)["per_minute"] == far["per_minute"]
    moved = planned(keep=far, deadline_ms=tight_deadline(), settings=idle)
    assert nodes_of(moved)["per_minute"][0] != "switzerland-north"
