"""Chains that always share a node are contracted to one operator each.

(6) charges all operators of a node as if they waited at once. The operators of a chain never do:
each has its input only when the one before is done. A chain on one node is one task there (deadline
placement, §5.3), and the example of that paper has a solution only if the chain is charged as one:
sixteen operators of 7.5 ms in a row on node 2 would need sub-deadlines of 7.5, 15, … 120 ms,
together more than 1 s, of the 300 ms there are; as one operator of 120 ms they have 240 ms.

An operator is contracted with the next one if it has one stream, which is no output and has one
consumer, which takes nothing else in, and if the two stay together: by default because both have
the same single candidate. The contracted operator has the summed costs, weights and proportional
sub-deadlines of its parts. The parts share its sub-deadline by their costs, which leaves every
normalised laxity ratio, hence (3), as it was.

Whoever runs the parts must run them as one task, with the sub-deadline of the contracted operator.
The demand test (`placement.deadline.demand.work_of`) must be made of the contracted problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import DeadlineOperator
from streams.scheduling.chains import merge_chains

Together = Callable[[str, str], bool]
"""(operator, its consumer) → whether both are always on one node."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contraction:
    """A problem and the smaller one that has the same placements.

    Attributes
    ----------
    whole
        The problem as it was stated.
    problem
        The contracted problem: every chain is one operator, named `first…last`.
    parts
        Operator of `problem` → the operators of `whole` that it stands for, in their order.
    """

    whole: DeadlineProblem
    problem: DeadlineProblem
    parts: dict[str, tuple[str, ...]]

    def shares(self, operator: str, sub_deadline_ms: float) -> dict[str, float]:
        """Sub-deadlines of the parts of a contracted operator, ms: each by its cost."""
        all_ms = self.problem.cost_ms(operator)
        return {
            part: sub_deadline_ms * (self.whole.cost_ms(part) / all_ms)
            for part in self.parts[operator]
        }


def contract(problem: DeadlineProblem, together: Together | None = None) -> Contraction:
    """Make one operator of every chain that stays together.

    Parameters
    ----------
    together
        Whether an operator and its only consumer stay together; they must have the same
        candidates. None: if both have the same single candidate.
    """

    def bound(name: str, consumer: str) -> bool:
        first, second = problem.by_name[name], problem.by_name[consumer]
        return len(first.candidates) == 1 and first.candidates == second.candidates

    stay = together or bound

    def followers(name: str, consumers: Sequence[str]) -> list[str]:
        operator = problem.by_name[name]
        if len(operator.outputs) != 1 or operator.outputs[0] in problem.output:
            return []
        return [each for each in consumers if len(consumers) == 1 and stay(name, each)]

    inputs = {
        name: [
            problem.producer.get(stream, f"source of {stream}")
            for stream in problem.by_name[name].inputs
        ]
        for name in problem.order
    }
    chains = merge_chains(inputs, followers)
    operators = tuple(_merged(problem, chain) for chain in chains)
    return Contraction(
        whole=problem,
        problem=problem.part(operators, problem.outputs),
        parts={operator.name: chain for operator, chain in zip(operators, chains, strict=True)},
    )


def _merged(problem: DeadlineProblem, chain: tuple[str, ...]) -> DeadlineOperator:
    parts = [problem.by_name[name] for name in chain]
    if len(parts) == 1:
        return parts[0]
    return replace(
        parts[0],
        name=f"{chain[0]}…{chain[-1]}",
        cost_ms=sum(part.cost_ms for part in parts),
        outputs=parts[-1].outputs,
        weight=sum(part.weight for part in parts),
    )
