"""The deadline placement problem: operators with end-to-end deadlines, and the nodes to run them.

The model is that of the deadline placement paper (§3, §5.2.2).

========================  =========================  ===========================================
symbol                    name here                  meaning
========================  =========================  ===========================================
N, O, S, T                nodes, operators,          T, the output streams, is a subset of S
                          streams, outputs
In(o), Out(o)             inputs, outputs            input and output streams of operator o
Src(n, s)                 DeadlineSource.nodes       nodes on which a source supplies stream s
Node(o)                   candidates                 nodes on which o may run
Pre(s)                    needed[s]                  operators that contribute to output s
Paths(s)                  paths(s)                   operator paths that end in s
d_s                       deadline_ms                end-to-end deadline of output s
c_o, c'_s                 cost_ms, work_ms[s]        cost of o; total cost of Pre(s)
d'_{s,o} = c_o·d_s/c'_s   proportional_ms            proportional sub-deadline (1)
========================  =========================  ===========================================

Every stream comes from exactly one operator, or from one source, which may supply it on several
nodes. An operator waits for all of its inputs. An operator that contributes to no output is
refused: it would have no deadline, so the demand test (6) would ignore its work.

Extensions of the paper's model: nodes have different speeds, nodes may already run admitted work,
links have latencies, and an operator may stand for several (`placement.deadline.contraction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from graphlib import CycleError, TopologicalSorter

import numpy as np

from foundation.arrays import FloatArray
from placement.deadline.errors import DeadlineProblemError
from placement.deadline.records import (
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
    Pair,
    check_latencies,
    check_parts,
    check_rates,
)

SIGNIFICANT_DIGITS = 9
"""Digits in which proportional sub-deadlines are compared, so that rounding cannot reorder pairs
whose sub-deadlines are equal in exact arithmetic."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DeadlineProblem:
    """Nodes, operators, sources and outputs that refer to each other correctly.

    `dataclasses.replace` makes a variant of a problem.

    Attributes
    ----------
    one_way_ms
        One-way latency from node to node in the order of `nodes`, shape (n, n), ms. None neglects
        latency, as the paper does.
    rates_bytes_s
        Data rate by stream, for network usage; a stream that is not named has rate 0.

    Raises
    ------
    DeadlineProblemError
        Naming the invalid part and its value.
    """

    nodes: tuple[DeadlineNode, ...]
    operators: tuple[DeadlineOperator, ...]
    sources: tuple[DeadlineSource, ...]
    outputs: tuple[DeadlineOutput, ...]
    one_way_ms: FloatArray | None = None
    rates_bytes_s: Mapping[str, float] = field(default_factory=dict[str, float])

    def __post_init__(self) -> None:
        check_parts(self.nodes, self.operators, self.sources, self.outputs)
        check_rates(self.rates_bytes_s, (*self.source, *self.producer))
        if self.one_way_ms is not None:
            check_latencies(self.one_way_ms, self.nodes)
        needed = {name for names in self.needed.values() for name in names}
        for name in self.order:
            if name not in needed:
                raise DeadlineProblemError(
                    f"operator {name}", "no output needs it; leave it out or name its output"
                )

    def part(
        self, operators: tuple[DeadlineOperator, ...], outputs: tuple[DeadlineOutput, ...]
    ) -> DeadlineProblem:
        """The problem with these operators and outputs, without sources and rates not needed."""
        inputs = {stream for operator in operators for stream in operator.inputs}
        streams = inputs.union(*(operator.outputs for operator in operators))
        return replace(
            self,
            operators=operators,
            sources=tuple(source for source in self.sources if source.stream in inputs),
            outputs=outputs,
            rates_bytes_s={s: rate for s, rate in self.rates_bytes_s.items() if s in streams},
        )

    def later(self, later_ms: Mapping[str, float]) -> DeadlineProblem:
        """The same problem with deadlines that are later by the given time, by output."""
        outputs = (
            replace(output, deadline_ms=output.deadline_ms + later_ms.get(output.stream, 0.0))
            for output in self.outputs
        )
        return replace(self, outputs=tuple(outputs))

    def with_candidates(self, candidates: Mapping[str, tuple[str, ...]]) -> DeadlineProblem:
        """The same problem with other candidates, given for every operator."""
        operators = (replace(each, candidates=candidates[each.name]) for each in self.operators)
        return replace(self, operators=tuple(operators))

    @cached_property
    def node_index(self) -> dict[str, int]:
        """Node → its place in `nodes`."""
        return {node.name: at for at, node in enumerate(self.nodes)}

    @cached_property
    def by_name(self) -> dict[str, DeadlineOperator]:
        """Operators by name."""
        return {operator.name: operator for operator in self.operators}

    @cached_property
    def output(self) -> dict[str, DeadlineOutput]:
        """Outputs by stream."""
        return {output.stream: output for output in self.outputs}

    @cached_property
    def source(self) -> dict[str, DeadlineSource]:
        """Sources by stream."""
        return {source.stream: source for source in self.sources}

    @cached_property
    def producer(self) -> dict[str, str]:
        """Stream → the operator that produces it."""
        return {stream: each.name for each in self.operators for stream in each.outputs}

    @cached_property
    def consumers(self) -> dict[str, tuple[str, ...]]:
        """Stream → the operators that take it as input, by name."""
        consumers: dict[str, tuple[str, ...]] = dict.fromkeys((*self.source, *self.producer), ())
        for name in sorted(self.by_name):
            for stream in dict.fromkeys(self.by_name[name].inputs):
                consumers[stream] += (name,)
        return consumers

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Operators, producers before consumers; those of one depth by name."""
        sorter = TopologicalSorter({name: self.upstream(name) for name in self.by_name})
        try:
            sorter.prepare()
        except CycleError as error:
            names = ", ".join(sorted(set(error.args[1])))
            raise DeadlineProblemError(f"operators {names}", "feed each other in a cycle") from None
        order: list[str] = []
        while ready := sorter.get_ready():
            order += sorted(ready)
            sorter.done(*ready)
        return tuple(order)

    @cached_property
    def needed(self) -> dict[str, tuple[str, ...]]:
        """Pre(s) by output stream, producers before consumers."""
        needed: dict[str, tuple[str, ...]] = {}
        for stream in self.output:
            found = {self.producer[stream]}
            for name in reversed(self.order):
                if name in found:
                    found.update(self.upstream(name))
            needed[stream] = tuple(name for name in self.order if name in found)
        return needed

    @cached_property
    def work_ms(self) -> dict[str, float]:
        """c'_s by output stream, ms."""
        return {stream: sum(map(self.cost_ms, names)) for stream, names in self.needed.items()}

    @cached_property
    def pairs(self) -> tuple[Pair, ...]:
        """Outputs with the operators they need, in the order in which (6) takes them.

        That order is by proportional sub-deadline; equal ones are ordered by the deadline of their
        output, then by name.
        """

        def rank(pair: Pair) -> tuple[float, float, str, str]:
            rounded_ms = float(f"{pair.proportional_ms:.{SIGNIFICANT_DIGITS - 1}e}")
            return rounded_ms, self.output[pair.output].deadline_ms, pair.output, pair.operator

        # d'_{s,o} = c_o·d_s/c'_s                                                    (1)
        stretch = {s: self.output[s].deadline_ms / work_ms for s, work_ms in self.work_ms.items()}
        pairs = (
            Pair(output=s, operator=name, proportional_ms=self.cost_ms(name) * stretch[s])
            for s, names in self.needed.items()
            for name in names
        )
        return tuple(sorted(pairs, key=rank))

    @cached_property
    def pair_index(self) -> dict[tuple[str, str], int]:
        """Output and operator → the place of their pair in `pairs`."""
        return {(pair.output, pair.operator): at for at, pair in enumerate(self.pairs)}

    @cached_property
    def first(self) -> dict[str, int]:
        """Operator → the place in `pairs` of its first pair, from which on (6) charges it."""
        return {pair.operator: at for at, pair in reversed(list(enumerate(self.pairs)))}

    @cached_property
    def charged(self) -> tuple[str, ...]:
        """Operators in the order in which (6) begins to charge them."""
        return tuple(sorted(self.order, key=self.first.__getitem__))

    @cached_property
    def proportional_ms(self) -> FloatArray:
        """d' by pair, shape (l,), ms."""
        return np.array([pair.proportional_ms for pair in self.pairs])

    @cached_property
    def penalty_per_ms(self) -> FloatArray:
        """Amount that (3) rises per ms of deviation from d', by pair, shape (l,), 1/ms."""
        operators = [self.by_name[pair.operator] for pair in self.pairs]
        return np.array([operator.weight / operator.cost_ms for operator in operators])

    @property
    def streams(self) -> tuple[str, ...]:
        """S: the streams of sources, then those of operators in their order."""
        produced = (stream for name in self.order for stream in self.by_name[name].outputs)
        return (*self.source, *produced)

    @cached_property
    def latency_ms(self) -> FloatArray:
        """One-way latencies, shape (n, n), ms; zeros where latency is neglected."""
        n = len(self.nodes)
        return np.zeros((n, n)) if self.one_way_ms is None else self.one_way_ms

    def source_latency_ms(self, stream: str, node: int) -> float:
        """Latency to a node from the nearest node that supplies a source stream, ms."""
        suppliers = [self.node_index[name] for name in self.source[stream].nodes]
        return float(self.latency_ms[suppliers, node].min())

    def cost_ms(self, operator: str) -> float:
        """c_o, ms, on a node of speed 1."""
        return self.by_name[operator].cost_ms

    def upstream(self, operator: str) -> tuple[str, ...]:
        """Operators whose streams an operator takes as input."""
        inputs = self.by_name[operator].inputs
        return tuple(dict.fromkeys(self.producer[s] for s in inputs if s in self.producer))

    def paths(self, output: str) -> Iterator[tuple[str, ...]]:
        """Paths(s): from every operator without upstream to the producer of the output."""
        stack: list[tuple[str, ...]] = [(self.producer[output],)]
        while stack:
            path = stack.pop()
            before = self.upstream(path[0])
            if not before:
                yield path
            stack.extend((name, *path) for name in before)

    def count_paths(self, output: str) -> int:
        """Number of paths that end in an output, counted without enumerating them."""
        count: dict[str, int] = {}
        for name in self.needed[output]:
            count[name] = sum(count[before] for before in self.upstream(name)) or 1
        return count[self.producer[output]]
