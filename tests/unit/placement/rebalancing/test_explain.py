"""Explanations on networks small enough to reckon by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from placement.errors import RunningError, Stranded
from placement.graph import Link, Operator, QueryGraph
from placement.network import NetworkView, Node
from placement.rebalancing.explain import Explanation, Force, ReplicaExplanation, explain
from placement.rebalancing.moves import MoveKind, Obstacle, Reason, RebalanceSettings
from placement.rebalancing.rebalance import rebalance
from placement.records import Request
from placement.settings import Settings
from topology.cpu import Linear

IDLE = Settings(cpu=Linear(ms_per_core=0))
BUSY = Settings(cpu=Linear(ms_per_core=10), operator_load=1)

AT_MS = {"a": 0.0, "b": 20.0, "c": 40.0, "d": 60.0}
DOMAINS = {"a": "west", "b": "west", "c": "east", "d": "east"}

GRAPH = QueryGraph(
    name="q",
    operators=(
        Operator(name="in", pinned="source"),
        Operator(name="filter", cost_us=9_500),
        Operator(name="count", cost_us=100),
        Operator(name="out", pinned="sink"),
    ),
    links=(
        Link(source="in", target="filter", rate_bytes_s=100_000, tuples_s=100),
        Link(source="filter", target="count", rate_bytes_s=10_000, tuples_s=10),
        Link(source="count", target="out", rate_bytes_s=1_000, tuples_s=1),
    ),
)
"""Source at node a → filter → count → sink at node d."""

RUNNING = {"filter": ("b", "d"), "count": ("b", "c")}


def line(capacity_cores: float = 10.0) -> NetworkView:
    """Four nodes, 10 ms one way from each to the next; a has so many cores."""
    nodes = [
        Node(name=name, position_ms=np.array([at_ms]), domain=DOMAINS[name])
        for name, at_ms in AT_MS.items()
    ]
    nodes[0] = replace(nodes[0], capacity_cores=capacity_cores)
    sites = {"source": 0.0, "sink": 60.0}
    nodes += [
        Node(name=name, position_ms=np.array([at_ms]), hosts_operators=False)
        for name, at_ms in sites.items()
    ]
    return NetworkView(nodes=tuple(nodes))


def explained(
    operator: str = "filter",
    *,
    running: dict[str, tuple[str, str]] | None = None,
    view: NetworkView | None = None,
    deadline_ms: float = 1_000,
    bound_ms: float = 1_000,
    settings: Settings = IDLE,
    hysteresis_bytes: float = 0.0,
) -> Explanation:
    return explain(
        [Request(GRAPH, deadline_ms, bound_ms, 20)],
        running or RUNNING,
        view or line(),
        operator,
        settings=settings,
        rebalancing=RebalanceSettings(hysteresis_bytes=hysteresis_bytes),
    )


def about(value: float) -> Any:
    """The figure but for rounding, where a record wants a number."""
    return pytest.approx(value)


def obstacles(replica: ReplicaExplanation) -> dict[str, Reason | None]:
    return {
        candidate.node: candidate.obstacle and candidate.obstacle.reason
        for candidate in replica.candidates
    }


def test_forces_are_the_streams_of_a_replica():
    answer = explained()
    assert (answer.query, answer.operator) == ("q", "filter")
    assert answer.primary.node == "b"
    assert answer.primary.forces == (
        Force(
            operator="in",
            is_secondary=False,
            node="source",
            incoming=True,
            rate_bytes_s=100_000,
            latency_ms=10,
            usage=1_000,
        ),
        Force(
            operator="count",
            is_secondary=False,
            node="b",
            incoming=False,
            rate_bytes_s=10_000,
            latency_ms=0,
            usage=0,
        ),
        Force(
            operator="count",
            is_secondary=True,
            node="c",
            incoming=False,
            rate_bytes_s=10_000,
            latency_ms=10,
            usage=100,
        ),
    )
    # A secondary sends nothing.
    assert [(f.operator, f.node) for f in answer.secondary.forces] == [("in", "source")]
    assert answer.secondary.forces[0].usage == pytest.approx(100_000 * 0.03)


def test_a_replica_that_stands_best_has_nothing_against_it():
    replica = explained(running={"filter": ("a", "c"), "count": ("a", "c")}).primary
    best, second = replica.candidates[:2]
    assert (replica.node, best.node, best.obstacle) == ("a", "a", None)
    assert (best.usage, best.standby, best.load_price, best.crowding) == (0, 200, 0, 0)
    assert replica.binding is None
    assert replica.best_rejected == second
    assert second.node == "b"
    assert second.total == pytest.approx(1_000 + 100 + 100)
    assert second.obstacle == Obstacle(
        reason=Reason.COST,
        subject="a",
        value=second.total,
        limit=best.total,
        told="cost: 1,200 bytes, 200 on a",
    )


@pytest.mark.parametrize(
    ("hysteresis_bytes", "reason", "told"),
    [
        (799.0, Reason.WORTH, "worth it: gains 800 bytes, of which 799 are needed"),
        (800.0, Reason.MARGIN, "margin: gains 800 bytes, which does not exceed price, "),
    ],
)
def test_a_cheaper_node_that_is_legal_is_a_matter_of_margin(
    hysteresis_bytes: float, reason: Reason, told: str
):
    replica = explained(hysteresis_bytes=hysteresis_bytes).primary
    assert [c.node for c in replica.candidates[:2]] == ["a", "b"]
    assert obstacles(replica)["a"] is reason
    assert str(replica.candidates[0].obstacle).startswith(told)
    assert replica.binding is None
    assert replica.best_rejected == replica.candidates[0]


def test_the_failure_domain_and_the_other_replica_bind():
    replica = explained().secondary
    # Nearer to the source, but the primary is on b, and a is in its domain.
    assert obstacles(replica) == {
        "a": Reason.FAILURE_DOMAIN,
        "b": Reason.FAILURE_DOMAIN,
        "c": Reason.WORTH,
        "d": None,
    }
    assert replica.binding == Obstacle(reason=Reason.FAILURE_DOMAIN, subject="domain west")
    (peer_replica,) = [c.obstacle for c in replica.candidates if c.node == "b"]
    assert peer_replica == Obstacle(reason=Reason.FAILURE_DOMAIN, subject="b")


def test_capacity_binds():
    """The filter needs 0.95 cores."""
    replica = explained(view=line(capacity_cores=0.9)).primary
    assert replica.binding == Obstacle(
        reason=Reason.CAPACITY, subject="a", value=about(0.95), limit=0.9
    )
    assert replica.best_rejected is not None
    assert replica.best_rejected.node == "a"


def test_the_deadline_stands_against_detours():
    """Counting on a: to b, back to a and on to d: 50 ms, three hops of 2 ms, 9.6 ms of work."""
    running = {"filter": ("b", "d"), "count": ("d", "c")}
    replica = explained("count", running=running, deadline_ms=65).primary
    against = {candidate.node: candidate.obstacle for candidate in replica.candidates}
    assert against["a"] == Obstacle(
        reason=Reason.DEADLINE, subject="q", value=about(65.6), limit=65
    )
    assert against["b"] is not None
    assert against["b"].reason is Reason.MARGIN


def test_the_bound_binds():
    """If the filter died with the counter, its heir on d would have to catch up first."""
    running = {"filter": ("a", "d"), "count": ("b", "c")}
    # Secondary of the filter: 20 + 30. Of the counter: fed from a, 20 + 20.
    free = explained("count", running=running).primary
    assert obstacles(free)["a"] is Reason.MARGIN
    # On a, the counter would lose its input too: 20 + 30 from the source and 10 from d.
    bound = explained("count", running=running, bound_ms=55).primary
    assert bound.binding == Obstacle(
        reason=Reason.RECOVERY_BOUND, subject="count", value=about(60), limit=55
    )


def test_load_prices_and_crowding():
    """A replica is 10 ms on the axis; b holds both primaries. Their inputs: 100 and 10 kB/s."""
    replica = explained(settings=BUSY).primary
    here, there = (next(c for c in replica.candidates if c.node == name) for name in "ba")
    assert here.load_price == pytest.approx(55_000 * 0.02)
    assert here.crowding == pytest.approx(55_000 * 0.01)
    assert there.load_price == pytest.approx(55_000 * 0.01)
    assert there.crowding == 0


@pytest.mark.parametrize("settings", [IDLE, BUSY])
def test_the_difference_between_candidates_is_what_moving_gains(settings: Settings):
    rebalancing = RebalanceSettings(max_moves=1, hysteresis_share=0)
    plan = rebalance(
        [Request(GRAPH, 1_000, 1_000, 20)],
        RUNNING,
        line(),
        state_bytes={},
        settings=settings,
        rebalancing=rebalancing,
    )
    (move,) = plan.moves
    answer = explained(move.operator, settings=settings)
    replica = answer.primary if move.kind is MoveKind.PRIMARY else answer.secondary
    total = {candidate.node: candidate.total for candidate in replica.candidates}
    assert move.gain == pytest.approx(total[move.source] - total[move.target])


def test_what_does_not_run_cannot_be_explained():
    with pytest.raises(RunningError, match="operator fitler: is in none of the queries"):
        explained("fitler")
    with pytest.raises(RunningError, match="operator in: is in none of the queries given, or is"):
        explained("in")
    with pytest.raises(Stranded, match="operator count: its secondary is on 'gone'"):
        explained(running={"filter": ("a", "b"), "count": ("a", "gone")})
