"""Random queries with deadlines, of any size and tightness, for `deadline_scale`.

A query has five or six operators of 1-5 ms. The first operator runs on the node of its source, the
last one on the node of its sink; both nodes are among a few gateways. The other operators may run
on a choice of nodes. Every fifth operator joins the stream of an earlier operator of its query. The
deadline of a query is its work times a looseness, which differs fourfold between queries.

*Tightness*: if the looseness is large enough, neither the work tied to a gateway nor the total
work, spread evenly over all nodes, exceeds a proportional sub-deadline anywhere. The tightness is
the ratio of that looseness to the one used. Below 1, a good placement has proportional
sub-deadlines and objective 0. Above 1, no placement has, and the objective says by how much the
best sub-deadlines deviate.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from foundation.arrays import FloatArray
from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)

COST_MS = (1.0, 5.0)
LOOSENESS = (1.0, 4.0)
JOINS = 0.2
OPERATORS_A_QUERY = 6
CHOICES = 8
"""Candidates of an operator that is not tied: any nodes, or, with latencies, some of the twice as
many nodes that are nearest to the path from source to sink."""


def random_queries(
    nodes: int,
    operators: int,
    *,
    gateways: float = 0.25,
    tightness: float = 1.05,
    farthest_ms: float = 0.0,
    seed: int = 0,
) -> DeadlineProblem:
    """A problem with this number of nodes and operators, in queries of up to six operators.

    Parameters
    ----------
    gateways
        Share of nodes that have sources and sinks.
    tightness
        See the module; latencies do not enter it.
    farthest_ms
        One-way latency along the diagonal of the square in which nodes lie, ms; 0: no latencies.
    """
    rng = np.random.default_rng([seed, nodes, operators])
    names = [f"n{n}" for n in range(nodes)]
    points = rng.uniform(0, farthest_ms / np.sqrt(2), (nodes, 2))
    one_way_ms: FloatArray | None = None
    if farthest_ms:
        one_way_ms = np.asarray(np.linalg.norm(points[:, None] - points, axis=2), np.float64)
    entries = names[: max(1, int(gateways * nodes))]
    placed: list[DeadlineOperator] = []
    sources: list[DeadlineSource] = []
    outputs: list[DeadlineOutput] = []
    queries = -(-operators // OPERATORS_A_QUERY)
    for q, part in enumerate(np.array_split(np.arange(operators), queries)):
        site, sink = (str(name) for name in rng.choice(entries, size=2))
        sources.append(DeadlineSource(stream=f"q{q}.in", nodes=(site,)))
        pool = names
        if one_way_ms is not None:
            way_ms = one_way_ms[names.index(site)] + one_way_ms[:, names.index(sink)]
            pool = [names[int(n)] for n in np.argsort(way_ms, kind="stable")[: 2 * CHOICES]]
        operators_here = _query(rng, q, len(part), pool, site, sink)
        placed += operators_here
        work_ms = sum(operator.cost_ms for operator in operators_here)
        outputs.append(
            DeadlineOutput(
                stream=operators_here[-1].outputs[0],
                deadline_ms=work_ms * float(rng.uniform(*LOOSENESS)),
                sink=sink,
            )
        )
    draft = DeadlineProblem(
        nodes=tuple(DeadlineNode(name=name) for name in names),
        operators=tuple(placed),
        sources=tuple(sources),
        outputs=tuple(outputs),
    )
    return _tightened(draft, tightness, one_way_ms)


def _query(
    rng: np.random.Generator, q: int, size: int, pool: list[str], site: str, sink: str
) -> list[DeadlineOperator]:
    streams = [f"q{q}.in"]
    made: list[DeadlineOperator] = []
    for i in range(size):
        inputs = {streams[-1]}
        if rng.random() < JOINS:
            inputs.add(str(rng.choice(streams)))
        choices = rng.choice(pool, size=min(CHOICES, len(pool)), replace=False)
        ends = {0: (site,), size - 1: (sink,)}
        made.append(
            DeadlineOperator(
                name=f"q{q}.{i}",
                cost_ms=float(rng.uniform(*COST_MS)),
                inputs=tuple(sorted(inputs)),
                outputs=(f"q{q}.s{i}",),
                candidates=ends.get(i, tuple(str(name) for name in choices)),
            )
        )
        streams.append(f"q{q}.s{i}")
    return made


def _tightened(
    draft: DeadlineProblem, tightness: float, one_way_ms: FloatArray | None
) -> DeadlineProblem:
    """The problem with all deadlines scaled by one factor, which keeps the order of the pairs."""
    work_ms, most = 0.0, 0.0
    tied_ms = dict.fromkeys(draft.node_index, 0.0)
    for at, pair in enumerate(draft.pairs):
        if draft.first[pair.operator] == at:
            operator = draft.by_name[pair.operator]
            work_ms += operator.cost_ms
            if len(operator.candidates) == 1:
                tied_ms[operator.candidates[0]] += operator.cost_ms
        demand_ms = max(work_ms / len(draft.nodes), *tied_ms.values())
        most = max(most, demand_ms / pair.proportional_ms)
    outputs = (
        replace(output, deadline_ms=output.deadline_ms * most / tightness)
        for output in draft.outputs
    )
    return replace(draft, outputs=tuple(outputs), one_way_ms=one_way_ms)
