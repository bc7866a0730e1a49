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
import numpy.typing as npt

from placement.assess import Pairs
from placement.errors import RunningError
from placement.network import NetworkView
from placement.rebalancing.moves import Change, Move, Reason, RebalancePlan, RebalanceSettings, Role
from placement.rebalancing.options import Options
from placement.rebalancing.running import Crowd, RunningQuery, as_running
from placement.rebalancing.weighing import LEGAL, REASONS, Step, Weighed
from placement.records import Request
from placement.settings import Settings

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

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
        self._crowd = Crowd(view, settings, queries)
        self._options = [self._open(query) for query in queries]
        self._cost = sum(options.scales.usage for options in self._options) + self._crowd.price()
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
                self._options = [self._open(query) for query in self._queries]
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

    def _open(self, query: RunningQuery) -> Options:
        return Options(
            query,
            self._crowd,
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
            axis_ms = self._crowd.axis_ms()
            nets = [self._net(options, axis_ms) for options in self._options]
            tops = [float(net.max()) for net in nets]
            if max(tops, default=-math.inf) <= least:
                return None
            query = int(np.argmax(tops))
            option = int(np.argmax(nets[query]))
            order = self._options[query].legal_order(option)
            if order is not None:
                return query, option, order

    def _net(self, options: Options, axis_ms: FloatArray) -> FloatArray:
        """Net gain of every option; −∞ for those that may not be taken."""
        weighed = options.weighed
        net = self._gain(weighed) - self._margin(options, axis_ms)
        net[self._verdicts(weighed) != LEGAL] = -math.inf
        shipped = weighed.bytes_to_ship.sum(axis=1)
        net[(weighed.moves > self._moves_left) | (shipped > self._bytes_left)] = -math.inf
        return net

    def _gain(self, weighed: Weighed) -> FloatArray:
        count = len(weighed.usage_gain)
        return weighed.usage_gain - self._crowd.price_change(weighed.touches, count)

    def _margin(self, options: Options, axis_ms: FloatArray) -> FloatArray:
        """What a gain has to exceed, bytes."""
        weighed = options.weighed
        hysteresis = weighed.moves * self._hysteresis(options, axis_ms)
        return weighed.price.sum(axis=1) + weighed.uncertainty + hysteresis

    def _hysteresis(self, options: Options, axis_ms: FloatArray) -> float:
        """What each move has to gain in any case, bytes."""
        share = self._rebalancing.hysteresis_share * options.cost(axis_ms)
        return max(share, self._rebalancing.hysteresis_bytes)

    def _verdicts(self, weighed: Weighed) -> IntArray:
        full = ~self._crowd.has_room(weighed.touches, len(weighed.verdicts))
        capacity = REASONS.index(Reason.CAPACITY)
        return np.where((weighed.verdicts == LEGAL) & full, capacity, weighed.verdicts)

    def _make(self, query: int, option: int, order: Sequence[Step]) -> Change:
        """Carry a change out, and say what each of its moves does."""
        options = self._options[query]
        hysteresis = self._hysteresis(options, self._crowd.axis_ms())
        reached = self._gain(options.scales.weigh(options.after_each(order)))
        moves: list[Move] = []
        for step, gain in zip(order, np.diff(reached, prepend=0.0).tolist(), strict=True):
            self._cost -= gain
            moves.append(self._move(options, option, step, gain))
        self._moves_left -= len(moves)
        self._bytes_left -= sum(move.bytes_to_ship for move in moves)
        self._crowd.apply(options.weighed.touches_of(option))
        options.settle(option)
        self._options[query] = self._open(options.query)
        return Change(
            query=options.query.request.graph.name,
            moves=tuple(moves),
            uncertainty=float(options.weighed.uncertainty[option]),
            hysteresis=hysteresis * len(moves),
        )

    def _move(self, options: Options, option: int, step: Step, gain: float) -> Move:
        graph, trials, weighed = options.query.request.graph, options.scales.trials, options.weighed
        at = (option, step.operator)
        if step.role is Role.SWAP:
            handover_s = float(trials.latency_ms[step.before]) / 1e3
            shipped, seconds, price = 0.0, handover_s, 0.0
        else:
            shipped, seconds, price = (
                float(values[at])
                for values in (weighed.bytes_to_ship, weighed.seconds, weighed.price)
            )
        copy = 1 if step.role is Role.SECONDARY else 0
        source, target = int(trials.nodes[step.before[copy]]), int(trials.nodes[step.after[copy]])
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
        axis_ms = self._crowd.axis_ms()
        for options in self._options:
            gain = self._gain(options.weighed)
            verdicts = self._verdicts(options.weighed)
            small = (verdicts == LEGAL) & (gain <= self._margin(options, axis_ms))
            verdicts[small] = REASONS.index(Reason.MARGIN)
            verdicts[verdicts == LEGAL] = REASONS.index(Reason.BUDGET)
            cheaper: list[int] = verdicts[gain > ROUNDING * abs(self._cost)].tolist()
            counts.update(REASONS[verdict] for verdict in cheaper)
        return dict(counts)


def _check_states(state_bytes: Mapping[str, float], queries: Sequence[RunningQuery]) -> None:
    operators = {name for query in queries for name in query.places}
    for name, size in state_bytes.items():
        if name not in operators:
            raise RunningError(name, "has a size of state given, but is in none of the queries")
        if not math.isfinite(size) or size < 0:
            raise RunningError(name, f"a state of {size} bytes is not a number ≥ 0")
