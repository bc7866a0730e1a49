"""What moves would gain by the figures of now: those of a plan, or any others.

The gain, price and uncertainty of a change are computed as the search computes them
(`placement.rebalancing.rebalance`), each after the changes before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from orchestrator.control.decide.move_steps import Places, make, then
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.measured_rates import measured_rates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.running import RunningProblem, running_problem
from orchestrator.records import MoveStep, RebalanceChange, RebalancePlan
from placement.rebalancing.goals import NETWORK
from placement.rebalancing.move_evaluation import MoveEvaluation
from placement.rebalancing.moves import RebalanceSettings
from placement.rebalancing.running import RunningQuery, running_load
from placement.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeWorth:
    """What moves of one query are worth together, bytes; see `placement.rebalancing.moves`."""

    gain: float = 0.0
    price: float = 0.0
    uncertainty: float = 0.0
    hysteresis: float = 0.0

    @property
    def margin(self) -> float:
        """What the gain has to exceed."""
        return self.price + self.uncertainty + self.hysteresis


def usual_margins(view: ClusterView) -> RebalanceSettings:
    """When a move is worth it in this cluster."""
    rate_bytes_s = view.settings.state_rate_bytes_s or RebalanceSettings().bandwidth_bytes_s
    return RebalanceSettings(bandwidth_bytes_s=rate_bytes_s)


def net_gains(view: ClusterView, plan: RebalancePlan) -> Iterator[RebalanceChange]:
    """The changes of a plan whose moves may all be made, with the figures of now."""
    planning = Planning.of(view).fork()
    rates = measured_rates(view, planning.work)
    margins = usual_margins(view)
    changes = {each.number: each for each in plan.changes}
    for number, group in groupby(plan.moves, key=lambda move: move.change):
        moves = [*group]
        problem = running_problem(planning, rates, None)
        now = worth(problem, planning.settings, margins, [move.step for move in moves])
        yield RebalanceChange(
            number=number,
            goal=changes[number].goal,
            gain_bytes=now.gain,
            price_bytes=now.price,
            uncertainty_bytes=now.uncertainty,
            hysteresis_bytes=changes[number].hysteresis_bytes,
        )
        for move in moves:
            make(planning, planning.fragments[move.fragment], move.step)


def worth(
    problem: RunningProblem,
    settings: Settings,
    margins: RebalanceSettings,
    moves: Sequence[MoveStep],
) -> ChangeWorth:
    """What moves of one query are worth together; no gain if that cannot be priced now."""
    name, network = moves[0].fragment.rpartition(".")[0], problem.network
    found = [query for query in problem.queries if query.request.graph.name == name]
    if not found or not network.index.keys() >= {move.node for move in moves}:
        return ChangeWorth()
    load = running_load(network, settings, problem.queries)
    query = found[0]
    places = _places_after(problem, query, moves)
    targets = np.array([i for pair in places.values() for i in pair], dtype=np.int64)
    nodes = np.union1d(targets, query.nodes(network))
    evaluation = MoveEvaluation(query, network, nodes, problem.state_bytes, settings, margins)
    batch = evaluation.base.repeated(1)
    for operator, (primary, secondary) in places.items():
        column = evaluation.evaluator.column[operator]
        batch.primaries[0, column], batch.secondaries[0, column] = primary, secondary
    evaluated = evaluation.evaluate(batch)
    return ChangeWorth(
        gain=float(NETWORK.gains(query, evaluation, evaluated, load)[0]),
        price=float(evaluated.price.sum()),
        uncertainty=float(evaluated.uncertainty[0]),
        hysteresis=evaluation.hysteresis(load.axis_ms()) * len(moves),
    )


def _places_after(
    problem: RunningProblem, query: RunningQuery, moves: Sequence[MoveStep]
) -> dict[str, tuple[int, int]]:
    """Where the fragments that move are afterwards, by indices of nodes."""
    network = problem.network
    places: dict[str, tuple[int, int]] = {}
    for move in moves:
        operator = move.fragment.rpartition(".")[2]
        primary, secondary = network.names(places.get(operator, query.places[operator]))
        now = then(Places(primary=primary, secondary=secondary), move)
        places[operator] = network.index[now.primary], network.index[now.secondary]
    return places
