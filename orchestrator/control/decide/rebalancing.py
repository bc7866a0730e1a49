"""Rebalancing plans: which replicas should move, by the figures that the leader has.

The search (`placement.rebalancing`) finds changes that are worth it. Whether a fragment may be on
other nodes is for `orchestrator.control.planning.relocation` alone to judge: each change that the
search would take is tried on a copy of the planning problem, move by move in its order. What is
refused becomes a finding of the plan, and the search goes on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from orchestrator.control.decide.drain import drain_steps
from orchestrator.control.decide.figures import finite, place_loads
from orchestrator.control.decide.move_steps import Places, make, then
from orchestrator.control.decide.net_gains import usual_margins
from orchestrator.control.decide.steadiness import Steadiness
from orchestrator.control.observe.dataflow import InvalidQuery
from orchestrator.control.observe.view import ClusterView
from orchestrator.control.planning.measured_rates import MeasuredRates, measured_rates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import MoveRefused, Relocation
from orchestrator.control.planning.running import (
    RunningProblem,
    running_problem,
    running_queries,
    sharing,
)
from orchestrator.errors import InvalidInput
from orchestrator.records import (
    FragmentPlaces,
    MoveStep,
    QueryChange,
    RateUsed,
    RebalanceChange,
    RebalanceLimits,
    RebalanceMove,
    RebalancePlan,
    RefusedCandidate,
    RoundTripUsed,
    UnsurvivedLoss,
)
from placement.errors import PlacementError
from placement.network import NetworkView
from placement.rebalancing.goals import Goal, GoalKind
from placement.rebalancing.moves import (
    Move,
    MoveKind,
    Obstacle,
    Reason,
    RebalanceSettings,
    Rebalancing,
    ReplicaMove,
)
from placement.rebalancing.rebalance import MOST_TOLD, improve
from placement.rebalancing.running import RunningQuery

EVACUATE = "evacuate:"

GOALS = tuple(kind.value for kind in GoalKind if kind is not GoalKind.EVACUATE)
"""What a plan may improve; beside these, `evacuate:NODE`."""


def rebalance(
    view: ClusterView,
    goals: Sequence[str],
    limits: RebalanceLimits | None = None,
    margins: RebalanceSettings | None = None,
    steadiness: Steadiness | None = None,
) -> RebalancePlan:
    """The moves that are worth it, with their figures.

    Parameters
    ----------
    goals
        Of `GOALS`, or `evacuate:NODE`. Each is improved only as far as those before it get no more
        than 1 % worse. None: `network`.
    margins
        When a move is worth it; its budget is that of the limits.
    steadiness
        Keeps what was moved where it is; None: nothing does.

    Raises
    ------
    InvalidInput
        There is no such goal, query or node.
    """
    limits = limits or RebalanceLimits()
    wanted = tuple(goals) or GOALS[:1]
    _check(view, wanted, limits)
    settings = replace(
        margins or usual_margins(view),
        max_moves=limits.max_moves,
        max_bytes=float("inf") if limits.max_bytes is None else limits.max_bytes,
    )
    before = Planning.of(view)
    rates = measured_rates(view, before.work)
    problem = running_problem(before, rates, limits.query)
    relocations = Relocations(before, rates, problem, limits.query, steadiness)
    found = improve(
        problem.queries,
        problem.network,
        state_bytes=problem.state_bytes,
        settings=before.settings,
        rebalancing=settings,
        goals=[_goal(goal, problem.network) for goal in wanted],
        judge=relocations.judge,
    )
    return _document(wanted, limits, before, problem, relocations, rates, found)


class Relocations:
    """Makes changes in a planning problem, one after the other, as far as they may be made.

    Attributes
    ----------
    planning
        The problem with all changes so far.
    made
        What each move has changed, in order.
    undoes
        Of each move, which one of late it takes back.

    Parameters
    ----------
    problem, only
        What may move, as in `running_problem`: after each change the same.
    """

    def __init__(
        self,
        planning: Planning,
        rates: MeasuredRates,
        problem: RunningProblem,
        only: str | None,
        steadiness: Steadiness | None = None,
    ) -> None:
        self.planning = planning.fork()
        self.made: list[Relocation] = []
        self.undoes: list[str] = []
        self._steadiness = steadiness
        self._rates = rates
        self._network = problem.network
        self._whole = {each.request.graph.name for each in problem.queries}
        self._fixed = {key.rpartition(".")[2] for key in problem.unprotected}
        self._only = only

    def judge(self, query: str, moves: Sequence[ReplicaMove]) -> Obstacle | Sequence[RunningQuery]:
        """See `placement.rebalancing.moves.Judge`."""
        trial, made = self.planning.fork(), list[Relocation]()
        for move in moves:
            key = trial.flow.fragments[move.operator].key
            try:
                made.append(make(trial, trial.fragments[key], _step(key, move)))
            except (PlacementError, InvalidQuery) as error:
                return obstacle(key, error)
        undoes = [""] * len(moves)
        if self._steadiness is not None:
            steps = [_step(trial.flow.fragments[move.operator].key, move) for move in moves]
            judged = self._steadiness.judge(self.planning, self._rates, steps, made[0])
            if isinstance(judged, Obstacle):
                return judged
            undoes = judged
        self.planning = trial
        self.made += made
        self.undoes += undoes
        touched = [each for each in sharing(trial, query) if each in self._whole]
        return running_queries(trial, self._rates, self._network, touched, self._fixed, self._only)


def obstacle(key: str, error: PlacementError | InvalidQuery) -> Obstacle:
    """The reason against a move of a fragment, as a finding."""
    if isinstance(error, MoveRefused):
        return Obstacle(reason=error.kind, subject=key, told=f"{key}: {error.reason}")
    reason = Reason.NOT_THERE if isinstance(error, InvalidQuery) else Reason.SUB_DEADLINES
    return Obstacle(reason=reason, subject=key, told=f"{key}: {error}")


def _check(view: ClusterView, goals: Sequence[str], limits: RebalanceLimits) -> None:
    for goal in goals:
        if goal.startswith(EVACUATE):
            node = goal.removeprefix(EVACUATE)
            if node not in view.executors:
                known = f"Live nodes: {', '.join(sorted(view.executors)) or 'none'}."
                raise InvalidInput("", "goals", goal, f"{node} is no live node", known)
        elif goal not in GOALS:
            known = f"Goals are {', '.join(GOALS)} and {EVACUATE}NODE."
            raise InvalidInput("", "goals", goal, "is no goal", known)
    if limits.query is not None and limits.query not in view.queries:
        known = f"Queries: {', '.join(sorted(view.queries)) or 'none'}."
        raise InvalidInput("", "query", limits.query, "is not there", known)


def _goal(goal: str, network: NetworkView) -> Goal:
    if goal.startswith(EVACUATE):
        # A node that the network does not know runs nothing that could move.
        return Goal(GoalKind.EVACUATE, network.index.get(goal.removeprefix(EVACUATE), -1))
    return Goal(GoalKind(goal))


def _step(key: str, move: ReplicaMove | Move) -> MoveStep:
    role = "secondary" if move.kind is MoveKind.SECONDARY else "primary"
    return MoveStep(fragment=key, role=role, node=move.target)


def _document(
    goals: tuple[str, ...],
    limits: RebalanceLimits,
    before: Planning,
    problem: RunningProblem,
    relocations: Relocations,
    rates: MeasuredRates,
    found: Rebalancing,
) -> RebalancePlan:
    after, flow = relocations.planning, before.flow
    priced = before.fork()
    priced.work = rates.of(before.work)
    moves: list[RebalanceMove] = []
    changes: list[RebalanceChange] = []
    for number, change in enumerate(found.changes, 1):
        changes.append(
            RebalanceChange(
                number=number,
                goal=change.goal,
                gain_bytes=change.gain,
                price_bytes=change.price,
                uncertainty_bytes=change.uncertainty,
                hysteresis_bytes=change.hysteresis,
            )
        )
        for move in change.moves:
            made, undoes = relocations.made[len(moves)], relocations.undoes[len(moves)]
            moves.append(
                RebalanceMove(
                    fragment=flow.fragments[move.operator].key,
                    role="secondary" if move.kind is MoveKind.SECONDARY else "primary",
                    source=move.source,
                    target=move.target,
                    swaps=move.kind is MoveKind.SWAP,
                    change=number,
                    bytes_to_ship=move.bytes_to_ship,
                    seconds=move.seconds,
                    gain_bytes=move.gain,
                    price_bytes=move.price,
                    queries=_query_changes(made, priced, move),
                    undoes=undoes,
                )
            )
    rejected = Counter({reason.value: count for reason, count in found.rejected.items()})
    refused = [
        RefusedCandidate(
            steps=tuple(_step(flow.fragments[move.operator].key, move) for move in each.moves),
            reason=each.obstacle.reason.value,
            problem=str(each.obstacle),
            gain_bytes=each.gain,
        )
        for each in found.dearest
    ]
    told = {step.fragment for each in refused for step in each.steps}
    stuck = {key: why for key, why in _left_behind(after, goals).items() if key not in told}
    if stuck:
        rejected[Reason.NOT_THERE.value] += len(stuck)
    refused += [
        RefusedCandidate(
            steps=(), reason=Reason.NOT_THERE.value, problem=f"{key}: {why}", gain_bytes=0.0
        )
        for key, why in sorted(stuck.items())[: MOST_TOLD - len(refused)]
    ]
    if problem.unprotected:
        rejected[Reason.UNPROTECTED.value] = len(problem.unprotected)
    moved = {move.fragment for move in moves}
    nodes = _nodes_of(
        {each.query for move in moves for each in move.queries}, problem, (before, after)
    )
    return RebalancePlan(
        goals=goals,
        limits=limits,
        cost_bytes=(found.cost_before, found.cost_after),
        moves=tuple(moves),
        changes=tuple(changes),
        after=_places(after),
        loads=place_loads(after.places()),
        unsurvived=unsurvived(after),
        rejected=dict(rejected),
        refused=tuple(refused),
        undo=tuple(each for each in _places(before) if each.fragment in moved),
        rates=tuple(
            RateUsed(
                stream=stream,
                bytes_s=rate.bytes_s,
                tuples_s=rate.tuples_s,
                measured=stream in rates.measured,
            )
            for stream, rate in sorted(rates.rates.items())
        ),
        round_trips=tuple(
            RoundTripUsed(
                source=source,
                target=target,
                rtt_ms=rtt_ms,
                spread_ms=problem.network.spread_ms.get((source, target), 0.0),
            )
            for (source, target), rtt_ms in sorted(problem.network.rtt_ms.items())
            if {source, target} <= nodes
        ),
        assumed_states=problem.assumed_states,
    )


def _left_behind(after: Planning, goals: Iterable[str]) -> dict[str, str]:
    """Fragments that stay on nodes that are to be evacuated though no node is to be had for them,
    and why."""
    stuck: dict[str, str] = {}
    for goal in goals:
        if goal.startswith(EVACUATE):
            stuck |= drain_steps(after.fork(), goal.removeprefix(EVACUATE))[1]
    return stuck


def _nodes_of(
    queries: Collection[str], problem: RunningProblem, plannings: Sequence[Planning]
) -> set[str]:
    """Where queries run, before and after, and where they begin and end.

    A plan tells the round trips among these: each host measures all others, and a plan with all of
    them would be too large for the store from a hundred hosts on.
    """
    nodes: set[str] = set()
    for each in problem.queries:
        graph = each.request.graph
        if graph.name not in queries:
            continue
        nodes.update(graph.pinned.values())
        running = [planning.running[name] for planning in plannings for name in each.places]
        nodes.update(node for at in running for node in (at.primary, at.secondary) if node)
    return nodes


def _query_changes(made: Relocation, priced: Planning, move: Move) -> tuple[QueryChange, ...]:
    """The figures of the queries that a move touches, and the move made in a problem.

    Parameters
    ----------
    priced
        The problem before the move by the rates of now, as which the plan's gains are reckoned.
        Latencies and recovery are promised for the rates that manifests state.
    """
    queries = [now.query for plan in made.after for now in plan.queries]
    usage = [_network_usage(priced, query) for query in queries]
    running = priced.running[move.operator]
    assert running.secondary is not None, "what lacks a secondary does not move"
    key = priced.flow.fragments[move.operator].key
    places = Places(primary=running.primary, secondary=running.secondary)
    places = then(places, _step(key, move))
    priced.running[move.operator] = replace(
        running, primary=places.primary, secondary=places.secondary
    )
    found: list[QueryChange] = []
    for before, after, used in zip(made.before, made.after, usage, strict=True):
        (was,), (now,) = before.queries, after.queries
        found.append(
            QueryChange(
                query=now.query,
                network_usage_bytes=(used, _network_usage(priced, now.query)),
                latency_ms=(was.latency_ms, now.latency_ms),
                deadline_ms=now.deadline_ms,
                recovery_ms=(finite(was.recovery_ms), finite(now.recovery_ms)),
                bound_ms=now.bound_ms,
            )
        )
    return tuple(found)


def _network_usage(planning: Planning, query: str) -> float:
    (figures,) = planning.evaluate(query).queries
    return figures.network_usage


def unsurvived(planning: Planning) -> tuple[UnsurvivedLoss, ...]:
    """The single losses that take a fragment and its state: of a node, or of a label of nodes."""
    hosts = planning.view.executors
    lost: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for key, record in sorted(planning.fragments.items()):
        running = planning.running.get(record.fragment)
        if running is None:
            continue
        if running.secondary is None:
            lost["node", running.primary].append(key)
            continue
        primary, secondary = hosts.get(running.primary), hosts.get(running.secondary)
        if primary is None or secondary is None:
            continue
        for group in primary.labels.groups:
            if group in secondary.labels.groups:
                lost[group].append(key)
    return tuple(
        UnsurvivedLoss(kind=kind, name=name, fragments=tuple(fragments))
        for (kind, name), fragments in sorted(lost.items())
    )


def _places(planning: Planning) -> tuple[FragmentPlaces, ...]:
    return tuple(
        FragmentPlaces(fragment=key, primary=running.primary, secondary=running.secondary)
        for key, record in sorted(planning.fragments.items())
        if (running := planning.running.get(record.fragment)) is not None
        and running.secondary is not None
    )
