"""The few moves worth making: from a running placement and a new view of the network.

The planner lets running replicas stay (`placement.planner`); places grow stale as latencies, loads
and rates change. Rebalancing searches for changes that pay, and tells their price and an order in
which they are safe. It improves placements that are whole: the planner replaces replicas that have
lost their node.

The objective is the planner's (`placement.evaluation.cost`). The placements of every query with one
change (`candidate_moves`) are evaluated at once; the one with the best *net gain* is taken,

    gain > price of its moves + coordinate uncertainty + hysteresis        (`moves`)

and the search goes on from there, until nothing pays or the churn budget is spent. With other goals
(`goals`) it goes on for the next one.

*Every prefix is legal.* Moves come in an order in which each of them leaves all operators of the
query with their recovery bound, deadline, failure domains and capacities kept. A move is a planned
failover: a third replica is started on the target and becomes warm, roles change over, the old
replica is retired. So a target must have room for the new replica before any other replica leaves
it. Whoever knows more than this quick test says judges each change before it is taken
(`moves.Judge`); a change that is refused is left out, and the next best one tried.

*No bouncing.* A change is made only if it gains more than twice the error bound of the view, so
noise within the bound cannot reverse it; and measured load moves with the replicas that cause it
(`running`). Since each change lowers the true cost, noise cannot lead in a circle either.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.errors import RunningError
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.rebalancing.candidate_moves import ROUNDING, CandidateMoves, hosts_near
from placement.rebalancing.goals import NETWORK, WORSE, Goal, GoalKind
from placement.rebalancing.move_evaluation import (
    LEGAL,
    REASONS,
    ChangeStep,
    EvaluatedMoves,
    MoveEvaluation,
)
from placement.rebalancing.moves import (
    Judge,
    Move,
    MoveKind,
    Obstacle,
    PlacementChange,
    Reason,
    RebalanceSettings,
    Rebalancing,
    RejectedChange,
    ReplicaMove,
    too_little,
)
from placement.rebalancing.running import RunningQuery, as_running, running_load
from placement.records import Pairs, Request
from placement.settings import Settings

MOST_TOLD = 10
"""Rejected changes that are told one by one."""


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
    return improve(
        queries,
        view,
        state_bytes=state_bytes,
        settings=settings or Settings(),
        rebalancing=rebalancing or RebalanceSettings(),
    )


def improve(
    queries: Sequence[RunningQuery],
    view: NetworkView,
    *,
    state_bytes: Mapping[str, float],
    settings: Settings,
    rebalancing: RebalanceSettings,
    goals: Sequence[Goal] = (NETWORK,),
    judge: Judge | None = None,
    load: Load | None = None,
) -> Rebalancing:
    """Changes of running queries that serve goals, one after the other.

    Parameters
    ----------
    queries
        By name; all that run, since they make nodes busy.
    judge
        Has to agree to each change; None: the quick test is all.
    load
        Of all that runs; None: that of the queries.
    """
    load = load or running_load(view, settings, queries)
    search = _Search(queries, load, view, state_bytes, settings, rebalancing, judge)
    return search.run(goals)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Options:
    """The changes that are open to one query.

    Attributes
    ----------
    evaluated
        Its placements with one change that may serve the goal.
    """

    query: RunningQuery
    evaluation: MoveEvaluation
    evaluated: EvaluatedMoves

    def gains(self, goal: Goal, evaluated: EvaluatedMoves | None, load: Load) -> FloatArray:
        """By how much placements, all of these if None, serve a goal."""
        return goal.gains(self.query, self.evaluation, evaluated or self.evaluated, load)


class _Search:
    """Greedy descent: the best change, then the best one after it."""

    def __init__(
        self,
        queries: Sequence[RunningQuery],
        load: Load,
        view: NetworkView,
        state_bytes: Mapping[str, float],
        settings: Settings,
        rebalancing: RebalanceSettings,
        judge: Judge | None,
    ) -> None:
        self._queries = list(queries)
        self._view = view
        self._state_bytes = state_bytes
        self._settings = settings
        self._rebalancing = rebalancing
        self._judge = judge
        self._load = load
        self._options: list[_Options] = []
        self._cost = 0.0
        self._reached: dict[Goal, tuple[float, float]] = {}
        """Goal whose turn is over → its measure then and now."""
        self._moved: set[str] = set()
        """Operators that were moved for such a goal: they stay, so that nothing moves twice."""
        self._moves_left = rebalancing.max_moves
        self._bytes_left = rebalancing.max_bytes
        self._judged_left = rebalancing.most_judged
        self._refused: dict[tuple[ReplicaMove, ...], RejectedChange] = {}
        """What the judge has refused, at whatever point of the search."""
        self._verdicts: dict[str, dict[tuple[ReplicaMove, ...], Obstacle]] = {}
        """Those refusals that still hold, by query."""

    def run(self, goals: Sequence[Goal]) -> Rebalancing:
        """Make changes until nothing is worth it."""
        self._open_all(goals[0])
        opened = goals[0]
        cost_before = self._cost = self._total(NETWORK)
        changes: list[PlacementChange] = []
        for goal in goals:
            if goal != opened:
                self._open_all(goal)
                opened = goal
            made = self._pursue(goal)
            changes += made
            self._moved |= {move.operator for change in made for move in change.moves}
            total = self._total(goal)
            self._reached[goal] = total, total
        # What the first goal lacks, it does not lack because of those after it.
        self._reached.clear()
        self._moved.clear()
        if goals[0] != opened:
            self._open_all(goals[0])
        rejected, dearest = self._rejected(goals[0])
        return Rebalancing(
            changes=tuple(changes),
            cost_before=cost_before,
            cost_after=self._cost,
            places={
                operator: (self._view.nodes[primary].name, self._view.nodes[secondary].name)
                for options in self._options
                for operator, (primary, secondary) in options.query.places.items()
            },
            rejected=rejected,
            dearest=dearest,
        )

    def _pursue(self, goal: Goal) -> list[PlacementChange]:
        changes: list[PlacementChange] = []
        fresh = True
        while True:
            if (best := self._best(goal)) is not None:
                changes.append(self._make(goal, *best))
                fresh = len(self._options) == 1
            elif fresh or not self._moves_left:
                return changes
            else:
                # Which changes lower the cost may have changed with the load.
                self._open_all(goal)
                fresh = True

    def _total(self, goal: Goal) -> float:
        own = sum(goal.measure(each.query, each.evaluation) for each in self._options)
        return own + goal.shared(self._load)

    def _open_all(self, goal: Goal) -> None:
        self._options = [self._open(goal, query) for query in self._queries]

    def _open(self, goal: Goal, query: RunningQuery) -> _Options:
        view, settings = self._view, self._settings
        targets = hosts_near(query, self._load, view, settings)
        nodes = np.union1d(targets, query.nodes(view))
        evaluation = MoveEvaluation(
            query, view, nodes, self._state_bytes, settings, self._rebalancing
        )
        batch, usage_gain, gain = CandidateMoves(query, evaluation, targets, self._load).every()
        if goal.kind is GoalKind.NETWORK:
            # Whatever does not lower the cost needs no further look.
            batch, usage_gain = batch.take(gain > 0), usage_gain[gain > 0]
        return _Options(
            query=query, evaluation=evaluation, evaluated=evaluation.evaluate(batch, usage_gain)
        )

    def _best(self, goal: Goal) -> tuple[int, int, list[ChangeStep], Sequence[RunningQuery]] | None:
        """The change that serves the goal best, if one is worth it, with its order.

        Ties go to the first query, operator and node.

        Returns
        -------
        tuple
            Query, option, order, and what the judge has said of other queries.
        """
        least = ROUNDING * abs(self._cost) if goal.kind is GoalKind.NETWORK else 0.0
        nets = [self._net(goal, options) for options in self._options]
        while True:
            tops = [float(net.max(initial=-math.inf)) for net in nets]
            if max(tops, default=-math.inf) <= least:
                return None
            query = int(np.argmax(tops))
            option = int(np.argmax(nets[query]))
            options = self._options[query]
            order = options.evaluation.legal_order(options.evaluated.batch, option)
            if order is None:
                options.evaluated.findings[option] = REASONS.index(Reason.NO_LEGAL_ORDER)
            else:
                verdict = self._judgement(options, option, order)
                if not isinstance(verdict, Obstacle):
                    return query, option, order, verdict
                options.evaluated.findings[option] = REASONS.index(verdict.reason)
            nets[query][option] = -math.inf

    def _judgement(
        self, options: _Options, option: int, order: Sequence[ChangeStep]
    ) -> Obstacle | Sequence[RunningQuery]:
        if self._judge is None:
            return ()
        name, moves = options.query.request.graph.name, self._names(options, order)
        known = self._verdicts.setdefault(name, {})
        if moves in known:
            return known[moves]
        if not self._judged_left:
            told = f"{self._rebalancing.most_judged} better changes were judged"
            return Obstacle(reason=Reason.BUDGET, subject=name, told=told)
        self._judged_left -= 1
        verdict = self._judge(name, moves)
        if isinstance(verdict, Obstacle):
            known[moves] = verdict
            gain = float(options.gains(NETWORK, None, self._load)[option])
            self._refused[moves] = RejectedChange(
                query=name, moves=moves, obstacle=verdict, gain=gain
            )
        return verdict

    def _names(self, options: _Options, order: Sequence[ChangeStep]) -> tuple[ReplicaMove, ...]:
        return tuple(self._named(options, step) for step in order)

    def _named(self, options: _Options, step: ChangeStep) -> ReplicaMove:
        replica = 1 if step.kind is MoveKind.SECONDARY else 0
        source, target = (
            self._view.nodes[pair[replica]].name for pair in (step.before, step.after)
        )
        operator = options.query.request.graph.order[step.operator]
        return ReplicaMove(operator, step.kind, source, target)

    def _net(self, goal: Goal, options: _Options) -> FloatArray:
        """Net gain of every option; −∞ for those that may not be taken."""
        evaluated = options.evaluated
        net = self._beyond_margin(goal, options)
        net[self._findings(options) != LEGAL] = -math.inf
        net[self._beyond_budget(evaluated)] = -math.inf
        return net

    def _beyond_budget(self, evaluated: EvaluatedMoves) -> BoolArray:
        shipped = evaluated.bytes_to_ship.sum(axis=1)
        return (evaluated.moves > self._moves_left) | (shipped > self._bytes_left)

    def _beyond_margin(self, goal: Goal, options: _Options) -> FloatArray:
        """By how much options gain more than they have to; not above 0 if they gain too little.

        The margin of other goals than network usage is a share of what the query has of them. What
        evacuates a node gains enough; among that, the cost decides.
        """
        gains = options.gains(goal, None, self._load)
        if goal.kind is GoalKind.NETWORK:
            return gains - self._margin(options)
        if goal.kind is GoalKind.EVACUATE:
            cost = -options.gains(NETWORK, None, self._load)
            most = max(float(np.abs(cost).max(initial=0.0)), 1.0)
            return np.where(gains > 0, 2.0 - cost / most, -math.inf)
        whole = goal.measure(options.query, options.evaluation) or goal.shared(self._load)
        least = max(self._rebalancing.hysteresis_share, ROUNDING) * abs(whole)
        return gains - least * options.evaluated.moves

    def _margin(self, options: _Options) -> FloatArray:
        """The bytes that a gain has to exceed."""
        return options.evaluation.margins(options.evaluated, self._load.axis_ms())

    def _findings(self, options: _Options) -> IntArray:
        findings = options.evaluated.findings
        count = len(findings)
        full = ~self._load.has_room_for(options.evaluated.load_delta, count)
        findings = np.where((findings == LEGAL) & full, REASONS.index(Reason.CAPACITY), findings)
        for goal, (reached, now) in self._reached.items():
            worse = now - options.gains(goal, None, self._load) > reached * (1 + WORSE)
            findings[(findings == LEGAL) & worse] = REASONS.index(Reason.OTHER_GOAL)
        again = self._moves_again(options)
        findings[(findings == LEGAL) & again] = REASONS.index(Reason.OTHER_GOAL)
        return findings

    def _moves_again(self, options: _Options) -> BoolArray:
        """Which options move an operator that was moved for an earlier goal."""
        evaluation, batch = options.evaluation, options.evaluated.batch
        moved = [o for name, o in evaluation.evaluator.column.items() if name in self._moved]
        differs = batch.primaries[:, moved] != evaluation.base.primaries[:, moved]
        differs |= batch.secondaries[:, moved] != evaluation.base.secondaries[:, moved]
        return differs.any(axis=1)

    def _make(
        self,
        goal: Goal,
        query: int,
        option: int,
        order: Sequence[ChangeStep],
        judged: Sequence[RunningQuery],
    ) -> PlacementChange:
        """Carry a change out, and tell the effect of each of its moves."""
        options = self._options[query]
        hysteresis = options.evaluation.hysteresis(self._load.axis_ms())
        on_the_way = options.evaluation.evaluate(options.evaluation.after_each(order))
        reached = options.gains(NETWORK, on_the_way, self._load)
        for earlier, (was, now) in self._reached.items():
            gain = float(options.gains(earlier, None, self._load)[option])
            self._reached[earlier] = was, now - gain
        moves: list[Move] = []
        for step, gain in zip(order, np.diff(reached, prepend=0.0).tolist(), strict=True):
            self._cost -= gain
            moves.append(self._move(options, option, step, gain))
        self._moves_left -= len(moves)
        self._bytes_left -= sum(move.bytes_to_ship for move in moves)
        self._load = self._load.with_delta(options.evaluated.load_delta.of(option))
        options.query.settle(options.evaluated.batch, option)
        changed = {each.request.graph.name: each for each in judged}
        name = options.query.request.graph.name
        for i, each in enumerate(self._options):
            own = each.query.request.graph.name
            if own in changed:
                self._queries[i] = _with_places_of(each.query, changed[own])
            if own in changed or own == name:
                self._verdicts.pop(own, None)
                self._options[i] = self._open(goal, self._queries[i])
        return PlacementChange(
            query=name,
            goal=goal.kind.value,
            moves=tuple(moves),
            uncertainty=float(options.evaluated.uncertainty[option]),
            hysteresis=hysteresis * len(moves),
        )

    def _move(self, options: _Options, option: int, step: ChangeStep, gain: float) -> Move:
        evaluated, named = options.evaluated, self._named(options, step)
        if step.kind is MoveKind.SWAP:
            handover_s = self._view.one_way_ms(named.source, named.target) / 1e3
            shipped, seconds, price = 0.0, handover_s, 0.0
        else:
            at = (option, step.operator)
            shipped, seconds, price = (
                float(values[at])
                for values in (evaluated.bytes_to_ship, evaluated.seconds, evaluated.price)
            )
        return Move(
            query=options.query.request.graph.name,
            operator=named.operator,
            kind=named.kind,
            source=named.source,
            target=named.target,
            bytes_to_ship=shipped,
            seconds=seconds,
            gain=gain,
            price=price,
            cost_after=self._cost,
        )

    def _rejected(self, goal: Goal) -> tuple[dict[Reason, int], tuple[RejectedChange, ...]]:
        """Why the placements that are left and serve a goal are not taken; the dearest of them."""
        counts = Counter(each.obstacle.reason for each in self._refused.values())
        found: list[tuple[float, int, int, int]] = []
        least = ROUNDING * abs(self._cost) if goal.kind is GoalKind.NETWORK else 0.0
        for number, options in enumerate(self._options):
            gains = options.gains(goal, None, self._load)
            findings = self._findings(options)
            small = (findings == LEGAL) & (self._beyond_margin(goal, options) <= 0)
            findings[small] = REASONS.index(Reason.MARGIN)
            findings[findings == LEGAL] = REASONS.index(Reason.BUDGET)
            rows = self._unjudged(options, np.flatnonzero(gains > least).tolist())
            numbers: list[int] = findings[rows].tolist()
            counts.update(REASONS[finding] for finding in numbers)
            found += [
                (float(gains[row]), -number, -row, finding)
                for row, finding in zip(rows, numbers, strict=True)
            ]
        told = [
            self._told(self._options[-number], -row, finding)
            for _, number, row, finding in heapq.nlargest(MOST_TOLD, found)
        ]
        every = [*self._refused.values(), *told]
        return dict(counts), tuple(heapq.nlargest(MOST_TOLD, every, key=lambda each: each.gain))

    def _unjudged(self, options: _Options, rows: list[int]) -> list[int]:
        """Those options that the judge has not refused."""
        known = self._verdicts.get(options.query.request.graph.name)
        if not known:
            return rows
        return [row for row in rows if self._names(options, self._steps(options, row)) not in known]

    def _steps(self, options: _Options, row: int) -> list[ChangeStep]:
        """The steps to an option, in a legal order if there is one."""
        evaluation, batch = options.evaluation, options.evaluated.batch
        if (order := evaluation.legal_order(batch, row)) is not None:
            return order
        return [step for path in evaluation.steps(batch, row).values() for step in path]

    def _told(self, options: _Options, row: int, finding: int) -> RejectedChange:
        evaluation, evaluated = options.evaluation, options.evaluated
        name = options.query.request.graph.name
        gain = float(options.gains(NETWORK, None, self._load)[row])
        obstacle = None
        if REASONS[finding] is Reason.MARGIN:
            margin = float(self._margin(options)[row])
            obstacle = Obstacle(
                reason=Reason.MARGIN,
                subject=name,
                value=gain,
                limit=margin,
                told=too_little(gain, margin),
            )
        return RejectedChange(
            query=name,
            moves=self._names(options, self._steps(options, row)),
            obstacle=obstacle or evaluation.obstacle(evaluated, row, finding, self._load),
            gain=gain,
        )


def _with_places_of(query: RunningQuery, now: RunningQuery) -> RunningQuery:
    """A query as the judge describes it, where it is."""
    return replace(now, places=query.places, shares_ms=query.shares_ms)


def _check_states(state_bytes: Mapping[str, float], queries: Sequence[RunningQuery]) -> None:
    operators = {name for query in queries for name in query.places}
    for name, size in state_bytes.items():
        if name not in operators:
            raise RunningError(name, "has a size of state given, but is in none of the queries")
        if not math.isfinite(size) or size < 0:
            raise RunningError(name, f"a state of {size} bytes is not a number ≥ 0")
