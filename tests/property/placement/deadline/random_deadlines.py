"""Random deadline problems, and all of their placements."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    Admitted,
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)
from placement.deadline.result import deviation
from placement.deadline.sub_deadlines import best_sub_deadlines


def random_problem(
    seed: int,
    *,
    nodes: int,
    queries: int,
    operators: int,
    looseness: tuple[float, float] = (2.0, 20.0),
    latency_ms: float = 0.0,
    shared: bool = True,
    busy: bool = False,
    free: float = 0.8,
) -> DeadlineProblem:
    """Queries of some operators each, every operator taking one or two streams from before.

    Parameters
    ----------
    looseness
        Deadlines as multiples of the work of an output.
    latency_ms
        Largest one-way latency; 0: neglected.
    shared
        Whether queries take streams of earlier ones.
    busy
        Whether nodes have different speeds and run something already.
    free
        Share of operators that may take any node.
    """
    rng = np.random.default_rng(seed)
    names = [f"n{i}" for i in range(nodes)]
    placed: list[DeadlineOperator] = []
    sources: list[DeadlineSource] = []
    ends: list[str] = []
    for q in range(queries):
        sources.append(DeadlineSource(stream=f"s{q}", nodes=(str(rng.choice(names)),)))
        streams = [f"s{q}"]
        for i in range(operators):
            pool = [*streams, *(ends if shared and i == 0 else [])]
            inputs = {streams[-1], *(str(s) for s in rng.choice(pool, size=rng.integers(0, 2)))}
            any_node = rng.random() < free
            placed.append(
                DeadlineOperator(
                    name=f"o{q}.{i}",
                    cost_ms=float(rng.uniform(1, 5)),
                    inputs=tuple(sorted(inputs)),
                    outputs=(f"t{q}.{i}",),
                    candidates=tuple(names) if any_node else (str(rng.choice(names)),),
                )
            )
            streams.append(f"t{q}.{i}")
        ends.append(streams[-1])
    return _with_deadlines(rng, names, placed, sources, ends, looseness, latency_ms, busy)


def _with_deadlines(
    rng: np.random.Generator,
    names: list[str],
    placed: list[DeadlineOperator],
    sources: list[DeadlineSource],
    ends: list[str],
    looseness: tuple[float, float],
    latency_ms: float,
    busy: bool,
) -> DeadlineProblem:
    n = len(names)
    one_way_ms = rng.uniform(0, latency_ms, size=(n, n)) if latency_ms else None
    if one_way_ms is not None:
        np.fill_diagonal(one_way_ms, 0)
    draft = DeadlineProblem(
        nodes=tuple(
            DeadlineNode(
                name=name,
                speed=float(rng.uniform(0.5, 2)) if busy else 1.0,
                admitted=(
                    Admitted(
                        name="old",
                        cost_ms=float(rng.uniform(1, 3)),
                        deadline_ms=float(rng.uniform(5, 60)),
                    ),
                )
                if busy
                else (),
            )
            for name in names
        ),
        operators=tuple(placed),
        sources=tuple(sources),
        outputs=tuple(
            DeadlineOutput(stream=s, deadline_ms=1.0, sink=str(rng.choice(names))) for s in ends
        ),
        one_way_ms=one_way_ms,
        rates_bytes_s={s.stream: 1000.0 for s in sources},
    )
    outputs = (
        replace(output, deadline_ms=draft.work_ms[output.stream] * float(rng.uniform(*looseness)))
        for output in draft.outputs
    )
    return replace(draft, outputs=tuple(outputs))


def best_of_all(problem: DeadlineProblem) -> float | None:
    """The least (3) of all placements there are; None if none keeps the deadlines."""
    choices = [problem.by_name[name].candidates for name in problem.order]
    found = [
        deviation(problem, pair_deadlines_ms)
        for nodes in product(*choices)
        if (
            pair_deadlines_ms := best_sub_deadlines(
                problem, dict(zip(problem.order, nodes, strict=True))
            )
        )
        is not None
    ]
    return min(found, default=None)
