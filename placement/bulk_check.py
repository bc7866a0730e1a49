"""Bulk placement beside the sequential planner, on the first of the queries.

The sequential planner places them one after the other, each around those before it. Both plans of
these queries then have a cost: network usage and the load price of all their replicas. They differ
by what rounds lose, in which a query knows the others only as expected replicas, or comes after
later ones because it was put back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from placement.bulk import Around, BulkPlan, Candidate, Outcome, place_apart
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.planner import free_points
from placement.records import Pairs, PlacedOperator, Request
from placement.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkComparison:
    """Costs of a sample of the queries, bytes.

    Attributes
    ----------
    queries
        In the sample.
    bulk_cost, sequential_cost
        Network usage, standby traffic included, and load price of those that both have placed.
    refused_otherwise
        Queries that one of both has refused and the other has placed.
    """

    queries: int
    bulk_cost: float
    sequential_cost: float
    refused_otherwise: tuple[str, ...]

    @property
    def difference(self) -> float:
        """Share by which bulk placement costs more."""
        return self.bulk_cost / self.sequential_cost - 1 if self.sequential_cost else 0.0


def compare(
    requests: Sequence[Request],
    view: NetworkView,
    found: BulkPlan,
    *,
    sample: int,
    settings: Settings,
    rng: np.random.Generator,
    say: Callable[[int], None] | None = None,
) -> BulkComparison:
    """Compare a plan with that of the sequential planner.

    Parameters
    ----------
    requests, view, settings
        Those that `found` was made with.
    sample
        How many of the queries, the first ones, are placed again.
    rng
        As for `planner.plan`.
    say
        Takes the number of queries that have been placed.
    """
    first = requests[:sample]
    one_by_one: dict[str, Outcome] = {}
    idle = load = Load(view, operator_load=settings.operator_load, cpu=settings.cpu)
    all_points_ms = free_points(first, view, settings, [rng] * len(first))
    for request, points_ms in zip(first, all_points_ms, strict=True):
        alone, around = [Candidate(0, request, points_ms)], Around(start=load, expected=())
        (outcome,) = place_apart(alone, around, view, settings)
        one_by_one[request.graph.name] = outcome
        load = load.with_operators(request.graph, _pairs(outcome.placements))
        if say is not None:
            say(len(one_by_one))
    refused = {name for name, outcome in one_by_one.items() if outcome.refusal}
    otherwise = refused ^ (found.refused.keys() & one_by_one.keys())
    both = [r for r in first if r.graph.name not in refused | otherwise]
    in_rounds: dict[str, list[PlacedOperator]] = {request.graph.name: [] for request in requests}
    for placed in found.plan.placements:
        in_rounds[placed.query].append(placed)
    usage = {figures.query: figures.network_usage for figures in found.plan.queries}

    def cost(placed: Mapping[str, Sequence[PlacedOperator]], usage: Mapping[str, float]) -> float:
        load = idle
        for request in both:
            load = load.with_operators(request.graph, _pairs(placed[request.graph.name]))
        return load.total_price_bytes() + sum(usage[request.graph.name] for request in both)

    return BulkComparison(
        queries=len(first),
        bulk_cost=cost(in_rounds, usage),
        sequential_cost=cost(
            {name: outcome.placements for name, outcome in one_by_one.items()},
            {n: o.figures.network_usage for n, o in one_by_one.items() if o.figures is not None},
        ),
        refused_otherwise=tuple(sorted(otherwise)),
    )


def _pairs(placed: Sequence[PlacedOperator]) -> Pairs:
    return {each.operator: (each.primary, each.secondary) for each in placed}
