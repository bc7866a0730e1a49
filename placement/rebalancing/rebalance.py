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
from dataclasses import dataclass, field, replace

import numpy as np

from foundation.arrays import BoolArray, FloatArray, IntArray
from placement.errors import RunningError
from placement.evaluation.load import Load
from placement.network import NetworkView
from placement.rebalancing.candidate_moves import CandidateMoves
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
)
from placement.rebalancing.running import RunningQuery, as_running, running_load
from placement.records import Pairs, Request
from placement.settings import Settings

ROUNDING = 1e-9
"""Share of the whole cost by which sums of doubles may be off; a smaller gain is none."""

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
) -> Rebalancing:
    """Changes of running queries that serve goals, one after the other.

    Parameters
    ----------
    queries
        By name; all that run, since they make nodes busy.
    judge
        Has to agree to each change; None: the quick test is all.
    """
    search = _Search(queries, view, state_bytes, settings, rebalancing, judge)
    return search.run(goals)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Options:
    """The changes that are open to one query.

    Attributes
    ----------
    evaluated
        Its placements with one change; the first changes nothing.
    refused
        Rows that the judge has refused.
    """

    query: RunningQuery
    evaluation: MoveEvaluation
    evaluated: EvaluatedMoves
    refused: set[int] = field(default_factory=set[int])

    def cost(self, axis_ms: FloatArray) -> float:
        """The query's part of the objective: usage, and load prices of its replicas, bytes."""
        graph = self.query.request.graph
        return self.evaluation.usage + sum(
            graph.input_rate(name) * float(axis_ms[list(pair)].sum()) / 1e3
            for name, pair in self.query.places.items()
        )

    def gains(self, goal: Goal, evaluated: EvaluatedMoves | None, load: Load) -> FloatArray:
        """By how much placements, all of these if None, serve a goal."""
        return goal.gains(self.query, self.evaluation, evaluated or self.evaluated, load)

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
        judge: Judge | None,
    ) -> None:
        self._view = view
        self._state_bytes = state_bytes
        self._settings = settings
        self._rebalancing = rebalancing
        self._judge = judge
        self._load = running_load(view, settings, queries)
        self._options = [self._open(query) for query in queries]
        self._cost = self._total(NETWORK)
        self._reached: dict[Goal, tuple[float, float]] = {}
        """Goal whose turn is over → its measure then and now."""
        self._moves_left = rebalancing.max_moves
        self._bytes_left = rebalancing.max_bytes
        self._judged_left = rebalancing.most_judged
        self._refused: dict[tuple[ReplicaMove, ...], RejectedChange] = {}
        """What the judge has refused, at whatever point of the search."""

    def run(self, goals: Sequence[Goal]) -> Rebalancing:
        """Make changes until nothing is worth it."""
        cost_before = self._cost
        changes: list[PlacementChange] = []
        for goal in goals:
            changes += self._pursue(goal)
            total = self._total(goal)
            self._reached[goal] = total, total
        # What the first goal lacks, it does not lack because of those after it.
        self._reached.clear()
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
        all_tried = len(self._view.hosts) <= self._rebalancing.candidates
        fresh = True
        while True:
            if (best := self._best(goal)) is not None:
                changes.append(self._make(goal, *best))
                fresh = False
            elif fresh or all_tried or not self._moves_left:
                return changes
            else:
                # Which candidates are the cheapest may have changed with the load.
                self._options = [self._open(options.query) for options in self._options]
                fresh = True

    def _total(self, goal: Goal) -> float:
        own = sum(goal.measure(each.query, each.evaluation) for each in self._options)
        return own + goal.shared(self._load)

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
            tops = [float(net.max()) for net in nets]
            if max(tops, default=-math.inf) <= least:
                return None
            query = int(np.argmax(tops))
            option = int(np.argmax(nets[query]))
            options = self._options[query]
            order = options.evaluation.legal_order(options.evaluated.batch, option)
            if order is None:
                options.evaluated.findings[option] = REASONS.index(Reason.NO_LEGAL_ORDER)
            else:
                verdict = self._judgement(options, order)
                if not isinstance(verdict, Obstacle):
                    return query, option, order, verdict
                options.evaluated.findings[option] = REASONS.index(verdict.reason)
                self._note_refused(options, option, order, verdict)
            nets[query][option] = -math.inf

    def _judgement(
        self, options: _Options, order: Sequence[ChangeStep]
    ) -> Obstacle | Sequence[RunningQuery]:
        name = options.query.request.graph.name
        if self._judge is None:
            return ()
        if not self._judged_left:
            told = f"{self._rebalancing.most_judged} better changes were judged"
            return Obstacle(reason=Reason.BUDGET, subject=name, told=told)
        self._judged_left -= 1
        return self._judge(name, [self._named(options, step) for step in order])

    def _note_refused(
        self, options: _Options, option: int, order: Sequence[ChangeStep], verdict: Obstacle
    ) -> None:
        options.refused.add(option)
        moves = tuple(self._named(options, step) for step in order)
        self._refused[moves] = RejectedChange(
            query=options.query.request.graph.name,
            moves=moves,
            obstacle=verdict,
            gain=float(options.gains(NETWORK, None, self._load)[option]),
        )

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
            return gains - self._margin(options, self._load.axis_ms())
        if goal.kind is GoalKind.EVACUATE:
            cost = -options.gains(NETWORK, None, self._load)
            most = max(float(np.abs(cost).max(initial=0.0)), 1.0)
            return np.where(gains > 0, 2.0 - cost / most, -math.inf)
        whole = goal.measure(options.query, options.evaluation) or goal.shared(self._load)
        least = max(self._rebalancing.hysteresis_share, ROUNDING) * abs(whole)
        return gains - least * options.evaluated.moves

    def _margin(self, options: _Options, axis_ms: FloatArray) -> FloatArray:
        """The bytes that a gain has to exceed."""
        evaluated = options.evaluated
        hysteresis = evaluated.moves * self._hysteresis(options, axis_ms)
        return evaluated.price.sum(axis=1) + evaluated.uncertainty + hysteresis

    def _hysteresis(self, options: _Options, axis_ms: FloatArray) -> float:
        """The bytes that each move has to gain in any case."""
        share = self._rebalancing.hysteresis_share * options.cost(axis_ms)
        return max(share, self._rebalancing.hysteresis_bytes)

    def _findings(self, options: _Options) -> IntArray:
        findings = options.evaluated.findings
        count = len(findings)
        full = ~self._load.has_room_for(options.evaluated.load_delta, count)
        findings = np.where((findings == LEGAL) & full, REASONS.index(Reason.CAPACITY), findings)
        for goal, (reached, now) in self._reached.items():
            worse = now - options.gains(goal, None, self._load) > reached * (1 + WORSE)
            findings[(findings == LEGAL) & worse] = REASONS.index(Reason.OTHER_GOAL)
        return findings

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
        hysteresis = self._hysteresis(options, self._load.axis_ms())
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
        options.settle(option)
        changed = {each.request.graph.name: each for each in judged}
        name = options.query.request.graph.name
        for i, each in enumerate(self._options):
            own = each.query.request.graph.name
            if (now := changed.get(own)) is not None:
                self._options[i] = self._open(_with_places_of(each.query, now))
            elif own == name:
                self._options[i] = self._open(each.query)
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
            cheaper: list[int] = np.flatnonzero(gains > least).tolist()
            rows = [row for row in cheaper if row not in options.refused]
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

    def _told(self, options: _Options, row: int, finding: int) -> RejectedChange:
        evaluation, evaluated = options.evaluation, options.evaluated
        name = options.query.request.graph.name
        gain = float(options.gains(NETWORK, None, self._load)[row])
        steps = evaluation.legal_order(evaluated.batch, row)
        if steps is None:
            paths = evaluation.steps(evaluated.batch, row)
            steps = [step for path in paths.values() for step in path]
        obstacle = None
        if REASONS[finding] is Reason.MARGIN:
            margin = float(self._margin(options, self._load.axis_ms())[row])
            obstacle = Obstacle(
                reason=Reason.MARGIN,
                subject=name,
                value=gain,
                limit=margin,
                told=f"gains {gain:.4g} bytes, which does not exceed price, uncertainty and "
                f"hysteresis, {margin:.4g} bytes",
            )
        return RejectedChange(
            query=name,
            moves=tuple(self._named(options, step) for step in steps),
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
