"""The demand test of EDF: as rows of a program, and as admission of new work (§5.2.4).

Σ_{l'≤l} z_{n,o_l'}·c_{o_l'} ≤ d_{s_l,o_l}    for every node n and every l                   (6)

The test assumes that all work of a node is released at once. EDF then meets every sub-deadline if
the work up to each sub-deadline is no longer than that sub-deadline; work that is released later
has later deadlines. The test also assumes that an instance finishes before the next instance of
the same operator arrives, and that a sub-deadline counts from the arrival of the operator's input.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import Admitted, DeadlineNode

ROUNDING_MS = 1e-4
"""How far a solution of HiGHS may violate a row of (6): HiGHS's own 10⁻⁶, summed over the work of
a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DemandRow:
    """One row of (6).

    Attributes
    ----------
    node
        n.
    costs_ms
        Operators that are charged if they run on n, each with its cost there, ms.
    pair
        l, the place of (s_l, o_l) in `DeadlineProblem.pairs`. None: the row protects the
        sub-deadline of admitted work.
    room_ms
        By how much the charged cost may exceed d_{s_l,o_l}, ms: minus the admitted work of n that
        is due no later. Without a pair: the admitted work's sub-deadline minus that work.
    """

    node: str
    costs_ms: tuple[tuple[str, float], ...]
    pair: int | None
    room_ms: float


def demand_rows(problem: DeadlineProblem) -> Iterator[DemandRow]:
    """All rows of (6): for each node those of the pairs, then those of its admitted work.

    Deviation from deadline placement: its (6) sums over pairs; here an operator that serves several
    outputs is charged once per node, from its first pair on, since it runs once.
    """
    for node in problem.nodes:
        names = [n for n in problem.charged if node.name in problem.by_name[n].candidates]
        costs_ms = tuple((name, problem.cost_ms(name) / node.speed) for name in names)
        first = [problem.first[name] for name in names]
        for at, pair in enumerate(problem.pairs):
            yield DemandRow(
                node=node.name,
                costs_ms=costs_ms[: bisect_right(first, at)],
                pair=at,
                room_ms=-node.admitted_ms(pair.proportional_ms),
            )
        for work in node.admitted:
            due_ms = work.deadline_ms
            due = sum(problem.pairs[at].proportional_ms <= due_ms for at in first)
            room_ms = due_ms - node.admitted_ms(due_ms)
            yield DemandRow(node=node.name, costs_ms=costs_ms[:due], pair=None, room_ms=room_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tightest:
    """The sub-deadline on a node that leaves the least slack.

    Attributes
    ----------
    work
        The work that has this sub-deadline.
    deadline_ms, demand_ms, slack_ms
        The sub-deadline, the work due by then, and their difference; a negative slack means that
        the node cannot finish the work in time.
    """

    node: str
    work: str
    deadline_ms: float
    demand_ms: float

    @property
    def slack_ms(self) -> float:
        """Time to spare, ms."""
        return self.deadline_ms - self.demand_ms


def tightest(node: str, work: tuple[Admitted, ...]) -> Tightest | None:
    """The sub-deadline on a node that leaves the least slack; None if the node has no work."""
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
) -> bool:
    """Whether every node with new work meets all sub-deadlines, also of work admitted before.

    Parameters
    ----------
    new
        Node → new work, with its cost on that node (`work_of`).
    rounding_ms
        Negative slack that is tolerated, ms.
    """
    found = [tightest(node.name, (*node.admitted, *new.get(node.name, ()))) for node in nodes]
    return all(place is None or place.slack_ms >= -rounding_ms for place in found)


def work_of(
    problem: DeadlineProblem, places: Mapping[str, str], sub_deadlines_ms: Mapping[str, float]
) -> dict[str, tuple[Admitted, ...]]:
    """The work that a placement adds to each node: every operator once, with its sub-deadline."""
    return {
        node.name: tuple(
            Admitted(
                name=name,
                cost_ms=problem.cost_ms(name) / node.speed,
                deadline_ms=sub_deadlines_ms[name],
            )
            for name in problem.order
            if places[name] == node.name
        )
        for node in problem.nodes
    }
