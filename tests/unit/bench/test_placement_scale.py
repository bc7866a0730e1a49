"""What `placement_scale` compares with, on networks that a table can be made of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.least_cost import Task, least_costs
from bench.placement_methods import OURS
from bench.placement_plots import plot_scale
from bench.placement_scale import PlacementsDiffer, check_identical, distance, primaries_cost
from bench.placement_workload import Workload
from bench.scale_workload import MEAN_RTT_MS, scale_workload
from orchestrator.errors import InvalidInput
from placement.bulk import BulkPlan, BulkSettings, plan_in_rounds
from placement.exact_tree import ExactTask, place_tree
from placement.graph import Link


@pytest.fixture(scope="module")
def workload() -> Workload:
    return scale_workload(200, 6)


@pytest.fixture(scope="module")
def found(workload: Workload) -> BulkPlan:
    return plan_in_rounds(
        workload.requests,
        workload.view,
        bulk=BulkSettings(round_size=3),
        settings=OURS,
        rng=np.random.default_rng(1),
    )


def test_networks_have_so_many_nodes_and_far_apart_on_average(workload: Workload) -> None:
    positions_ms = workload.view.positions_ms
    apart_ms = np.linalg.norm(positions_ms[:, None] - positions_ms, axis=2)
    assert len(workload.view.nodes) == 200
    assert apart_ms.mean() == pytest.approx(MEAN_RTT_MS, rel=0.1)


def test_the_blockwise_optimum_is_that_of_the_placer_with_every_host(workload: Workload) -> None:
    view, graphs = workload.view, [request.graph for request in workload.requests]
    price_bytes = np.random.default_rng(1).uniform(0, 200, len(view.nodes))
    whole = [
        place_tree(
            ExactTask(
                graph=graph,
                view=view,
                candidates=dict.fromkeys(graph.to_place, view.host_indices),
                price_bytes=price_bytes,
            )
        ).cost
        for graph in graphs
    ]
    blockwise = least_costs([Task(graph, price_bytes) for graph in graphs], view)
    assert blockwise == pytest.approx(whole)


def test_the_blockwise_optimum_is_for_trees_towards_a_sink(workload: Workload) -> None:
    graph = workload.requests[0].graph
    extra = Link(source="q00000.join0", target="q00000.destination", rate_bytes_s=1, tuples_s=1)
    free = np.zeros(len(workload.view.nodes))
    with pytest.raises(InvalidInput, match=r"operator q00000\.join0.* feeds several"):
        least_costs([Task(replace(graph, links=(*graph.links, extra)), free)], workload.view)


def test_the_loss_by_candidates_is_small_and_that_of_placements_is_no_smaller(
    workload: Workload, found: BulkPlan
) -> None:
    seen = distance(workload, found, 6)
    assert 1 - 1e-9 <= seen.candidates_to_exact <= 1.1
    assert 1 - 1e-9 <= seen.placed_to_exact <= 2


def test_the_distance_is_that_of_the_placements_that_were_made(
    workload: Workload, found: BulkPlan
) -> None:
    """Primaries that are all on the node of one are far from the optimum."""
    node = found.plan.placements[0].primary
    worse = [replace(each, primary=node) for each in found.plan.placements]
    moved = replace(found, plan=replace(found.plan, placements=tuple(worse)))
    ours, theirs = distance(workload, found, 6), distance(workload, moved, 6)
    assert theirs.placed_to_exact > 1.2 * ours.placed_to_exact


def test_the_placers_choice_is_priced_as_the_placer_prices_it(workload: Workload) -> None:
    view, graph = workload.view, workload.requests[0].graph
    price_bytes = np.random.default_rng(1).uniform(0, 200, len(view.nodes))
    task = ExactTask(
        graph=graph,
        view=view,
        candidates=dict.fromkeys(graph.to_place, view.host_indices),
        price_bytes=price_bytes,
    )
    found = place_tree(task)
    primaries = graph.pinned | {name: found.primaries[name] for name in graph.to_place}
    assert primaries_cost(graph, primaries, view, price_bytes) == pytest.approx(found.cost)


def test_a_plan_that_differs_fails_the_benchmark(found: BulkPlan) -> None:
    check_identical("200x6", found, replace(found))
    first, *rest = found.plan.placements
    other = replace(
        found, plan=replace(found.plan, placements=(replace(first, primary="x"), *rest))
    )
    with pytest.raises(PlacementsDiffer, match="query q00000 of 200x6"):
        check_identical("200x6", found, other)
    with pytest.raises(PlacementsDiffer, match="query q9 of"):
        check_identical("200x6", found, replace(found, refused={"q9": "no room"}))
    with pytest.raises(PlacementsDiffer, match="number of rounds"):
        check_identical("200x6", found, replace(found, rounds=found.rounds + 1))


@pytest.mark.slow
def test_plot_of_times(tmp_path: Path) -> None:
    plot_scale({(100, 10): 0.1, (100, 100): 1.2, (1000, 10): 0.2}, tmp_path / "seconds.png")
    assert (tmp_path / "seconds.png").read_bytes().startswith(b"\x89PNG")
