"""What the changes of a rebalancing plan would gain by the figures of now.

The gain, price and uncertainty of a change are computed as the search computes them
(`placement.rebalancing.rebalance`), each after the changes before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from orchestrator.control.decide.move_steps import Places, make, then
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.measured_rates import measured_rates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.running import RunningProblem, running_problem
from orchestrator.records import RebalanceChange, RebalanceMove, RebalancePlan
from placement.rebalancing.goals import NETWORK
from placement.rebalancing.move_evaluation import MoveEvaluation
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.running import RunningQuery, running_load
from placement.settings import Settings


def net_gains(view: ClusterView, plan: RebalancePlan) -> Iterator[RebalanceChange]:
    """The changes of a plan whose moves may all be made, with the figures of now."""
    planning = Planning.of(view).fork()
    rates = measured_rates(view, planning.work)
    settings = RebalanceSettings(
        bandwidth_bytes_s=view.settings.state_rate_bytes_s or RebalanceSettings().bandwidth_bytes_s
    )
    changes = {each.number: each for each in plan.changes}
    for number, group in groupby(plan.moves, key=lambda move: move.change):
        moves = [*group]
        problem = running_problem(planning, rates, None)
        gain, price, uncertainty = _figures(problem, planning.settings, settings, moves)
        yield RebalanceChange(
            number=number,
            goal=changes[number].goal,
            gain_bytes=gain,
            price_bytes=price,
            uncertainty_bytes=uncertainty,
            hysteresis_bytes=changes[number].hysteresis_bytes,
        )
        for move in moves:
            make(planning, planning.fragments[move.fragment], move.step)


def _figures(
    problem: RunningProblem,
    settings: Settings,
    rebalancing: RebalanceSettings,
    moves: Sequence[RebalanceMove],
) -> tuple[float, float, float]:
    """Gain, price and uncertainty of moves of one query; no gain if it cannot be priced now."""
    name, network = moves[0].fragment.rpartition(".")[0], problem.network
    found = [query for query in problem.queries if query.request.graph.name == name]
    if not found or not network.index.keys() >= {move.target for move in moves}:
        return 0.0, 0.0, 0.0
    load = running_load(network, settings, problem.queries)
    query = found[0]
    graph, places = query.request.graph, _places_after(problem, query, moves)
    nodes = {i for pair in (*query.places.values(), *places.values()) for i in pair}
    nodes |= {network.index[pinned] for pinned in graph.pinned.values()}
    evaluation = MoveEvaluation(
        query, network, np.array(sorted(nodes)), problem.state_bytes, settings, rebalancing
    )
    batch = evaluation.base.repeated(1)
    for operator, (primary, secondary) in places.items():
        column = evaluation.evaluator.column[operator]
        batch.primaries[0, column], batch.secondaries[0, column] = primary, secondary
    evaluated = evaluation.evaluate(batch)
    gain = float(NETWORK.gains(query, evaluation, evaluated, load)[0])
    return gain, float(evaluated.price.sum()), float(evaluated.uncertainty[0])


def _places_after(
    problem: RunningProblem, query: RunningQuery, moves: Sequence[RebalanceMove]
) -> dict[str, tuple[int, int]]:
    """Where the fragments that move are afterwards, by indices of nodes."""
    network = problem.network
    places: dict[str, tuple[int, int]] = {}
    for move in moves:
        operator = move.fragment.rpartition(".")[2]
        primary, secondary = network.names(places.get(operator, query.places[operator]))
        now = then(Places(primary=primary, secondary=secondary), move.step)
        places[operator] = network.index[now.primary], network.index[now.secondary]
    return places
