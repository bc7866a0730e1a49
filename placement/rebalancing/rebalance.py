"""The few moves worth making: from a running placement and a new view of the network.

The planner lets running replicas stay (`placement.planner`); places grow stale as latencies, loads
and rates change. Rebalancing searches for changes that pay, and tells their price and an order in
which they are safe. It improves placements that are whole: the planner replaces replicas that have
lost their node.

The objective is the planner's, bytes/s × s: network usage of the primaries (reliable placement,
(2)), Active Standby traffic, and the load price of all replicas. The placements of every query with
one change (`candidate_moves`) are evaluated at once; the one with the best *net gain* is taken,

    gain > price of its moves + coordinate uncertainty + hysteresis        (`moves`)

and the search goes on from there, until nothing pays or the churn budget is spent.

*Every prefix is legal.* Moves come in an order in which each of them leaves all operators of the
query with their recovery bound, deadline, failure domains and capacities kept (`legal_order`). A
move is a planned failover: a third replica is started on the target and becomes warm, roles change
over, the old replica is retired. So a target must have room for the new replica before any other
replica leaves it.

*No bouncing.* A change is made only if it gains more than twice the error bound of the view, so
noise within the bound cannot reverse it; and measured load moves with the replicas that cause it
(`running`). Since each change lowers the true cost, noise cannot lead in a circle either.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from foundation.arrays import FloatArray, IntArray
from placement.errors import RunningError
from placement.network import NetworkView
from placement.rebalancing.candidate_moves import CandidateMoves
from placement.rebalancing.legal_order import after_each, legal_order
from placement.rebalancing.move_evaluation import (
    LEGAL,
    REASONS,
    ChangeStep,
    EvaluatedMoves,
    MoveEvaluation,
)
from placement.rebalancing.moves import (
    Move,
    MoveKind,
    PlacementChange,
    Reason,
    RebalanceSettings,
    Rebalancing,
)
from placement.rebalancing.running import RunningQuery, as_running, running_load
from placement.records import Pairs, Request
from placement.settings import Settings

ROUNDING = 1e-9
"""Share of the whole cost by which sums of doubles may be off; a smaller gain is none."""


def rebalance(
    requests: Sequence[Request],
    running: Pairs,
    view: NetworkView,
    *,
    state_bytes: Mapping[str, float],
    settings: Settings | None = None,
    rebalancing: RebalanceSettings | None = None,
) -> Rebalancing:
    """Changes of a running placement that are worth it under a new view.

    Parameters
    ----------
    requests
        The running queries, with the rates as they are now.
    running
        Operator → nodes of its primary and its secondary, for all operators to be placed.
    view
        Nodes, latencies and loads as they are now.
    state_bytes
        State that a replica of each operator needs in order to become warm; an operator that is
        not in there has none.
    settings
        The planner's: CPU axis and cost of a link.
    rebalancing
        Margins and budget.

    Returns
    -------
    Rebalancing
        Without changes if nothing is worth it.

    Raises
    ------
    GraphError, NetworkError
        If queries and network contradict each other.
    RunningError
        If `running` or `state_bytes` do not fit the queries; `Stranded` if a replica's node is gone
        or takes no operators.
    """
    queries = as_running(requests, running, view)
    _check_states(state_bytes, queries)
    search = _Search(
        queries, view, state_bytes, settings or Settings(), rebalancing or RebalanceSettings()
    )
    return search.run()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Options:
    """The changes that are open to one query.

    Attributes
    ----------
    evaluated
        Its placements with one change; the first changes nothing.
    """

    query: RunningQuery
    evaluation: MoveEvaluation
    evaluated: EvaluatedMoves

    def cost(self, axis_ms: FloatArray) -> float:
        """The query's part of the objective: usage, and load prices of its replicas, bytes."""
        graph = self.query.request.graph
        return self.evaluation.usage + sum(
            graph.input_rate(name) * float(axis_ms[list(pair)].sum()) / 1e3
            for name, pair in self.query.places.items()
        )

    def settle(self, option: int) -> None:
        """Make an option the running placement; all options are void then."""
        batch, column = self.evaluated.batch, self.evaluation.evaluator.column
        for name, (primary, secondary) in list(self.query.places.items()):
            at = (option, column[name])
            after = int(batch.primaries[at]), int(batch.secondaries[at])
            shares_ms = self.query.shares_ms[name]
            # A replica that comes takes over the measured share of the one that leaves.
            if after[0] == secondary or after[1] == primary:
                shares_ms = shares_ms[1], shares_ms[0]
            self.query.places[name], self.query.shares_ms[name] = after, shares_ms


