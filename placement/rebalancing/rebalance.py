"""The few moves worth making: from a running placement and a new view of the network.

The planner lets what runs stay (`placement.planner`); places grow stale as latencies, loads and
rates change. This searches for changes that pay, and says what they cost and in which order they
are safe. It improves what is whole: what has lost its node is the planner's to replace.

The objective is the planner's, bytes/s × s: network usage of the primaries (reliable placement,
(2)), Active Standby traffic, and the load price of all copies. The neighbouring placements of every
query (`neighbours`) are weighed at once; the one with the best *net gain* is taken,

    gain > price of its moves + coordinate uncertainty + hysteresis        (`moves`)

and the search goes on from there, until nothing pays or the churn budget is spent.

*Every prefix is legal.* Moves come in an order in which each of them leaves all operators of the
query with their recovery bound, deadline, failure domains and capacities kept. A move is a planned
failover: a third copy is brought up on the target and becomes warm, roles change over, the old copy
is retired; so a target must hold the new copy before anything leaves.

*No bouncing.* A change that is made gains more than twice what the view can be wrong by, hence is
one for every other view within the same errors; and measured load moves with the copies that cause
it (`running`). So no noise moves an operator back, and since each change lowers the true
cost, noise cannot lead in a circle either.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from placement.assess import Pairs
from placement.errors import RunningError
from placement.network import NetworkView
from placement.rebalancing.legal_order import LegalOrder
from placement.rebalancing.move_evaluation import LEGAL, REASONS, EvaluatedMoves, Step
from placement.rebalancing.moves import (
    Change,
    Move,
    MovedRole,
    Reason,
    RebalancePlan,
    RebalanceSettings,
)
from placement.rebalancing.running import NodeLoad, RunningQuery, as_running
from placement.records import Request
from placement.settings import Settings
from topology.arrays import FloatArray, IntArray

ROUNDING = 1e-9
"""Share of the whole cost that sums of doubles may be off by; less is no gain."""


def rebalance(
    requests: Sequence[Request],
    running: Pairs,
    view: NetworkView,
    *,
    state_bytes: Mapping[str, float],
    settings: Settings | None = None,
    rebalancing: RebalanceSettings | None = None,
) -> RebalancePlan:
    """Changes of a running placement that are worth it under a new view.

    Parameters
    ----------
    requests
        What runs, with the rates as they are now.
    running
        Operator → nodes of its primary and its secondary, for all operators to be placed.
    view
        Nodes, latencies and loads as they are now.
    state_bytes
        What a copy of each operator needs in order to become warm; an operator that is not in
        there has no state.
    settings
        The planner's: CPU axis and cost of a link.
    rebalancing
        Margins and budget.

    Returns
    -------
    RebalancePlan
        Without changes if nothing is worth it.

    Raises
    ------
    GraphError, NetworkError
        If queries and network contradict each other.
    RunningError
        If `running` or `state_bytes` do not fit the queries; `Stranded` if a copy's node is gone
        or takes no operators.
    """
    queries = as_running(requests, running, view)
    _check_states(state_bytes, queries)
    search = _Search(
        queries, view, state_bytes, settings or Settings(), rebalancing or RebalanceSettings()
    )
    return search.run()


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
        self._queries = queries
        self._view = view
        self._state_bytes = state_bytes
        self._settings = settings
        self._rebalancing = rebalancing
        self._node_load = NodeLoad(view, settings, queries)
        self._legal_order = [self._open(query) for query in queries]
        self._cost = (
            sum(legal_order.evaluation.usage for legal_order in self._legal_order)
            + self._node_load.price()
        )
        self._moves_left = rebalancing.max_moves
        self._bytes_left = rebalancing.max_bytes

    def run(self) -> RebalancePlan:
        """Make changes until nothing is worth it."""
        cost_before = self._cost
        changes: list[Change] = []
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
                self._legal_order = [self._open(query) for query in self._queries]
                fresh = True
        return RebalancePlan(
            changes=tuple(changes),
            cost_before=cost_before,
            cost_after=self._cost,
            places={
                operator: (self._view.nodes[primary].name, self._view.nodes[secondary].name)
                for query in self._queries
                for operator, (primary, secondary) in query.places.items()
            },
            rejected=self._rejected(),
        )

    def _open(self, query: RunningQuery) -> LegalOrder:
        return LegalOrder(
            query,
            self._node_load,
            self._view,
            self._state_bytes,
            self._settings,
            self._rebalancing,
        )

    def _best(self) -> tuple[int, int, list[Step]] | None:
        """Query, option and order of the change with the greatest net gain, if one is worth it.

        Ties go to the first query, operator and node.
        """
        least = ROUNDING * abs(self._cost)
        while True:
            axis_ms = self._node_load.axis_ms()
            nets = [self._net(legal_order, axis_ms) for legal_order in self._legal_order]
            tops = [float(net.max()) for net in nets]
            if max(tops, default=-math.inf) <= least:
                return None
            query = int(np.argmax(tops))
            option = int(np.argmax(nets[query]))
            order = self._legal_order[query].legal_order(option)
            if order is not None:
                return query, option, order

    def _net(self, legal_order: LegalOrder, axis_ms: FloatArray) -> FloatArray:
        """Net gain of every option; −∞ for those that may not be taken."""
        evaluated = legal_order.evaluated
        net = self._gain(evaluated) - self._margin(legal_order, axis_ms)
        net[self._findings(evaluated) != LEGAL] = -math.inf
        shipped = evaluated.bytes_to_ship.sum(axis=1)
        net[(evaluated.moves > self._moves_left) | (shipped > self._bytes_left)] = -math.inf
        return net

    def _gain(self, evaluated: EvaluatedMoves) -> FloatArray:
        count = len(evaluated.usage_gain)
        return evaluated.usage_gain - self._node_load.price_change(evaluated.load_delta, count)

    def _margin(self, legal_order: LegalOrder, axis_ms: FloatArray) -> FloatArray:
        """What a gain has to exceed, bytes."""
        evaluated = legal_order.evaluated
        hysteresis = evaluated.moves * self._hysteresis(legal_order, axis_ms)
        return evaluated.price.sum(axis=1) + evaluated.uncertainty + hysteresis

    def _hysteresis(self, legal_order: LegalOrder, axis_ms: FloatArray) -> float:
        """What each move has to gain in any case, bytes."""
        share = self._rebalancing.hysteresis_share * legal_order.cost(axis_ms)
        return max(share, self._rebalancing.hysteresis_bytes)

    def _findings(self, evaluated: EvaluatedMoves) -> IntArray:
        full = ~self._node_load.has_room(evaluated.load_delta, len(evaluated.findings))
        capacity = REASONS.index(Reason.CAPACITY)
        return np.where((evaluated.findings == LEGAL) & full, capacity, evaluated.findings)

    def _make(self, query: int, option: int, order: Sequence[Step]) -> Change:
        """Carry a change out, and say what each of its moves does."""
        legal_order = self._legal_order[query]
        hysteresis = self._hysteresis(legal_order, self._node_load.axis_ms())
        reached = self._gain(legal_order.evaluation.evaluate(legal_order.after_each(order)))
        moves: list[Move] = []
        for step, gain in zip(order, np.diff(reached, prepend=0.0).tolist(), strict=True):
            self._cost -= gain
            moves.append(self._move(legal_order, option, step, gain))
        self._moves_left -= len(moves)
        self._bytes_left -= sum(move.bytes_to_ship for move in moves)
        self._node_load.apply(legal_order.evaluated.load_delta_of(option))
        legal_order.settle(option)
        self._legal_order[query] = self._open(legal_order.query)
        return Change(
            query=legal_order.query.request.graph.name,
            moves=tuple(moves),
            uncertainty=float(legal_order.evaluated.uncertainty[option]),
            hysteresis=hysteresis * len(moves),
        )

    def _move(self, legal_order: LegalOrder, option: int, step: Step, gain: float) -> Move:
        graph, batch_evaluation, evaluated = (
            legal_order.query.request.graph,
            legal_order.evaluation.batch_evaluation,
            legal_order.evaluated,
        )
        at = (option, step.operator)
        if step.role is MovedRole.SWAP:
            handover_s = float(batch_evaluation.latency_ms[step.before]) / 1e3
            shipped, seconds, price = 0.0, handover_s, 0.0
        else:
            shipped, seconds, price = (
                float(values[at])
                for values in (evaluated.bytes_to_ship, evaluated.seconds, evaluated.price)
            )
        replica = 1 if step.role is MovedRole.SECONDARY else 0
        source, target = (
            int(batch_evaluation.nodes[step.before[replica]]),
            int(batch_evaluation.nodes[step.after[replica]]),
        )
        return Move(
            query=graph.name,
            operator=graph.order[step.operator],
            role=step.role,
            source=self._view.nodes[source].name,
            target=self._view.nodes[target].name,
            bytes_to_ship=shipped,
            seconds=seconds,
            gain=gain,
            price=price,
            cost_after=self._cost,
        )

    def _rejected(self) -> dict[Reason, int]:
        """Why the cheaper placements that are left are not taken up."""
        counts: Counter[Reason] = Counter()
        axis_ms = self._node_load.axis_ms()
        for legal_order in self._legal_order:
            gain = self._gain(legal_order.evaluated)
            findings = self._findings(legal_order.evaluated)
            small = (findings == LEGAL) & (gain <= self._margin(legal_order, axis_ms))
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
