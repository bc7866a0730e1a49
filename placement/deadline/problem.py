"""What is to be placed under deadlines (deadline placement, §3 and §5.2.2).

========================  ====================  ============================================
symbol                    name here             meaning
========================  ====================  ============================================
N, O, S, T                nodes, operators,     T, the output streams, within S, all streams
                          streams, outputs
In(o), Out(o)             inputs, outputs       streams of an operator
Src(n, s)                 DeadlineSource.nodes  nodes on which a source supplies s
Node(o)                   candidates            nodes that o may take
Pre(s)                    needed[s]             operators that output s needs
Paths(s)                  paths(s)              operator paths that end in s
d_s                       deadline_ms           end-to-end deadline of output s
c_o, c'_s                 cost_ms, work_ms[s]   cost of o; of all of Pre(s)
d'_{s,o} = c_o·d_s/c'_s   Pair.proportional_ms  fair share of o in d_s                     (1)
========================  ====================  ============================================

Every stream has one origin: an operator, or a source, which may supply it on several nodes.
Operators wait for all of their inputs. An operator that no output needs has no deadline and is
refused, since no test would see its work.

Beyond the paper: nodes of different speeds, nodes that run admitted work already, the latency
between nodes, and operators that stand for several (`placement.deadline.contraction`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from placement.deadline.checks import check
from placement.deadline.errors import DeadlineProblemError
from placement.deadline.records import (
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
    Pair,
)
from topology.arrays import FloatArray

SAME_DIGITS = 9
"""Significant digits in which fair shares are compared: equal on paper is equal here."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeadlineProblem:
    """Nodes, operators and deadlines that agree with each other.

    Attributes
    ----------
    one_way_ms
        Latency from node to node in the order of `nodes`, shape (n, n), ms; None: neglected, as
        in the paper.
    rates_bytes_s
        Stream → its rate, for network usage; 0 where it is not told.
    producer
        Stream → the operator that it comes from.
    consumers
        Stream → operators that take it in, by name.
    order
        Operators, none before one that it takes input from.
    needed
        Pre(s), in that order, by output stream.
    work_ms
        c'_s by output stream.
    pairs
        By fair share; equal ones by their outputs' deadlines, then by name. (6) is in this
        order.
    first
        Operator → the place in `pairs` of its earliest one, where (6) charges it.

    Raises
    ------
    DeadlineProblemError
        Naming the part and the value.
    """

    nodes: tuple[DeadlineNode, ...]
    operators: tuple[DeadlineOperator, ...]
    sources: tuple[DeadlineSource, ...]
    outputs: tuple[DeadlineOutput, ...]
    one_way_ms: FloatArray | None = None
    rates_bytes_s: Mapping[str, float] = field(default_factory=dict[str, float])
    node_index: dict[str, int] = field(init=False, repr=False)
    by_name: dict[str, DeadlineOperator] = field(init=False, repr=False)
    output: dict[str, DeadlineOutput] = field(init=False, repr=False)
    producer: dict[str, str] = field(init=False, repr=False)
    consumers: dict[str, tuple[str, ...]] = field(init=False, repr=False)
    source: dict[str, DeadlineSource] = field(init=False, repr=False)
    order: tuple[str, ...] = field(init=False, repr=False)
    needed: dict[str, tuple[str, ...]] = field(init=False, repr=False)
    work_ms: dict[str, float] = field(init=False, repr=False)
    pairs: tuple[Pair, ...] = field(init=False, repr=False)
    first: dict[str, int] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        put = object.__setattr__
        put(self, "node_index", {node.name: at for at, node in enumerate(self.nodes)})
        put(self, "by_name", {operator.name: operator for operator in self.operators})
        put(self, "output", {output.stream: output for output in self.outputs})
        put(self, "source", {source.stream: source for source in self.sources})
        put(self, "producer", {s: o.name for o in self.operators for s in o.outputs})
        check(self)
        consumers: dict[str, tuple[str, ...]] = dict.fromkeys((*self.source, *self.producer), ())
        for name in sorted(self.by_name):
            for stream in dict.fromkeys(self.by_name[name].inputs):
                consumers[stream] += (name,)
        put(self, "consumers", consumers)
        put(self, "order", _topological(self))
        put(self, "needed", {output.stream: self._pre(output.stream) for output in self.outputs})
        needed = {name for names in self.needed.values() for name in names}
        for name in self.order:
            if name not in needed:
                raise DeadlineProblemError(
                    f"operator {name}", "no output needs it; leave it out or name its output"
                )
        put(self, "work_ms", {s: sum(map(self.cost_ms, names)) for s, names in self.needed.items()})
        put(self, "pairs", tuple(sorted(self._pairs(), key=self._rank)))
        first: dict[str, int] = {}
        for at, pair in enumerate(self.pairs):
            first.setdefault(pair.operator, at)
        put(self, "first", first)

    @property
    def streams(self) -> tuple[str, ...]:
        """S: those of sources, then those of operators in their order."""
        made = (stream for name in self.order for stream in self.by_name[name].outputs)
        return (*self.source, *made)

    @property
    def latency_ms(self) -> FloatArray:
        """One-way latencies, shape (n, n), ms; zeros where they are neglected."""
        n = len(self.nodes)
        return np.zeros((n, n)) if self.one_way_ms is None else self.one_way_ms

    def cost_ms(self, operator: str) -> float:
        """c_o, ms."""
        return self.by_name[operator].cost_ms

    def upstream(self, operator: str) -> tuple[str, ...]:
        """Operators that one takes input from."""
        inputs = self.by_name[operator].inputs
        return tuple(dict.fromkeys(self.producer[s] for s in inputs if s in self.producer))

    def paths(self, output: str) -> Iterator[tuple[str, ...]]:
        """Paths(s): from every operator without upstream to the one that makes the output."""
        stack: list[tuple[str, ...]] = [(self.producer[output],)]
        while stack:
            path = stack.pop()
            before = self.upstream(path[0])
            if not before:
                yield path
            stack.extend((name, *path) for name in before)

    def count_paths(self, output: str) -> int:
        """How many paths end in an output, without walking them."""
        count: dict[str, int] = {}
        for name in self.needed[output]:
            count[name] = sum(count[before] for before in self.upstream(name)) or 1
        return count[self.producer[output]]

    def _pre(self, output: str) -> tuple[str, ...]:
        found, stack = set[str](), [self.producer[output]]
        while stack:
            name = stack.pop()
            if name not in found:
                found.add(name)
                stack.extend(self.upstream(name))
        return tuple(name for name in self.order if name in found)

    def _pairs(self) -> Iterator[Pair]:
        # d'_{s,o} = c_o·d_s/c'_s                                                    (1)
        for output in self.outputs:
            stretch = output.deadline_ms / self.work_ms[output.stream]
            for name in self.needed[output.stream]:
                yield Pair(
                    output=output.stream,
                    operator=name,
                    proportional_ms=self.cost_ms(name) * stretch,
                )

    def _rank(self, pair: Pair) -> tuple[float, float, str, str]:
        proportional_ms = float(f"{pair.proportional_ms:.{SAME_DIGITS - 1}e}")
        return proportional_ms, self.output[pair.output].deadline_ms, pair.output, pair.operator


def _topological(problem: DeadlineProblem) -> tuple[str, ...]:
    """Kahn's algorithm, smallest name first."""
    waiting = {name: set(problem.upstream(name)) for name in problem.by_name}
    order: list[str] = []
    while ready := sorted(name for name, before in waiting.items() if not before):
        order += ready
        for name in ready:
            del waiting[name]
        for before in waiting.values():
            before.difference_update(ready)
    if waiting:
        raise DeadlineProblemError(
            f"operators {', '.join(sorted(waiting))}", "feed each other in a cycle"
        )
    return tuple(order)
