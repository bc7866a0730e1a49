"""Keeps moves that nobody has asked for from flapping.

A fragment that the leader has moved by itself stays for the horizon over which the price of that
move was spread, unless a promise of its query is broken, or a move gains three times its margin.

A move that takes back one of the last hour, whoever asked for that, is made only if measurements
have changed since by more than the uncertainty stated then. Both gains are computed as things are
now: by the round trips and rates of then, as the plan of moves states them (`StatedFigures`), and
by those of now. So other replicas that have moved meanwhile do not count, and neither does load,
which moves make themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from orchestrator.control.decide.move_steps import Places, then
from orchestrator.control.decide.net_gains import usual_margins, worth
from orchestrator.control.planning.measured_rates import MeasuredRates
from orchestrator.control.planning.planner import Planning
from orchestrator.control.planning.relocation import Relocation
from orchestrator.control.planning.running import RunningProblem, running_problem
from orchestrator.records import MovePlan, MoveStep, RebalancePlan, StatedFigures
from placement.network import NetworkView
from placement.rebalancing.moves import Obstacle, Reason, RebalanceSettings

AUTOMATION = "automation"
"""Who has asked for moves that the leader makes by itself."""

HOUR_US = 3_600_000_000
"""How long moves count: for budgets, and for what may not be taken back."""

HORIZON_US = round(RebalanceSettings().horizon_s * 1e6)

MARGINS = 3.0
"""So many times its margin a move gains that may move a fragment again at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PastMove:
    """A replica that has left a node."""

    plan: MovePlan
    number: int

    @property
    def step(self) -> MoveStep:
        """The move."""
        return self.plan.steps[self.number]

    def __str__(self) -> str:
        return f"{self.step.role} → {self.step.node} of {self.plan.name}"


class Steadiness:
    """What has moved lately.

    Parameters
    ----------
    plans
        Plans of moves that have ended within the last hour, and those under way.
    """

    def __init__(self, plans: Collection[MovePlan], now_us: int) -> None:
        self._held = {
            step.fragment
            for plan in plans
            if plan.by == AUTOMATION and now_us - (plan.ended_us or now_us) < HORIZON_US
            for step in plan.steps
            if step.done
        }
        self._left: dict[tuple[str, str, str], PastMove] = {}
        for plan in sorted(plans, key=lambda plan: plan.submitted_us):
            for number, step in enumerate(plan.steps):
                if not step.done or step.was is None or now_us - (step.begun_us or 0) >= HOUR_US:
                    continue
                was = Places(primary=step.was[0], secondary=step.was[1])
                for role, node, _ in _changes(was, then(was, step)):
                    self._left[step.fragment, role, node] = PastMove(plan=plan, number=number)

    def judge(
        self,
        planning: Planning,
        rates: MeasuredRates,
        moves: Sequence[MoveStep],
        first: Relocation,
    ) -> Obstacle | list[str]:
        """What speaks against moves of one query; else of each, which one of late it takes back.

        Parameters
        ----------
        planning
            Before these moves.
        first
            What the first of them changes.
        """
        held = next((move.fragment for move in moves if move.fragment in self._held), None)
        undone = [*self._undone(planning, moves)]
        if (held is None and not any(undone)) or _is_broken(first):
            return ["" if past is None else f"{past}: a promise is broken" for past in undone]
        margins = usual_margins(planning.view)
        problem = running_problem(planning, rates, None)
        now = worth(problem, planning.settings, margins, moves)
        if held is not None and now.gain < MARGINS * now.margin:
            told = f"{held} was moved less than {HORIZON_US / 60e6:g} min ago, and moving it again "
            told += f"gains {now.gain:,.0f} bytes, less than {MARGINS:g} times its margin of "
            told += f"{now.margin:,.0f} bytes"
            return Obstacle(reason=Reason.MOVED_LATELY, subject=held, told=told)
        told_of: list[str] = []
        for past, move in zip(undone, moves, strict=True):
            if past is None:
                told_of.append("")
                continue
            stated = past.plan.stated
            if stated is None:
                told = f"{past}, which nobody has given figures for, is less than an hour ago"
                return Obstacle(reason=Reason.UNDOES, subject=move.fragment, told=told)
            then_problem = _as_stated(planning, problem, rates, stated)
            gain = worth(then_problem, planning.settings, margins, moves).gain
            uncertainty = stated.uncertainty_bytes[past.number]
            told = f"{past}: taking it back would have gained {gain:,.0f} bytes by the "
            told += f"measurements of then and gains {now.gain:,.0f} by those of now, uncertainty "
            told += f"{uncertainty:,.0f}"
            if abs(now.gain - gain) <= uncertainty:
                return Obstacle(reason=Reason.UNDOES, subject=move.fragment, told=told)
            told_of.append(told)
        return told_of

    def _undone(self, planning: Planning, moves: Sequence[MoveStep]) -> Iterator[PastMove | None]:
        """Of each move, the one of the last hour that it takes back."""
        places: dict[str, Places] = {}
        for move in moves:
            record = planning.fragments[move.fragment]
            assert record.secondary is not None, "a fragment that moves has a secondary"
            was = places.get(move.fragment) or Places(
                primary=record.primary.node, secondary=record.secondary.node
            )
            places[move.fragment] = now = then(was, move)
            found = (
                self._left.get((move.fragment, role, node)) for role, _, node in _changes(was, now)
            )
            yield next(filter(None, found), None)


