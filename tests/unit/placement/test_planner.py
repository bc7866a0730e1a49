"""Plans for small queries over six European regions: choices, figures, repairs, refusals."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest

from placement.errors import (
    BoundUnattainable,
    DeadlineUnattainable,
    GraphError,
    NoNode,
    SettingsError,
)
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.planner import Keep, plan
from placement.records import Plan, Request
from placement.settings import Settings

regions = (
    "france-central",
    "france-south",
    "germany-west-central",
    "switzerland-north",
    "uk-south",
    "west-europe",
)
RTT_MS = [
    [0, 15, 12, 17, 11, 13],
    [15, 0, 20, 14, 20, 25],
    [12, 20, 0, 9, 17, 12],
    [17, 14, 9, 0, 23, 18],
    [11, 20, 17, 23, 0, 12],
    [13, 25, 12, 18, 12, 0],
]
"""Round trips published for Azure, ms."""

POSITIONS_MS = [(0.0, 2.0), (0.0, -13.0), (9.0, -2.0), (12.0, -11.0), (-6.0, 11.0), (5.0, 13.0)]
"""Coordinates near these round trips."""


def europe(
    *, domains: dict[str, str] | None = None, without: tuple[str, ...] = (), sites: bool = True
) -> NetworkView:
    """A node in each region, and three sites (1 ms away from the node of their region)."""
    at: dict[str, tuple[float, float]] = dict(zip(regions, POSITIONS_MS, strict=True))
    nodes = [
        Node(name=name, position_ms=np.array(at[name]), domain=(domains or {}).get(name, "app"))
        for name in regions
        if name not in without
    ]
    homes = {"north": "west-europe", "south": "france-south", "centre": "uk-south"}
    nodes += [
        Node(name=site, position_ms=np.array(at[region]), hosts_operators=False)
        for site, region in homes.items()
        if sites
    ]
    rtt_ms: dict[tuple[str, str], float] = {}
    for x, y in combinations((*regions, *homes), 2):
        i, j = (regions.index(homes.get(name, name)) for name in (x, y))
        rtt_ms[x, y] = float(RTT_MS[i][j]) if i != j else 1.0
    return NetworkView(nodes=tuple(nodes), rtt_ms=rtt_ms)


def proximity(name: str = "proximity", prefix: str = "") -> QueryGraph:
    """Two filters, a join and an aggregate; alerts and their count to the control centre."""
    operators = [
        Operator(name=f"{prefix}north", pinned="north"),
        Operator(name=f"{prefix}south", pinned="south"),
        Operator(name=f"{prefix}centre", pinned="centre"),
    ]
    operators += [
        Operator(name=f"{prefix}{operator}", cost_us=20)
        for operator in ("north_tracks", "south_tracks", "alerts", "per_minute")
    ]
    links = [
        ("north", "north_tracks", 150_000, 1500),
        ("south", "south_tracks", 100_000, 1000),
        ("north_tracks", "alerts", 75_000, 750),
        ("south_tracks", "alerts", 50_000, 500),
        ("alerts", "per_minute", 500, 5),
        ("alerts", "centre", 500, 5),
        ("per_minute", "centre", 10, 0.1),
    ]
    return QueryGraph(
        name=name,
        operators=tuple(operators),
        links=tuple(
            Link(source=prefix + source, target=prefix + target, rate_bytes_s=rate, tuples_s=tuples)
            for source, target, rate, tuples in links
        ),
    )


def planned(
    *graphs: QueryGraph,
    view: NetworkView | None = None,
    deadline_ms: float = 300,
    bound_ms: float = 300,
    detection_ms: float = 150,
    keep: Keep | None = None,
    settings: Settings | None = None,
) -> Plan:
    requests = [Request(g, deadline_ms, bound_ms, detection_ms) for g in graphs or (proximity(),)]
    rng = np.random.default_rng(7)
    return plan(requests, view or europe(), keep=keep, settings=settings, rng=rng)


def nodes_of(result: Plan) -> dict[str, tuple[str, str]]:
    return {p.operator: (p.primary, p.secondary) for p in result.placements}


idle = Settings(operator_load=0)
"""Placement by latency alone."""


def test_operators_stand_where_their_data_is():
    """§4.4: filters next to their receivers; the join between them, towards the larger rate."""
    places = nodes_of(planned(settings=idle))
    assert places["north_tracks"][0] == "west-europe"
    assert places["south_tracks"][0] == "france-south"
    assert places["alerts"][0] == "france-central"


def test_secondaries_stand_near_the_upstream_that_sends_most():
    """§4.5.2: the search starts at the upstream primary with the larger rate."""
    places = nodes_of(planned(settings=idle))
    assert places["alerts"][1] == "west-europe"
    # Its own node is taken by the primary; next to the north receiver comes uk-south.
    assert places["north_tracks"][1] == "uk-south"


def test_load_spreads_operators():
    crowded = planned(proximity("p", "p."), proximity("q", "q."), settings=idle)
    spread = planned(proximity("p", "p."), proximity("q", "q."), settings=Settings(operator_load=1))

    def most(result: Plan) -> int:
        used = [node for pair in nodes_of(result).values() for node in pair]
        return max(used.count(node) for node in used)

    assert most(spread) < most(crowded)


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
    together = nodes_of(planned(chain, settings=idle))
    assert together["a"][0] == together["b"][0] == "uk-south"
    apart = nodes_of(planned(chain, settings=Settings(operator_load=2)))
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
    busy = Settings(operator_load=2)
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


def test_another_failure_domain_is_preferred():
    south = {"france-south": "b", "switzerland-north": "b"}
    for p in planned(view=europe(domains=south), settings=idle).placements:
        assert (p.primary in south) != (p.secondary in south)


def test_the_own_failure_domain_serves_where_the_other_breaks_the_bound():
    """From west-europe, france-south is 12.5 ms away and all else at most 9."""
    view = europe(domains={"france-south": "b"})
    places = nodes_of(planned(view=view, bound_ms=160, settings=idle))
    assert places["north_tracks"] == ("west-europe", "uk-south")
    places = nodes_of(planned(view=view, bound_ms=170, settings=idle))
    assert places["north_tracks"] == ("west-europe", "france-south")


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


def test_an_unattainable_deadline_says_what_is_best():
    with pytest.raises(DeadlineUnattainable) as raised:
        planned(deadline_ms=15)
    error = raised.value
    assert error.best_ms > 15
    assert error.path[-1] == "centre @ centre"
    assert "query proximity: no placement tried delivers within 15 ms; the best" in str(error)
    # The south receiver alone is 10 ms from the centre, and four hops cost 2 ms each.
    assert planned(deadline_ms=error.best_ms).queries[0].latency_ms == pytest.approx(error.best_ms)


def test_an_unattainable_bound_says_what_is_best():
    with pytest.raises(BoundUnattainable) as raised:
        planned(bound_ms=155, settings=idle)
    error = raised.value
    assert error.operator == "north_tracks"
    assert error.best_node == "uk-south"
    assert error.best_ms == pytest.approx(150 + 6 + 1500 * 0.006 * 0.02)
    assert str(error) == (
        "query proximity, operator north_tracks: no node can stand by within 155 ms; the best is "
        "uk-south with 156.2 ms (detection 150.0 + transfer 6.0 + reprocessing 0.2; "
        "input from north @ north)"
    )


def test_a_single_node_cannot_protect_anything():
    with pytest.raises(NoNode, match="west-europe runs it and no second node could stand by"):
        planned(view=europe(without=regions[:-1]))


def test_sites_alone_host_nothing():
    with pytest.raises(NoNode, match=r"query proximity, operator .*: the network has no node"):
        planned(view=europe(without=regions))


def test_a_pinned_operator_needs_its_node():
    with pytest.raises(GraphError, match="operator north: cannot be pinned: no node is named"):
        planned(view=europe(sites=False))


def test_an_operator_is_placed_by_one_query():
    with pytest.raises(GraphError, match=r"query q, operator .* placed with query p already"):
        planned(proximity("p"), proximity("q"))
    with pytest.raises(GraphError, match="is given to two queries"):
        planned(proximity("p", "a."), proximity("p", "b."))


@pytest.mark.parametrize("value", [-1, math.nan, math.inf])
def test_times_are_checked(value: float):
    with pytest.raises(GraphError, match="query proximity, deadline_ms"):
        planned(deadline_ms=value)
    with pytest.raises(GraphError, match="query proximity, recovery_bound_ms"):
        planned(bound_ms=value)


def test_a_query_of_pinned_operators_only_has_figures():
    relay = QueryGraph(
        name="relay",
        operators=(Operator(name="S", pinned="south"), Operator(name="D", pinned="centre")),
        links=(Link(source="S", target="D", rate_bytes_s=1000, tuples_s=10),),
    )
    result = planned(relay)
    assert result.placements == ()
    assert result.queries[0].latency_ms == pytest.approx(10 + 2)
    assert result.queries[0].recovery_ms == 0


def test_settings_are_checked():
    with pytest.raises(SettingsError, match="hop_ms -1"):
        Settings(hop_ms=-1)
    with pytest.raises(SettingsError, match="candidates 0"):
        Settings(candidates=0)