class _Search:
    """Greedy descent: the best change, then the best one after it."""

    def __init__(
        self,
        queries: Sequence[RunningQuery],
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
    ) -> None:
        self._view = view
        self._state_bytes = state_bytes
        self._settings = settings
        self._rebalancing = rebalancing
        self._load = running_load(view, settings, queries)
        self._options = [self._open(query) for query in queries]
        self._cost = (
            sum(options.evaluation.usage for options in self._options)
            + self._load.total_price_bytes()
        )
        self._moves_left = rebalancing.max_moves
        self._bytes_left = rebalancing.max_bytes

    def run(self) -> Rebalancing:
        """Make changes until nothing is worth it."""
        cost_before = self._cost
        changes: list[PlacementChange] = []
        all_tried = len(self._view.hosts) <= self._rebalancing.candidates
        fresh = True
        while True:
            if (best := self._best()) is not None:
                changes.append(self._make(*best))
                fresh = False
            elif fresh or all_tried or not self._moves_left:
                break
            else:
                # Which candidates are the cheapest may have changed with the load.
                self._options = [self._open(options.query) for options in self._options]
                fresh = True
        return Rebalancing(
            changes=tuple(changes),
            cost_before=cost_before,
            cost_after=self._cost,
            places={
                operator: (self._view.nodes[primary].name, self._view.nodes[secondary].name)
                for options in self._options
                for operator, (primary, secondary) in options.query.places.items()
            },
            rejected=self._rejected(),
        )

    def _open(self, query: RunningQuery) -> _Options:
        candidates = CandidateMoves(
            query,
            self._load,
            self._view,
            self._state_bytes,
            self._settings,
            self._rebalancing,
        )
        evaluation = candidates.evaluation
        return _Options(
            query=query,
            evaluation=evaluation,
            evaluated=evaluation.evaluate(candidates.batch()),
        )

    def _best(self) -> tuple[int, int, list[ChangeStep]] | None:
        """Query, option and order of the change with the greatest net gain, if one is worth it.

        Ties go to the first query, operator and node.
        """
        least = ROUNDING * abs(self._cost)
        while True:
            axis_ms = self._load.axis_ms()
            nets = [self._net(options, axis_ms) for options in self._options]
            tops = [float(net.max()) for net in nets]
            if max(tops, default=-math.inf) <= least:
                return None
            query = int(np.argmax(tops))
            option = int(np.argmax(nets[query]))
            options = self._options[query]
            order = legal_order(options.evaluation, options.evaluated.batch, option)
            if order is not None:
                return query, option, order
            options.evaluated.findings[option] = REASONS.index(Reason.NO_LEGAL_ORDER)

    def _net(self, options: _Options, axis_ms: FloatArray) -> FloatArray:
        """Net gain of every option; −∞ for those that may not be taken."""
        evaluated = options.evaluated
        net = self._gain(evaluated) - self._margin(options, axis_ms)
        net[self._findings(evaluated) != LEGAL] = -math.inf
        shipped = evaluated.bytes_to_ship.sum(axis=1)
        net[(evaluated.moves > self._moves_left) | (shipped > self._bytes_left)] = -math.inf
        return net

    def _gain(self, evaluated: EvaluatedMoves) -> FloatArray:
        count = len(evaluated.usage_gain)
        return evaluated.usage_gain - self._load.price_change(evaluated.load_delta, count)

    def _margin(self, options: _Options, axis_ms: FloatArray) -> FloatArray:
        """The bytes that a gain has to exceed."""
        evaluated = options.evaluated
        hysteresis = evaluated.moves * self._hysteresis(options, axis_ms)
        return evaluated.price.sum(axis=1) + evaluated.uncertainty + hysteresis

    def _hysteresis(self, options: _Options, axis_ms: FloatArray) -> float:
        """The bytes that each move has to gain in any case."""
        share = self._rebalancing.hysteresis_share * options.cost(axis_ms)
        return max(share, self._rebalancing.hysteresis_bytes)

    def _findings(self, evaluated: EvaluatedMoves) -> IntArray:
        full = ~self._load.has_room_for(evaluated.load_delta, len(evaluated.findings))
        capacity = REASONS.index(Reason.CAPACITY)
        return np.where((evaluated.findings == LEGAL) & full, capacity, evaluated.findings)

    def _make(self, query: int, option: int, order: Sequence[ChangeStep]) -> PlacementChange:
        """Carry a change out, and tell the effect of each of its moves."""
        options = self._options[query]
        hysteresis = self._hysteresis(options, self._load.axis_ms())
        on_the_way = after_each(options.evaluation.base, order)
        reached = self._gain(options.evaluation.evaluate(on_the_way))
        moves: list[Move] = []
        for step, gain in zip(order, np.diff(reached, prepend=0.0).tolist(), strict=True):
            self._cost -= gain
            moves.append(self._move(options, option, step, gain))
        self._moves_left -= len(moves)
        self._bytes_left -= sum(move.bytes_to_ship for move in moves)
        self._load = self._load.with_delta(options.evaluated.load_delta.of(option))
        options.settle(option)
        self._options[query] = self._open(options.query)
        return PlacementChange(
            query=options.query.request.graph.name,
            moves=tuple(moves),
            uncertainty=float(options.evaluated.uncertainty[option]),
            hysteresis=hysteresis * len(moves),
        )

    def _move(self, options: _Options, option: int, step: ChangeStep, gain: float) -> Move:
        graph, evaluated = options.query.request.graph, options.evaluated
        replica = 1 if step.kind is MoveKind.SECONDARY else 0
        source, target = (
            self._view.nodes[pair[replica]].name for pair in (step.before, step.after)
        )
        if step.kind is MoveKind.SWAP:
            handover_s = self._view.one_way_ms(source, target) / 1e3
            shipped, seconds, price = 0.0, handover_s, 0.0
        else:
            at = (option, step.operator)
            shipped, seconds, price = (
                float(values[at])
                for values in (evaluated.bytes_to_ship, evaluated.seconds, evaluated.price)
            )
        return Move(
            query=graph.name,
            operator=graph.order[step.operator],
            kind=step.kind,
            source=source,
            target=target,
            bytes_to_ship=shipped,
            seconds=seconds,
            gain=gain,
            price=price,
            cost_after=self._cost,
        )

    def _rejected(self) -> dict[Reason, int]:
        """Why the cheaper placements that are left are not taken."""
        counts: Counter[Reason] = Counter()
        axis_ms = self._load.axis_ms()
        for options in self._options:
            gain = self._gain(options.evaluated)
            findings = self._findings(options.evaluated)
            small = (findings == LEGAL) & (gain <= self._margin(options, axis_ms))
            findings[small] = REASONS.index(Reason.MARGIN)
            findings[findings == LEGAL] = REASONS.index(Reason.BUDGET)
            cheaper: list[int] = findings[gain > ROUNDING * abs(self._cost)].tolist()
            counts.update(REASONS[finding] for finding in cheaper)
        return dict(counts)


def _check_states(state_bytes: Mapping[str, float], queries: Sequence[RunningQuery]) -> None:
    operators = {name for query in queries for name in query.places}
    for name, size in state_bytes.items():
        if name not in operators:
            raise RunningError(name, "has a size of state given, but is in none of the queries")
        if not math.isfinite(size) or size < 0:
            raise RunningError(name, f"a state of {size} bytes is not a number ≥ 0")
