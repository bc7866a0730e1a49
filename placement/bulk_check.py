"""Bulk placement beside the sequential planner, on some of the queries, drawn at random.

The sequential planner places each of them again, around all those before it, as they are in the
plan that is checked. Either placement then has a cost: network usage, and by how much the query's
replicas raise the load price. Costs differ by what rounds lose, in which a query knows the others
only as expected replicas, or comes after later ones because it was put back. As queries are drawn
from all, they meet the network at every load between idle and full. The difference is an upper
bound of that between both plans: a query alone may take what its round has left free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from placement.bulk import Around, BulkPlan, Candidate, place_apart
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
        Network usage, standby traffic included, and rise of the load price, of those that both
        have placed.
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
        How many of the queries are placed again.
    rng
        Draws them; and then as for `planner.plan`.
    say
        Takes the number of queries that have been placed.
    """
    drawn: list[int] = sorted(rng.permutation(len(requests))[:sample].tolist())
    again = [requests[number] for number in drawn]
    points_ms = dict(
        zip(drawn, free_points(again, view, settings, [rng] * len(again)), strict=True)
    )
    in_rounds: dict[str, list[PlacedOperator]] = {request.graph.name: [] for request in requests}
    for placed in found.plan.placements:
        in_rounds[placed.query].append(placed)
    usage = {figures.query: figures.network_usage for figures in found.plan.queries}
    load = Load(view, operator_load=settings.operator_load, cpu=settings.cpu)
    bulk_cost = sequential_cost = 0.0
    otherwise: list[str] = []
    for number, request in enumerate(requests):
        name = request.graph.name
        after = load.with_operators(request.graph, _pairs(in_rounds[name]))
        if number in points_ms:
            alone = [Candidate(0, request, points_ms.pop(number))]
            (outcome,) = place_apart(alone, Around(start=load, expected=()), view, settings)
            if bool(outcome.refusal) != (name in found.refused):
                otherwise.append(name)
            elif outcome.figures is not None:
                beside = load.with_operators(request.graph, _pairs(outcome.placements))
                before = load.total_price_bytes()
                bulk_cost += usage[name] + (after.total_price_bytes() - before)
                rise = beside.total_price_bytes() - before
                sequential_cost += outcome.figures.network_usage + rise
            if say is not None:
                say(len(drawn) - len(points_ms))
        load = after
    return BulkComparison(
        queries=len(drawn),
        bulk_cost=bulk_cost,
        sequential_cost=sequential_cost,
        refused_otherwise=tuple(sorted(otherwise)),
    )


def _pairs(placed: Sequence[PlacedOperator]) -> Pairs:
    return {each.operator: (each.primary, each.secondary) for each in placed}
