"""The query graph, which is to be placed (reliable placement, §3 and §4.3).

Operators are joined by links that carry data at a known rate. Sources, sinks and all operators that
have their place already are *pinned*. The planner places the others and protects each with a
secondary. The paper places trees; any acyclic graph is accepted here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from operator import attrgetter

from placement.errors import GraphError

MAX_RATE = 1e12
"""Bytes or tuples per second above which a rate is a mistake: beyond any network, and beyond the
ratio to a slow link that relaxation can resolve in double precision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One unit of placement.

    Attributes
    ----------
    name
        Unique within its query; among operators to be placed, in the whole plan.
    cost_us
        Processing time per input tuple, µs, ≥ 0.
    cores
        CPU that one replica needs, cores, ≥ 0; None: its input tuples/s times its cost.
    pinned
        Node that it is fixed to; None: the planner chooses one.
    allowed
        Nodes that its primary may take; empty: any. One that runs elsewhere already, after a
        takeover, may stay.
    flows_to
        Of a pinned source, nodes to which its stream flows anyway, because others read it there: a
        link from it to one of them costs nothing.
    """

    name: str
    cost_us: float = 0.0
    cores: float | None = None
    pinned: str | None = None
    allowed: tuple[str, ...] = ()
    flows_to: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """A stream from one operator to another.

    Attributes
    ----------
    rate_bytes_s, tuples_s
        Data rate DR, bytes/s, and the tuples/s it consists of, ≥ 0.
    """

    source: str
    target: str
    rate_bytes_s: float
    tuples_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryGraph:
    """An acyclic graph of operators, every one of them fed by a pinned source.

    Raises
    ------
    GraphError
        If a name occurs twice or is unknown, a figure is negative or no number, the graph has a
        cycle, or an operator has no source upstream.
    """

    name: str
    operators: tuple[Operator, ...]
    links: tuple[Link, ...]
    order: tuple[str, ...] = field(init=False)
    """Names in topological order; ties by name, so the order of the input does not matter."""
    by_name: dict[str, Operator] = field(init=False, repr=False, compare=False)
    inputs: dict[str, tuple[Link, ...]] = field(init=False, repr=False, compare=False)
    """Links into each operator, by source name."""
    outputs: dict[str, tuple[Link, ...]] = field(init=False, repr=False, compare=False)
    """Links out of each operator, by target name."""
    mean_input_rate: float = field(init=False, repr=False, compare=False)
    """Input rate of an operator to be placed, on average, bytes/s: 0 if there is none."""

    def __post_init__(self) -> None:
        by_name: dict[str, Operator] = {}
        for operator in self.operators:
            if operator.name in by_name:
                raise GraphError(self.name, f"operator {operator.name}", "occurs twice")
            subject = f"operator {operator.name}"
            self._check_figure(subject, "cost_us", operator.cost_us, math.inf)
            self._check_figure(subject, "cores", operator.cores or 0.0, math.inf)
            if operator.flows_to and operator.pinned is None:
                raise GraphError(self.name, subject, "has no place, so it flows nowhere; pin it")
            by_name[operator.name] = operator
        self._check_links(by_name)
        by_ends = sorted(self.links, key=attrgetter("source", "target"))
        inputs = {n: tuple(link for link in by_ends if link.target == n) for n in by_name}
        outputs = {n: tuple(link for link in by_ends if link.source == n) for n in by_name}
        object.__setattr__(self, "by_name", by_name)
        object.__setattr__(self, "inputs", inputs)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "order", self._topological_order())
        for name in self.to_place:
            if not inputs[name]:
                raise GraphError(
                    self.name, f"operator {name}", "has no input; a source must be pinned to a node"
                )
        rates = [self.input_rate(name) for name in self.to_place]
        object.__setattr__(self, "mean_input_rate", sum(rates) / max(len(rates), 1))

    @property
    def to_place(self) -> tuple[str, ...]:
        """Operators that are not pinned, in topological order."""
        return tuple(name for name in self.order if self.by_name[name].pinned is None)

    @property
    def pinned(self) -> dict[str, str]:
        """Node of every pinned operator."""
        return {o.name: o.pinned for o in self.operators if o.pinned is not None}

    def input_rate(self, operator: str) -> float:
        """Data rate of all inputs of an operator together, bytes/s."""
        return sum(link.rate_bytes_s for link in self.inputs[operator])

    def cores(self, operator: str) -> float:
        """CPU that one replica of an operator needs, cores."""
        known = self.by_name[operator].cores
        if known is not None:
            return known
        tuples_s = sum(link.tuples_s for link in self.inputs[operator])
        return tuples_s * self.by_name[operator].cost_us / 1e6

    def _check_links(self, by_name: dict[str, Operator]) -> None:
        seen: set[tuple[str, str]] = set()
        for link in self.links:
            subject = f"link {link.source} → {link.target}"
            for end in (link.source, link.target):
                if end not in by_name:
                    raise GraphError(self.name, subject, f"no operator is named {end!r}")
            if (link.source, link.target) in seen:
                raise GraphError(self.name, subject, "occurs twice; give it the sum of the rates")
            seen.add((link.source, link.target))
            self._check_figure(subject, "rate_bytes_s", link.rate_bytes_s, MAX_RATE)
            self._check_figure(subject, "tuples_s", link.tuples_s, MAX_RATE)

    def _check_figure(self, subject: str, name: str, value: float, limit: float) -> None:
        if not math.isfinite(value) or not 0 <= value <= limit:
            upper = f" and at most {limit:g}" if math.isfinite(limit) else ""
            raise GraphError(self.name, subject, f"{name} {value} is not a number ≥ 0{upper}")

    def _topological_order(self) -> tuple[str, ...]:
        """Kahn's algorithm, smallest name first.

        Since a graph without cycles has its first operators without input, and those must be
        pinned, every operator then has a source upstream: a cycle without source is refused too.
        """
        waiting = {name: len(self.inputs[name]) for name in self.by_name}
        order: list[str] = []
        while ready := sorted(name for name, count in waiting.items() if count == 0):
            for name in ready:
                order.append(name)
                del waiting[name]
                for link in self.outputs[name]:
                    waiting[link.target] -= 1
        if waiting:
            raise GraphError(
                self.name,
                f"operators {', '.join(sorted(self._on_cycles(set(waiting))))}",
                "feed each other in a cycle; a loop has to stay inside one operator",
            )
        return tuple(order)

    def _on_cycles(self, stuck: set[str]) -> set[str]:
        """The stuck operators without those that are merely downstream of a cycle."""
        while ends := {
            name for name in stuck if not any(link.target in stuck for link in self.outputs[name])
        }:
            stuck -= ends
        return stuck