def _changes(was: Places, now: Places) -> Iterator[tuple[str, str, str]]:
    """Roles whose replica is elsewhere: the role, the node that it leaves, where it goes."""
    if was.primary != now.primary:
        yield "primary", was.primary, now.primary
    if was.secondary != now.secondary:
        yield "secondary", was.secondary, now.secondary


def _is_broken(first: Relocation) -> bool:
    """Whether a promise of the query is broken before its moves."""
    return any(
        figures.latency_ms > figures.deadline_ms or figures.recovery_ms > figures.bound_ms
        for figures in first.before[0].queries
    )


def _as_stated(
    planning: Planning, problem: RunningProblem, rates: MeasuredRates, stated: StatedFigures
) -> RunningProblem:
    """The problem with the measurements that were stated then."""
    then_rates = {
        stream: replace(
            rate,
            bytes_s=stated.rates_bytes_s[stream],
            tuples_s=rate.tuples_s * stated.rates_bytes_s[stream] / rate.bytes_s,
        )
        if stream in stated.rates_bytes_s and rate.bytes_s
        else rate
        for stream, rate in rates.rates.items()
    }
    found = running_problem(planning, replace(rates, rates=then_rates), None)
    pairs = {tuple(pair.split(":")): ms for pair, ms in stated.round_trips_ms.items()}
    known = {(a, b): ms for (a, b), ms in pairs.items() if {a, b} <= found.network.index.keys()}
    network = NetworkView(
        nodes=found.network.nodes,
        rtt_ms={**problem.network.rtt_ms, **known},
        spread_ms=found.network.spread_ms,
    )
    return replace(found, network=network)


def stated_figures(
    plan: RebalancePlan, nodes: Collection[str], near: Collection[str], streams: Collection[str]
) -> StatedFigures:
    """What a plan says that concerns its moves.

    Parameters
    ----------
    nodes
        That its moves leave or come to.
    near
        That the streams of its queries come from or go to.
    """
    uncertainty = {each.number: each.uncertainty_bytes for each in plan.changes}
    ends, near = {*nodes}, {*nodes, *near}
    trips = [e for e in plan.round_trips if e.source in ends or e.target in ends]
    return StatedFigures(
        uncertainty_bytes=tuple(uncertainty[move.change] for move in plan.moves),
        round_trips_ms={
            f"{each.source}:{each.target}": each.rtt_ms
            for each in trips
            if {each.source, each.target} <= near
        },
        rates_bytes_s={each.stream: each.bytes_s for each in plan.rates if each.stream in streams},
    )
