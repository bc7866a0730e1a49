"""What holds for every rebalancing, on random networks, queries and running placements."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from placement.network import NetworkView
from placement.rebalancing.goals import Goal, GoalKind
from placement.rebalancing.moves import MoveKind, RebalanceSettings
from placement.rebalancing.rebalance import improve
from placement.rebalancing.running import as_running
from tests.property.placement.definitions import looseness
from tests.property.placement.rebalancing.running_problems import (
    ANY_GAIN,
    PLANNER,
    Places,
    asking,
    assert_pair_is_legal,
    bounds_ms,
    cores_by_node,
    deadlines_ms,
    host_counts,
    moved,
    objective,
    path_ms,
    perturbed,
    problem,
    query_counts,
    rebalanced,
    recoveries_ms,
    seeds,
    sizes,
)

GOALS = [kind for kind in GoalKind if kind is not GoalKind.EVACUATE]


@settings(max_examples=100, deadline=None)
@given(seeds, host_counts, query_counts, sizes, bounds_ms, deadlines_ms)
def test_every_prefix_is_legal_and_gains_what_is_promised(
    seed: int, hosts: int, queries: int, size: int, bound_ms: float, deadline_ms: float
):
    rng = np.random.default_rng(seed)
    view, graphs, places = problem(rng, hosts, queries, size)
    requests = asking(graphs, bound_ms, deadline_ms)
    result = rebalanced(requests, places, view)
    cost = objective(graphs, places, view)
    assert result.cost_before == pytest.approx(cost)
    for change in result.changes:
        assert change.gain > change.price + change.uncertainty + change.hysteresis
        (graph,) = (graph for graph in graphs if graph.name == change.query)
        # What a new view has broken already may stay so, and get no worse.
        limits_ms = recoveries_ms(graph, places, view)
        limit_ms = path_ms(graph, places, view)
        for move in change.moves:
            after = moved(places, move)
            assert_pair_is_legal(view, places[move.operator], after[move.operator])
            for name, recovery_ms in recoveries_ms(graph, after, view).items():
                assert recovery_ms <= max(bound_ms, limits_ms[name]) + 1e-9
            assert path_ms(graph, after, view) <= max(deadline_ms, limit_ms) + 1e-9
            if move.kind is not MoveKind.SWAP:
                # The third replica is on the target while the old one is still where it was.
                used = cores_by_node(graphs, places).get(move.target, 0.0)
                used += graph.cores(move.operator)
                assert used <= view.node(move.target).capacity_cores + 1e-9
            assert cost - move.gain == pytest.approx(objective(graphs, after, view))
            places, cost = after, objective(graphs, after, view)
            assert move.cost_after == pytest.approx(cost)
    assert places == result.places
    assert result.cost_after == pytest.approx(cost)


@settings(max_examples=20, deadline=None)
@given(seeds, host_counts, query_counts, sizes, st.permutations(GOALS))
def test_what_was_moved_for_one_goal_is_not_moved_again_for_another(
    seed: int, hosts: int, queries: int, size: int, goals: list[GoalKind]
):
    view, graphs, running = problem(np.random.default_rng(seed), hosts, queries, size)
    requests = asking(graphs, 1e6, 1e6)
    found = improve(
        as_running(requests, running, view),
        view,
        state_bytes={},
        settings=PLANNER,
        rebalancing=ANY_GAIN,
        goals=[Goal(each) for each in goals],
    )
    moved_for: dict[str, str] = {}
    for change in found.changes:
        for move in change.moves:
            assert moved_for.setdefault(move.operator, change.goal) == change.goal


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, bounds_ms)
def test_nothing_is_left_to_do_after_a_plan(
    seed: int, hosts: int, queries: int, size: int, bound_ms: float
):
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, queries, size)
    requests = asking(graphs, bound_ms, 1e6)
    first = rebalanced(requests, running, view)
    second = rebalanced(requests, dict(first.places), view)
    assert second.changes == ()
    assert second.cost_before == second.cost_after == pytest.approx(first.cost_after)
    assert second.places == first.places


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, st.floats(0.1, 20))
def test_noise_moves_nothing_that_stands_well(
    seed: int, hosts: int, queries: int, size: int, error_ms: float
):
    """Where no change pays, none does in any view that may be off by as much as it says."""
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, queries, size, domains=0)
    view = NetworkView(nodes=tuple(replace(n, capacity_cores=math.inf) for n in view.nodes))
    requests = asking(graphs, 1e6, 1e6)
    places = dict(rebalanced(requests, running, view).places)
    for _ in range(3):
        assert rebalanced(requests, places, perturbed(rng, view, error_ms)).changes == ()


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, st.floats(0.1, 20), bounds_ms)
def test_noise_never_moves_anything_back(
    seed: int, hosts: int, queries: int, size: int, error_ms: float, bound_ms: float
):
    """Under one noisy view after another the true cost only falls: nothing comes round again."""
    rng = np.random.default_rng(seed)
    view, graphs, places = problem(rng, hosts, queries, size)
    requests = asking(graphs, bound_ms, 1e6)
    cost = objective(graphs, places, view)
    for _ in range(5):
        result = rebalanced(requests, places, perturbed(rng, view, error_ms))
        for change in result.changes:
            for move in change.moves:
                places = moved(places, move)
            after = objective(graphs, places, view)
            assert after < cost
            cost = after


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, bounds_ms)
def test_only_the_content_of_the_input_matters(
    seed: int, hosts: int, queries: int, size: int, bound_ms: float
):
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, queries, size)
    first = rebalanced(asking(graphs, bound_ms, 200), running, view)
    shuffle: list[int] = rng.permutation(len(view.nodes)).tolist()
    shuffled_view = NetworkView(
        nodes=tuple(view.nodes[i] for i in shuffle),
        rtt_ms=dict(reversed(list(view.rtt_ms.items()))),
    )
    shuffled = [
        replace(graph, operators=graph.operators[::-1], links=graph.links[::-1])
        for graph in reversed(graphs)
    ]
    places = dict(reversed(list(running.items())))
    second = rebalanced(asking(shuffled, bound_ms, 200), places, shuffled_view)
    assert first.places == second.places
    assert [(m.operator, m.kind, m.target) for m in first.moves] == [
        (m.operator, m.kind, m.target) for m in second.moves
    ]
    assert first.rejected == second.rejected


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, st.integers(0, 6), st.floats(0, 5))
def test_the_budget_and_the_margins_are_kept(
    seed: int, hosts: int, queries: int, size: int, moves: int, megabytes: float
):
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, queries, size)
    rebalancing = RebalanceSettings(
        max_moves=moves, max_bytes=megabytes * 1e6, hysteresis_share=0.05, hysteresis_bytes=20
    )
    state_bytes = {name: float(rng.uniform(0, 2e6)) for name in running}
    result = rebalanced(
        asking(graphs, 1e6, 1e6), running, perturbed(rng, view, 1), rebalancing, state_bytes
    )
    assert len(result.moves) <= moves
    assert sum(move.bytes_to_ship for move in result.moves) <= megabytes * 1e6
    for move in result.moves:
        shipped = 0.0 if move.kind is MoveKind.SWAP else state_bytes[move.operator]
        assert move.bytes_to_ship == shipped
        assert move.seconds >= shipped / rebalancing.bandwidth_bytes_s
    for change in result.changes:
        assert change.gain > change.price + change.uncertainty + 20


@settings(max_examples=60, deadline=None)
@given(seeds, st.integers(3, 8), sizes, bounds_ms)
def test_no_single_move_is_overlooked(seed: int, hosts: int, size: int, bound_ms: float):
    """Brute force: after a plan, no replica alone can go anywhere that is legal and cheaper."""
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, 2, size)
    requests = asking(graphs, bound_ms, 150)
    places = dict(rebalanced(requests, running, view).places)
    cost = objective(graphs, places, view)
    used = cores_by_node(graphs, places)
    for graph in graphs:
        limits_ms = recoveries_ms(graph, places, view)
        limit_ms = max(150, path_ms(graph, places, view))
        for name in graph.to_place:
            a, s = places[name]
            for node in (host.name for host in view.hosts):
                room = view.node(node).capacity_cores - used.get(node, 0.0) - graph.cores(name)
                for pair in ((node, s), (a, node)):
                    looser = looseness(view, *pair) > looseness(view, a, s)
                    if node in (a, s) or room < 0 or looser:
                        continue
                    after = places | {name: pair}
                    if path_ms(graph, after, view) > limit_ms:
                        continue
                    if any(
                        recovery_ms > max(bound_ms, limits_ms[operator])
                        for operator, recovery_ms in recoveries_ms(graph, after, view).items()
                    ):
                        continue
                    assert objective(graphs, after, view) >= cost * (1 - 1e-6)


@settings(max_examples=60, deadline=None)
@given(seeds, host_counts, query_counts, sizes, st.floats(1, 50))
def test_what_is_measured_afterwards_is_what_was_foreseen(
    seed: int, hosts: int, queries: int, size: int, ms_per_core: float
):
    """Nodes measure what their replicas need. A plan counts on that, and then has no more to do."""
    rng = np.random.default_rng(seed)
    view, graphs, running = problem(rng, hosts, queries, size)

    def measured(places: Places) -> NetworkView:
        used = cores_by_node(graphs, places)
        return NetworkView(
            nodes=tuple(
                replace(node, operators=0, cpu_ms=ms_per_core * used.get(node.name, 0.0))
                for node in view.nodes
            ),
            rtt_ms=view.rtt_ms,
        )

    requests = asking(graphs, 1e6, 1e6)
    first = rebalanced(requests, running, measured(running))
    places = dict(first.places)
    assert first.cost_after == pytest.approx(objective(graphs, places, measured(places)))
    assert rebalanced(requests, places, measured(places)).changes == ()
