"""The demand test of EDF on nodes: as rows of a program, and as admission of new work (§5.2.4).

Σ_{l'≤l} z_{n,o_l'}·c_{o_l'} ≤ d_{s_l,o_l}    for every node n and every l                   (6)

A node that has all of its work released at once, and does it in the order of its sub-deadlines,
meets them if the work up to each sub-deadline is no more than that; whatever is released later
has later deadlines. The test assumes that an instance is done before the next one of the same
operator comes, and that sub-deadlines are met from the arrival of an operator's own input.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted, DeadlineNode, Pair

ROUNDING_MS = 1e-4
"""By how much HiGHS may leave a row of (6) broken: its own 10⁻⁶, summed over a node's work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandRow:
    """One row of (6).

    Attributes
    ----------
    node
        n.
    costs_ms
        Operators charged if they run on n, and what they take there, ms.
    pair
        (s_l, o_l); None: the deadline is that of work that runs there already.
    room_ms
        What the work charged may take beyond d_{s_l,o_l}, ms: minus what runs there already
        with that deadline or an earlier one; without a pair, the deadline minus that.
    deadline_ms
        d'_{s,o}, or the deadline of the work that runs already: (6)'s order.
    """

    node: str
    costs_ms: dict[str, float]
    pair: Pair | None
    room_ms: float
    deadline_ms: float


def demand_rows(problem: DeadlineProblem) -> Iterator[DemandRow]:
    """All rows of (6)."""
    for node in problem.nodes:
        costs_ms = {
            name: problem.cost_ms(name) / node.speed
            for name in sorted(problem.order, key=problem.first.__getitem__)
            if node.name in problem.by_name[name].candidates
        }
        charged: dict[str, float] = {}
        for at, pair in enumerate(problem.pairs):
            if problem.first[pair.operator] == at and pair.operator in costs_ms:
                charged[pair.operator] = costs_ms[pair.operator]
            yield DemandRow(
                node=node.name,
                costs_ms=dict(charged),
                pair=pair,
                room_ms=-_admitted_ms(node, pair.proportional_ms),
                deadline_ms=pair.proportional_ms,
            )
        for work in node.admitted:
            upto = work.deadline_ms
            early = {
                name: cost
                for name, cost in costs_ms.items()
                if problem.pairs[problem.first[name]].proportional_ms <= upto
            }
            room_ms = upto - _admitted_ms(node, upto)
            yield DemandRow(
                node=node.name, costs_ms=early, pair=None, room_ms=room_ms, deadline_ms=upto
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightest:
    """Where a node has the least time to spare.

    Attributes
    ----------
    work
        Whose deadline it is.
    deadline_ms, demand_ms, slack_ms
        That deadline; the work due by then; the difference, negative if it cannot be done.
    """

    node: str
    work: str
    deadline_ms: float
    demand_ms: float

    @property
    def slack_ms(self) -> float:
        """Time to spare, ms."""
        return self.deadline_ms - self.demand_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """Whether new work fits.

    Attributes
    ----------
    admitted
        Whether all deadlines are met on every node, those of what runs already included.
    binding
        The tightest place of all nodes; None if nothing runs anywhere.
    """

    admitted: bool
    binding: Tightest | None


def tightest(node: str, work: tuple[Admitted, ...]) -> Tightest | None:
    """The deadline on a node that leaves the least slack; None if it has no work."""
    found: Tightest | None = None
    demand_ms = 0.0
    queue = sorted(work, key=lambda one: (one.deadline_ms, one.name))
    for at, one in enumerate(queue):
        demand_ms += one.cost_ms
        if at + 1 < len(queue) and queue[at + 1].deadline_ms == one.deadline_ms:
            continue
        here = Tightest(node=node, work=one.name, deadline_ms=one.deadline_ms, demand_ms=demand_ms)
        if found is None or here.slack_ms < found.slack_ms:
            found = here
    return found


def admit(
    nodes: tuple[DeadlineNode, ...],
    new: Mapping[str, tuple[Admitted, ...]],
    rounding_ms: float = ROUNDING_MS,
) -> Admission:
    """Test every node with new work on top of what it runs.

    Parameters
    ----------
    new
        Node → work, its costs as they are on that node (`work_of`).
    rounding_ms
        Negative slack that still counts as none, ms.
    """
    found = [
        place
        for node in nodes
        if (place := tightest(node.name, (*node.admitted, *new.get(node.name, ())))) is not None
    ]
    binding = min(found, key=lambda place: place.slack_ms, default=None)
    slack_ms = math.inf if binding is None else binding.slack_ms
    return Admission(admitted=slack_ms >= -rounding_ms, binding=binding)


def work_of(
    problem: DeadlineProblem, places: Mapping[str, str], sub_deadlines_ms: Mapping[str, float]
) -> dict[str, tuple[Admitted, ...]]:
    """What a placement adds to every node: each operator once, by its sub-deadline."""
    speed = {node.name: node.speed for node in problem.nodes}
    return {
        node: tuple(
            Admitted(
                name=name,
                cost_ms=problem.cost_ms(name) / speed[node],
                deadline_ms=sub_deadlines_ms[name],
            )
            for name in problem.order
            if places[name] == node
        )
        for node in speed
    }


def _admitted_ms(node: DeadlineNode, upto_ms: float) -> float:
    return sum(work.cost_ms for work in node.admitted if work.deadline_ms <= upto_ms)
