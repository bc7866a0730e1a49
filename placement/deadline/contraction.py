"""Chains that never part, as one operator each.

(6) charges all operators of a node as if they waited at once. The operators of a chain never do:
each has its input only when the one before is done. Where such a chain is bound to one node anyway
it is one task there (§5.3), and only as one does the paper's own example have a solution: sixteen
operators of 7.5 ms in a row on node 2 would need sub-deadlines of 7.5, 15, … 120 ms, together more
than 1 s, of the 300 ms there are; as one operator of 120 ms they have 240 ms.

Two operators are contracted if both have the same single candidate, the first makes one stream
only, no output, and the second is its only consumer and takes nothing else in. The whole has the
costs, weights and fair shares of its parts in sum. Parts get their shares of it by their costs,
which leaves every normalised laxity ratio, hence (3), as it was.

Whoever runs the parts must run them as one task, with the whole's sub-deadline; demand of the
parts one by one (`placement.deadline.demand.work_of`) has to be reckoned on the contracted problem.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import DeadlineOperator
from placement.deadline.result import DeadlinePlacement


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contraction:
    """A problem with fewer operators that has the same placements.

    Attributes
    ----------
    whole
        The problem that was contracted.
    problem
        With chains as one operator each, named `first…last`.
    parts
        Operator of `problem` → those of `whole` that it stands for, in their order.
    """

    whole: DeadlineProblem
    problem: DeadlineProblem
    parts: dict[str, tuple[str, ...]]

    def expand(self, placement: DeadlinePlacement) -> DeadlinePlacement:
        """A placement of the contracted problem as one of the whole."""
        pair_deadlines_ms: dict[tuple[str, str], float] = {}
        for (output, name), ms in placement.pair_deadlines_ms.items():
            all_ms = self.problem.cost_ms(name)
            for part in self.parts[name]:
                pair_deadlines_ms[output, part] = ms * (self.whole.cost_ms(part) / all_ms)
        places = {
            part: node for name, node in placement.places.items() for part in self.parts[name]
        }
        return replace(
            placement,
            places={name: places[name] for name in self.whole.order},
            pair_deadlines_ms=pair_deadlines_ms,
        )


def contract(problem: DeadlineProblem) -> Contraction:
    """Make one operator of every chain that is bound to one node."""
    following = {name: after for name in problem.order if (after := _next(problem, name))}
    heads = [name for name in problem.order if name not in set(following.values())]
    chains = {head: _chain(following, head) for head in heads}
    operators = {head: _merged(problem, chain) for head, chain in chains.items()}
    return Contraction(
        whole=problem,
        problem=DeadlineProblem(
            nodes=problem.nodes,
            operators=tuple(operators.values()),
            sources=problem.sources,
            outputs=problem.outputs,
            one_way_ms=problem.one_way_ms,
            rates_bytes_s=_remaining_rates(problem, tuple(operators.values())),
        ),
        parts={operators[head].name: chain for head, chain in chains.items()},
    )


def _next(problem: DeadlineProblem, name: str) -> str | None:
    """The operator that always runs right after this one, on the same node."""
    operator = problem.by_name[name]
    if len(operator.candidates) > 1 or len(operator.outputs) != 1:
        return None
    (stream,) = operator.outputs
    consumers = problem.consumers[stream]
    if stream in problem.output or len(consumers) != 1:
        return None
    after = problem.by_name[consumers[0]]
    alike = after.candidates == operator.candidates and after.inputs == (stream,)
    return after.name if alike else None


def _chain(following: dict[str, str], head: str) -> tuple[str, ...]:
    chain = [head]
    while chain[-1] in following:
        chain.append(following[chain[-1]])
    return tuple(chain)


def _merged(problem: DeadlineProblem, chain: tuple[str, ...]) -> DeadlineOperator:
    parts = [problem.by_name[name] for name in chain]
    if len(parts) == 1:
        return parts[0]
    return DeadlineOperator(
        name=f"{chain[0]}…{chain[-1]}",
        cost_ms=sum(part.cost_ms for part in parts),
        inputs=parts[0].inputs,
        outputs=parts[-1].outputs,
        candidates=parts[0].candidates,
        weight=sum(part.weight for part in parts),
    )


def _remaining_rates(
    problem: DeadlineProblem, operators: tuple[DeadlineOperator, ...]
) -> dict[str, float]:
    """Streams within a chain are gone."""
    left = {stream for operator in operators for stream in operator.outputs} | set(problem.source)
    return {stream: rate for stream, rate in problem.rates_bytes_s.items() if stream in left}
