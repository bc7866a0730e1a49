"""Deadline problems on two nodes, written briefly."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from placement.deadline.problem import DeadlineProblem
from placement.deadline.records import (
    Admitted,
    DeadlineNode,
    DeadlineOperator,
    DeadlineOutput,
    DeadlineSource,
)

BOTH = ("a", "b")


def operator(
    name: str,
    cost_ms: float,
    inputs: str,
    *,
    candidates: tuple[str, ...] = BOTH,
    outputs: str | None = None,
) -> DeadlineOperator:
    """An operator; streams are told as words, its output is called like it."""
    return DeadlineOperator(
        name=name,
        cost_ms=cost_ms,
        inputs=tuple(inputs.split()),
        outputs=tuple((outputs or f"{name}.out").split()),
        candidates=candidates,
    )


def problem(
    operators: list[DeadlineOperator],
    deadlines_ms: Mapping[str, float],
    *,
    sink: str = "b",
    sources: tuple[str, ...] = ("in",),
    latency_ms: float = 0.0,
    speeds: tuple[float, float] = (1.0, 1.0),
    admitted: Mapping[str, tuple[Admitted, ...]] | None = None,
    rates_bytes_s: Mapping[str, float] | None = None,
) -> DeadlineProblem:
    """Sources are on node a, sinks on b unless told otherwise."""
    return DeadlineProblem(
        nodes=tuple(
            DeadlineNode(name=name, speed=speed, admitted=(admitted or {}).get(name, ()))
            for name, speed in zip(BOTH, speeds, strict=True)
        ),
        operators=tuple(operators),
        sources=tuple(DeadlineSource(stream=name, nodes=("a",)) for name in sources),
        outputs=tuple(
            DeadlineOutput(stream=name, deadline_ms=ms, sink=sink)
            for name, ms in deadlines_ms.items()
        ),
        one_way_ms=np.array([[0.0, latency_ms], [latency_ms, 0.0]]) if latency_ms else None,
        rates_bytes_s=rates_bytes_s or {},
    )


def chain(
    *costs_ms: float,
    deadline_ms: float,
    latency_ms: float = 0.0,
    tied: Mapping[str, str] | None = None,
) -> DeadlineProblem:
    """o0 → o1 → … with one output; `tied`: operator → node, of those without choice."""
    fixed = tied or {}
    operators = [
        operator(
            f"o{i}",
            cost_ms,
            "in" if i == 0 else f"o{i - 1}.out",
            candidates=(fixed[f"o{i}"],) if f"o{i}" in fixed else BOTH,
        )
        for i, cost_ms in enumerate(costs_ms)
    ]
    last = f"o{len(costs_ms) - 1}.out"
    return problem(operators, {last: deadline_ms}, latency_ms=latency_ms)
